"""The order of one run, from data: who begins after whom, who is refused, and what is waited for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from fleet.errors import AccessError, FleetError, ResourceError, Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.objects.desired import Desired, Key, StackCluster
from fleet.plan import Inventory, Plan, Step, Verb
from fleet.plan.inventory import Entry
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout import approvals
from fleet.sync.rollout.approvals import Approvals, changes_digest
from fleet.sync.rollout.gates import RolloutState, state_after, state_before
from fleet.sync.rollout.order import RolloutContext, RolloutQueue, describe_rollout, unchanged_stacks
from fleet.sync.targets import choose_targets

HERE = Source("stacks/orders.py", 1)
KEY = Key("", "ConfigMap", "orders", "settings")
OLD = RolloutState(seen=True, health="Healthy", since=0.0)
NEW = replace(OLD, applied=True)
WAVES = RolloutData((("eu",), ("us",), ("ap",)), "0s", "15m", 1)
AT_ONCE = RolloutData((("eu", "us", "ap"),), "0s", "15m")


def stack(
    name: str, rollout: RolloutData = WAVES, clusters: str = "ap eu us", needs: tuple[str, ...] = ()
) -> StackResult:
    places = tuple(clusters.split())
    return StackResult(name, HERE, places, rollout, tuple(Desired(name, one, ()) for one in places), needs)


def plan(pair: StackCluster, *, empty: bool = False) -> Plan:
    name, cluster = pair
    steps = () if empty else (Step(Verb.UPDATE, KEY, {}, entry=Entry(KEY, "v1", "u", "new")),)
    return Plan(name, cluster, steps, Inventory(name, cluster))


@dataclass
class Played:
    """A run with clusters that are as the test says: in what order they began, and what became of each."""

    order: RolloutContext
    standings: dict[StackCluster, RolloutState]
    ends: Mapping[StackCluster, Callable[[], str]] = field(
        default_factory=dict
    )  # health after the change, Healthy else
    looks: list[str] = field(default_factory=list)  # what further looks see, Healthy when there is no more
    began: list[StackCluster] = field(default_factory=list)
    most: int = 0
    results: dict[StackCluster, FleetError | None] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def run(self, *others: StackCluster) -> Played:
        asyncio.run(self._run([pair for pair in self.standings if pair not in others]))
        return self

    async def _run(self, pairs: Iterable[StackCluster]) -> None:
        busy: set[StackCluster] = set()

        async def look(pair: StackCluster) -> str:
            return self.looks.pop(0) if self.looks else "Healthy"

        async def work(turns: RolloutQueue, pair: StackCluster) -> None:
            applied = self.standings[pair].applied
            made = plan(pair, empty=applied)
            problem = await turns.turn(made)
            if problem is None and not applied:
                self.began.append(pair)
                busy.add(pair)
                self.most = max(self.most, len(busy))
                for _ in range(3):
                    await asyncio.sleep(0)
                busy.discard(pair)
            self.results[pair] = problem
            found = self.ends.get(pair, lambda: "Healthy")()
            health = "Healthy" if problem else found
            done = Counter({Verb.UPDATE: 1}) if not problem and not applied else Counter[Verb]()
            turns.over(Result(*pair, made, problem, health=health, done=done))

        asked = list(pairs)
        tell = lambda *words: self.told.append(" ".join(words))  # noqa: E731 - a line
        made = RolloutQueue(self.order, dict(self.standings), set(asked), look, tell, every=0.01)
        async with made.serve() as turns, asyncio.timeout(60), asyncio.TaskGroup() as group:
            for pair in asked:
                group.create_task(work(turns, pair))

    def why(self, name: str, cluster: str) -> str:
        problem = self.results[name, cluster]
        return problem.reason if isinstance(problem, WaitingError) else repr(problem)


def played(*stacks: StackResult, standings: dict[StackCluster, RolloutState] | None = None, **more: object) -> Played:
    known = {(one.name, cluster): OLD for one in stacks for cluster in one.clusters} | (standings or {})
    ends = more.pop("ends", {})
    looks = more.pop("looks", [])
    order = RolloutContext({one.name: one for one in stacks}, **more)  # type: ignore[arg-type]
    return Played(order, known, ends, looks)  # type: ignore[arg-type]


def test_waves_begin_one_after_the_other_whoever_asks_first() -> None:
    run = played(stack("orders")).run()
    assert run.began == [("orders", "eu"), ("orders", "us"), ("orders", "ap")]
    assert set(run.results.values()) == {None}
    assert any("wave 1 is not done: eu is being changed" in line for line in run.told), "people see for what it waits"


def test_the_first_cluster_that_is_ill_stops_all_that_did_not_begin() -> None:
    run = played(stack("orders"), ends={("orders", "eu"): lambda: "Degraded"}).run()
    assert run.began == [("orders", "eu")]
    assert run.why("orders", "us") == "the rollout is stopped: eu has this revision and is Degraded"
    late = played(stack("orders"), ends={("orders", "eu"): lambda: "Progressing"}).run()
    assert (late.began, late.why("orders", "us")) == ([("orders", "eu")], "wave 1 is not done: eu is Progressing")


def test_the_next_run_goes_on_from_there() -> None:
    run = played(stack("orders"), standings={("orders", "eu"): NEW}).run()
    assert run.began == [("orders", "us"), ("orders", "ap")]
    recovering = played(stack("orders"), standings={("orders", "eu"): replace(NEW, health="Progressing")})
    assert recovering.run().began == [("orders", "us"), ("orders", "ap")], "it was waited for, and is healthy"


def test_a_cluster_that_is_healthy_at_the_revision_before_or_not_known_lets_nobody_pass() -> None:
    for standing in (OLD, RolloutState(), replace(NEW, problem="no answer"), replace(NEW, health="Unknown")):
        run = played(stack("orders"), standings={("orders", "eu"): standing}, clock=lambda: 60.0).run(("orders", "eu"))
        assert run.began == []
        assert run.why("orders", "us").startswith("wave 1 is not done: eu ")
    assert played(stack("orders"), standings={("orders", "eu"): NEW}).run(("orders", "eu")).began, "a bystander counts"


def test_no_more_at_once_than_allowed_and_all_at_once_without_a_rollout() -> None:
    wave = RolloutData((("ap", "eu", "us"),), "0s", "15m", 2)
    assert played(stack("orders", wave)).run().most == 2
    assert played(stack("orders", replace(wave, max_unavailable=1))).run().most == 1
    assert played(stack("orders", AT_ONCE)).run().most == 3


def test_stacks_that_it_needs_come_first_also_in_other_clusters() -> None:
    shop = stack("shop", AT_ONCE, "us", needs=("db",))
    run = played(shop, stack("db", AT_ONCE, "eu ap")).run()
    assert run.began[-1] == ("shop", "us")
    ill = played(shop, stack("db", AT_ONCE, "eu ap"), ends={("db", "ap"): lambda: "Degraded"}).run()
    assert ("shop", "us") not in ill.began
    assert ill.why("shop", "us") == "it needs stack db, which in ap is Degraded"
    same = played(stack("shop", AT_ONCE, "eu", needs=("db",)), stack("db", AT_ONCE, "eu ap")).run()
    assert same.began.index(("db", "eu")) < same.began.index(("shop", "eu"))


def test_a_person_is_not_waited_for_but_heard_when_the_wave_could_begin() -> None:
    orders = stack("orders", replace(WAVES, approve=(2,)))
    run = played(orders).run()
    assert (run.began, run.why("orders", "us")) == (
        [("orders", "eu")],
        "wave 2 waits for a person: fleet approve orders 2",
    )
    alone = played(stack("orders", RolloutData((("eu",),), "0s", "15m", approve=(1,)), "eu")).run()
    assert alone.why("orders", "eu") == "wave 1 waits for a person: fleet approve orders 1"
    said: Approvals = {}

    def while_it_runs() -> str:
        nonlocal said
        said = {("orders", changes_digest(orders)): frozenset({2})}
        return "Healthy"

    heard = played(orders, approvals=lambda: said, ends={("orders", "eu"): while_it_runs}).run()
    assert heard.began == [("orders", "eu"), ("orders", "us"), ("orders", "ap")]

    def deaf() -> Approvals:
        raise AccessError("the remote does not answer")

    run = played(orders, approvals=deaf).run()
    assert isinstance(run.results["orders", "us"], AccessError), "who cannot be heard has not spoken"


def test_windows_and_freezes_are_not_waited_for() -> None:
    frozen = played(stack("orders", replace(WAVES, freeze=True))).run()
    assert frozen.began == []
    assert "frozen" in frozen.why("orders", "eu")
    monday = 1763290800.0  # 2025-11-16 11:00, a Sunday
    closed = played(stack("orders", replace(WAVES, windows=("Mon 09:00-17:00",))), clock=lambda: monday).run()
    assert closed.began == []
    assert "outside of its windows" in closed.why("orders", "eu")


class Clock:
    """Ten seconds pass with every question."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


def test_a_soak_is_waited_for_and_one_that_is_ill_meanwhile_ends_it() -> None:
    two = RolloutData((("eu",), ("us",)), "15s", "15m", 1)
    orders = stack("orders", two, "eu us")
    run = played(orders, clock=Clock()).run()
    assert run.began == [("orders", "eu"), ("orders", "us")]
    assert any("wave 1 soaks" in line for line in run.told)
    ill = played(stack("orders", replace(two, soak="10m"), "eu us"), clock=Clock(), looks=["Healthy", "Degraded"]).run()
    assert ill.began == [("orders", "eu")]
    assert ill.why("orders", "us") == "the rollout is stopped: eu has this revision and is Degraded"
    at_once = played(stack("orders", replace(two, soak="10m"), "eu us"), wait=False).run()
    assert (at_once.began, at_once.why("orders", "us")) == (
        [("orders", "eu")],
        "wave 1 soaks: eu has to stay healthy for 10m",
    )


def test_drift_is_put_back_at_once_and_nothing_of_a_frozen_stack_is() -> None:
    pair = ("orders", "ap")
    entry = Entry(KEY, "v1", "u", "same")
    drift = Plan(*pair, (Step(Verb.UPDATE, KEY, {}, entry=entry),), Inventory(*pair, entries=(entry,)))

    async def asked(rollout: RolloutData) -> FleetError | None:
        order = RolloutContext({"orders": stack("orders", rollout)})

        async def look(_: StackCluster) -> str:
            return "Healthy"

        async with RolloutQueue(order, {pair: OLD}, {pair}, look, lambda *words: None).serve() as turns:
            return await turns.turn(drift)

    assert asyncio.run(asked(WAVES)) is None
    assert isinstance(asyncio.run(asked(replace(WAVES, freeze=True))), WaitingError)


def test_how_a_stack_stands_before_and_after_it_was_its_turn() -> None:
    pair = ("orders", "eu")
    assert not state_before(Result(*pair, plan(pair)), "Healthy").applied
    assert state_before(Result(*pair, plan(pair, empty=True)), "Healthy").is_well
    assert state_before(Result(*pair, problem=ResourceError("no answer")), "Unknown").problem == "no answer"
    assert state_after(Result(*pair, health="Healthy")).is_well
    suspended = Result(*pair, suspended="suspended by ada; 1 change waits", held_back=1, health="Healthy")
    assert not state_after(suspended).applied, "what waits for the end of a suspension is not there"
    assert not state_before(suspended, "Healthy").applied
    assert state_after(replace(suspended, held_back=0)).is_well


def cluster(name: str) -> ClusterData:
    return ClusterData(name, {}, "", "", False, HERE)


def test_clusters_that_are_no_part_of_the_run_are_looked_at_where_waves_or_needs_go_by_them() -> None:
    known = tuple(map(cluster, ("ap", "eu", "us")))
    ordered, plain = stack("orders"), stack("plain", AT_ONCE)
    evaluation = Evaluation(known, (ordered, plain))
    found = unchanged_stacks(evaluation, choose_targets(evaluation, (), ["us"]))
    assert [(one.cluster.name, [each.stack for each in one.desired]) for one in found] == [
        ("ap", ["orders"]),
        ("eu", ["orders"]),
    ]
    assert unchanged_stacks(evaluation, choose_targets(evaluation, (), ())) == ()
    alone = Evaluation(known, (plain,))
    assert unchanged_stacks(alone, choose_targets(alone, (), ["us"])) == ()
    needing = Evaluation(known, (plain, stack("shop", AT_ONCE, "us", needs=("plain",))))
    assert [one.cluster.name for one in unchanged_stacks(needing, choose_targets(needing, (), ["us"]))] == ["ap", "eu"]


@pytest.mark.parametrize(
    ("rollout", "words"),
    [
        (AT_ONCE, ""),
        (WAVES, "wave 1: eu, then wave 2: us, then wave 3: ap"),
        (replace(WAVES, rest=True), "wave 1: eu, then wave 2: us, then wave 3: ap (in no wave)"),
        (
            RolloutData((("eu",), ("ap", "us")), "5m", "15m", 1, approve=(2,)),
            "wave 1: eu, then wave 2: ap, us (after fleet approve orders 2); each has to stay healthy for 5m",
        ),
        (RolloutData((("eu", "us"),), "0s", "15m", 1), "eu, us, 1 at a time"),
        (
            replace(AT_ONCE, windows=("Mon 09:00-17:00",), freeze=True),
            "only Mon 09:00-17:00 UTC; frozen: nothing of it is changed",
        ),
    ],
)
def test_the_course_of_a_change_in_words(rollout: RolloutData, words: str) -> None:
    assert describe_rollout(rollout, "orders") == words


def test_a_line_that_is_no_wave_approves_none() -> None:
    lines = ["2\tada\t…", "²\tx", "9" * 5_000, "-1", "٣", "", "x\t1"]
    assert approvals._parse_waves("\n".join(lines)) == {2}
