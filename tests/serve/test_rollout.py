"""When a rollout counts as failed for a service that takes it back: from data."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fleet.bundle.model import BundleBudget
from fleet.bundle.rollout import BundleHeader, plan_bundles
from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.git.repository import GitRepository
from fleet.objects.desired import Desired, Key, StackCluster
from fleet.plan import Inventory, Plan, Step, Verb
from fleet.repository import Repository
from fleet.repository.settings import Settings
from fleet.serve.commits import EvaluatedCommit
from fleet.serve.rollout import RolloutTracker
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout.gates import UNSEEN, RolloutState
from fleet.sync.rollout.order import RolloutContext, RolloutQueue
from fleet.sync.source import Commit

HERE = Source("stacks/orders.py", 1)
ROLLOUT = RolloutData((("eu",), ("us",)), "5m", "15m", 1, on_failure="rollback", rollback_after="0s")
ORDERS = StackResult("orders", HERE, ("eu", "us"), ROLLOUT, tuple(Desired("orders", one, ()) for one in ("eu", "us")))
CLUSTERS = tuple(ClusterData(name, {}, None, None, False, HERE) for name in ("eu", "us"))
COMMIT = Commit(Repository(Path("/nowhere"), Settings()), GitRepository(Path("/nowhere")), "a" * 40, "")
WANTED = EvaluatedCommit(COMMIT, Evaluation(CLUSTERS, (ORDERS,)))


@dataclass
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def seen(cluster: str, health: str, *, wrote: bool = False, changed: str = "") -> Result:
    made = Plan("orders", cluster, (), Inventory("orders", cluster, changed=changed))
    done = Counter({Verb.UPDATE: 1}) if wrote else Counter[Verb]()
    return Result("orders", cluster, made, health=health, done=done)


def order() -> tuple[RolloutTracker, Clock]:
    clock = Clock()
    return RolloutTracker(clock), clock


def test_the_first_cluster_that_a_change_makes_ill_is_a_failure_at_once_or_after_the_timeout() -> None:
    found, clock = order()
    found.note(WANTED, seen("eu", "Progressing", wrote=True))
    assert found.find_failure(WANTED, ORDERS) is None
    found.note(WANTED, seen("eu", "Degraded"))
    assert found.find_failure(WANTED, ORDERS) == ("eu", "Degraded")
    found, clock = order()
    found.note(WANTED, seen("eu", "Missing", wrote=True))
    assert found.find_failure(WANTED, ORDERS) is None, "what is not there yet is not ill"
    clock.now += 16 * 60
    assert found.find_failure(WANTED, ORDERS) == ("eu", "Missing after 15m")
    found, clock = order()
    found.note(WANTED, seen("eu", "Progressing", wrote=True))
    clock.now += 16 * 60
    assert found.find_failure(WANTED, ORDERS) == ("eu", "Progressing after 15m")


def test_one_that_was_well_for_the_soak_time_everywhere_is_over() -> None:
    found, clock = order()
    for cluster in ("eu", "us"):
        found.note(WANTED, seen(cluster, "Healthy", wrote=True))
    assert found.find_failure(WANTED, ORDERS) is None
    clock.now += 60
    found.note(WANTED, seen("us", "Degraded"))
    assert found.find_failure(WANTED, ORDERS) == ("us", "Degraded"), "the last wave soaks, too"
    found, clock = order()
    for cluster in ("eu", "us"):
        found.note(WANTED, seen(cluster, "Healthy", wrote=True))
    assert found.find_failure(WANTED, ORDERS) is None
    clock.now += 6 * 60
    found.note(WANTED, seen("us", "Degraded"))
    assert found.find_failure(WANTED, ORDERS) is None, "what falls ill now has another cause"
    found.begin_rollouts(["orders"])
    found.note(WANTED, seen("us", "Degraded", wrote=True))
    assert found.find_failure(WANTED, ORDERS) == ("us", "Degraded"), "a new commit is a new rollout"


LASTING = replace(ORDERS, rollout=replace(ROLLOUT, rollback_after="2m"))


def test_only_illness_that_lasts_without_a_break_is_a_failure() -> None:
    found, clock = order()
    found.note(WANTED, seen("eu", "Progressing", wrote=True))
    assert found.failing_clusters(WANTED, LASTING) == {}
    found.note(WANTED, seen("eu", "Degraded"))
    assert (found.find_failure(WANTED, LASTING), found.failing_clusters(WANTED, LASTING)) == (None, {"eu": 120})
    clock.now += 90
    found.note(WANTED, seen("eu", "Progressing"))
    clock.now += 5
    found.note(WANTED, seen("eu", "Degraded"))
    clock.now += 90
    found.note(WANTED, seen("eu", "Degraded"))
    assert (found.find_failure(WANTED, LASTING), found.failing_clusters(WANTED, LASTING)) == (None, {"eu": 30}), (
        "it came and went"
    )
    clock.now += 30
    found.note(WANTED, seen("eu", "Degraded"))
    assert (found.find_failure(WANTED, LASTING), found.failing_clusters(WANTED, LASTING)) == (("eu", "Degraded"), {})


def test_what_an_agent_tells_has_to_last_as_well_and_is_looked_at_again_then() -> None:
    found, clock = order()
    pair, ill = ("orders", "eu"), RolloutState(seen=True, applied=True, health="Degraded", since=clock.now - 30)
    lasting = replace(WANTED, evaluation=Evaluation(CLUSTERS, (LASTING,)))
    found.take_agent_states("a" * 40, {pair: ill}, {pair: clock.now - 60})
    assert (found.find_failure(lasting, LASTING), found.seconds_to_failure(lasting)) == (None, 90)
    clock.now += 90
    assert found.find_failure(lasting, LASTING) == ("eu", "Degraded")


def test_what_was_ill_when_the_change_came_is_not_ill_of_it() -> None:
    newer = replace(WANTED, files=replace(WANTED.files, revision="b" * 40))
    for before, fails in (("Degraded", False), ("Healthy", True)):
        found, _ = order()
        found.note(WANTED, seen("eu", before))
        found.note(newer, seen("eu", "Degraded", wrote=True))
        assert (found.find_failure(newer, ORDERS) is not None) == fails, before


def test_after_a_restart_only_what_changed_a_short_time_ago_counts() -> None:
    for changed, fails in (("2027-01-15T07:55:00Z", True), ("2027-01-15T07:30:00Z", False), ("", False)):
        found, _ = order()  # it is 2027-01-15 08:00
        found.note(WANTED, seen("eu", "Degraded", changed=changed))
        assert (found.find_failure(WANTED, ORDERS) is not None) == fails, changed


def test_nothing_of_an_earlier_revision_counts() -> None:
    found, _ = order()
    found.note(WANTED, seen("eu", "Degraded", wrote=True))
    newer = replace(WANTED, files=replace(WANTED.files, revision="b" * 40))
    assert found.find_failure(newer, ORDERS) is None


def test_a_cluster_that_is_reached_from_here_waits_for_one_that_pulls_and_for_this_commit() -> None:
    found, clock = order()
    found.note(WANTED, seen("us", "Healthy"))
    pair, well = ("orders", "eu"), RolloutState(seen=True, applied=True, health="Healthy", since=clock.now - 301)

    def waits() -> str:
        refused = found.find_objection(WANTED, ORDERS, "us", Counter())
        return refused.message if refused else ""

    assert "wave 1 is not done: eu was not looked at yet" in waits()
    found.take_agent_states("b" * 40, {pair: well}, {})
    assert "wave 1 is not done: eu was not looked at yet" in waits(), "that was another commit"
    found.take_agent_states("a" * 40, {pair: replace(well, health="Degraded", since=clock.now)}, {})
    assert "eu has this revision and is Degraded" in waits()
    found.take_agent_states("a" * 40, {pair: well}, {})
    assert waits() == ""


def test_what_an_agent_tells_is_a_failure_if_it_was_changed_a_short_time_ago() -> None:
    found, clock = order()
    pair, ill = ("orders", "eu"), RolloutState(seen=True, applied=True, health="Degraded", since=clock.now)
    for revision, given, fails in (
        ("a", clock.now - 60, True),
        ("a", clock.now - 21 * 60, False),
        ("b", clock.now - 60, False),
    ):
        found.take_agent_states(revision * 40, {pair: ill}, {pair: given})
        assert (found.find_failure(WANTED, ORDERS) is not None) == fails, (revision, given)
    found.take_agent_states("a" * 40, {pair: ill}, {})
    assert found.find_failure(WANTED, ORDERS) is None, "nobody knows when"


def test_what_a_pass_saw_and_what_an_agent_told_do_not_hide_each_other() -> None:
    """A cluster turns from one kind to the other, and both are under way: only what is of this commit counts."""
    found, clock = order()
    pair, ill = ("orders", "eu"), RolloutState(seen=True, applied=True, health="Degraded", since=clock.now)
    before = replace(WANTED, files=replace(WANTED.files, revision="b" * 40))
    found.take_agent_states("b" * 40, {pair: ill}, {pair: clock.now - 60})
    found.note(WANTED, seen("eu", "Degraded", changed="2027-01-15T07:30:00Z"))  # it is 2027-01-15 08:00
    assert found.state(WANTED, pair).health == "Degraded"
    assert found.find_failure(WANTED, ORDERS) is None, "the agent's date is not the pass's"
    found.take_agent_states("a" * 40, {}, {})
    assert found.state(WANTED, pair).seen, "what a pass saw stays"
    found, clock = order()
    found.note(before, seen("eu", "Healthy", wrote=True))  # a pass that ended late
    found.take_agent_states("a" * 40, {pair: ill}, {pair: clock.now - 21 * 60})
    assert found.state(WANTED, pair) == ill
    assert found.find_failure(WANTED, ORDERS) is None, "the pass's date is not the agent's"
    found.take_agent_states("a" * 40, {pair: ill}, {pair: clock.now - 60})
    assert found.find_failure(WANTED, ORDERS) == ("eu", "Degraded")


def test_the_clock_makes_a_failure_of_what_an_agent_tells_once_and_never_of_what_is_well() -> None:
    found, clock = order()
    pair, moving = ("orders", "eu"), RolloutState(seen=True, applied=True, health="Unknown", since=clock.now)
    for one, given, after in (
        (moving, clock.now - 60, 15 * 60),
        (replace(moving, health="Healthy"), clock.now - 60, None),
        (replace(moving, begun=True), clock.now - 60, None),
        (moving, clock.now - 21 * 60, None),
        (replace(moving, since=clock.now - 16 * 60), clock.now - 17 * 60, None),
    ):
        found.take_agent_states("a" * 40, {pair: one}, {pair: given})
        assert found.seconds_to_failure(WANTED) == after, (one, given)
    found.take_agent_states("a" * 40, {pair: moving}, {pair: clock.now - 60})
    clock.now += 15 * 60 + 1
    assert found.find_failure(WANTED, ORDERS) == ("eu", "Unknown after 15m")
    assert found.seconds_to_failure(WANTED) is None, "and nothing more comes of it"
    stops = replace(ORDERS, rollout=replace(ROLLOUT, on_failure="stop"))
    found.take_agent_states("a" * 40, {pair: replace(moving, since=clock.now)}, {pair: clock.now})
    assert found.seconds_to_failure(replace(WANTED, evaluation=Evaluation(CLUSTERS, (stops,)))) is None


def test_what_was_seen_counts_for_the_next_commit_only_if_it_was_seen_with_the_one_before_it() -> None:
    found, _ = order()
    pair, next_one, third = ("orders", "eu"), "b" * 40, "c" * 40
    found.note(WANTED, seen("eu", "Healthy"))
    found.carry_over([pair], next_one, third)
    assert not found.state(replace(WANTED, files=replace(WANTED.files, revision=third)), pair).seen
    found.carry_over([pair], WANTED.commit, next_one)
    assert found.state(replace(WANTED, files=replace(WANTED.files, revision=next_one)), pair).is_well


NOW = Clock().now
WELL_AT_IT = RolloutState(seen=True, applied=True, health="Healthy", since=NOW - 3600)
BEFORE_IT = RolloutState(seen=True, health="Healthy")
HEAD = BundleHeader("shop", WANTED.revision, "", BundleBudget(10, 0.1), "", "fleet/status")


def refused_by_run(states: dict[StackCluster, RolloutState]) -> str:
    pair = ("orders", "us")
    key = Key("", "ConfigMap", "orders", "settings")
    made = Plan(*pair, (Step(Verb.CREATE, key, {}),), Inventory(*pair))

    async def look(placement: StackCluster) -> str:
        return states[placement].health

    async def asked() -> str:
        order = RolloutContext({"orders": ORDERS}, wait=False, clock=Clock())
        async with RolloutQueue(order, dict(states), {pair}, look, lambda *words: None).serve() as queue:
            refused = await queue.turn(made)
        return refused.reason if isinstance(refused, WaitingError) else ""

    return asyncio.run(asked())


def refused_by_service(states: dict[StackCluster, RolloutState]) -> str:
    tracker, _ = order()
    tracker.take_agent_states(WANTED.commit, states, {})
    refused = tracker.find_objection(WANTED, ORDERS, "us", Counter())
    return refused.reason if refused else ""


def held_back_by_bundles(states: dict[StackCluster, RolloutState]) -> str:
    found = plan_bundles(WANTED.evaluation, ["us"], HEAD, {}, states, now=NOW)
    return found.waiting.get(("orders", "us"), "")


@pytest.mark.parametrize(
    ("eu", "us", "reason"),
    [
        (WELL_AT_IT, BEFORE_IT, ""),
        (WELL_AT_IT, UNSEEN, ""),
        (UNSEEN, BEFORE_IT, "wave 1 is not done: eu was not looked at yet"),
        (BEFORE_IT, BEFORE_IT, "wave 1 is not done: eu does not have this revision yet, and is Healthy"),
        (replace(WELL_AT_IT, since=NOW - 60), BEFORE_IT, "wave 1 soaks: eu has to stay healthy for 5m"),
        (
            replace(WELL_AT_IT, health="Degraded"),
            BEFORE_IT,
            "the rollout is stopped: eu has this revision and is Degraded",
        ),
        (replace(BEFORE_IT, begun=True), BEFORE_IT, "wave 1 is not done: eu is being changed"),
        (replace(WELL_AT_IT, problem="no answer"), BEFORE_IT, "wave 1 is not done: eu failed: no answer"),
    ],
)
def test_a_run_the_service_and_the_bundles_decide_the_same_from_the_same(
    eu: RolloutState, us: RolloutState, reason: str
) -> None:
    states = {("orders", "eu"): eu, ("orders", "us"): us}
    assert [refused_by_run(states), refused_by_service(states), held_back_by_bundles(states)] == [reason] * 3
