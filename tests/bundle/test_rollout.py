"""What clusters with agents may have now, from data alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.bundle.model import Bundle, BundleBudget
from fleet.bundle.rollout import BundledStack, BundleHeader, BundlePlan, plan_bundles, state_from_record
from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import Desired, Object
from fleet.sync.rollout.approvals import changes_digest
from fleet.sync.rollout.gates import RolloutState

HERE = Source("stacks/a.py", 1)
FIRST, SECOND = "1" * 40, "2" * 40
NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z
SINCE = "2026-01-01T11:00:00Z"


def stack(name: str, value: str, clusters: str = "abc", needs: tuple[str, ...] = (), **rollout: Any) -> StackResult:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": name},
        "data": {"v": value},
    }
    desired = tuple(Desired(name, one, (Object(manifest, HERE),)) for one in clusters)
    waves = RolloutData(tuple(tuple(one) for one in clusters), "0s", "15m")
    return StackResult(name, HERE, tuple(clusters), replace(waves, **rollout), desired, needs)


def evaluation(*stacks: StackResult, clusters: str = "abc") -> Evaluation:
    return Evaluation(tuple(ClusterData(one, {}, None, None, True, HERE) for one in clusters), stacks)


class Fleet:
    """A centre and agents that answer when they are told to."""

    def __init__(self) -> None:
        self.bundles: dict[str, Bundle] = {}
        self.records: dict[tuple[str, str], StatusRecord] = {}

    def render(
        self, revision: str, *stacks: StackResult, now: float = NOON, approved: tuple[int, ...] = ()
    ) -> BundlePlan:
        head = BundleHeader("f", revision, "", BundleBudget(10, 0.1), "", "fleet/status")

        def look(pair: tuple[str, str]) -> RolloutState:
            told = self.bundles.get(pair[1])
            return state_from_record(self.records.get(pair), revision, BundledStack.of(told, pair[0]) if told else None)

        states = {(one.name, cluster): look((one.name, cluster)) for one in stacks for cluster in one.clusters}
        approvals = {(one.name, changes_digest(one)): frozenset(approved) for one in stacks}
        found = plan_bundles(evaluation(*stacks), "abc", head, self.bundles, states, approvals=approvals, now=now)
        self.bundles = found.bundles
        return found

    def answer(self, cluster: str, health: str = "Healthy", sync: str = "Synced") -> None:
        """As an agent does that has carried out its set."""
        told = self.bundles[cluster].index
        contents = {one.stack: one.content for one in told.stacks}
        for name in {*contents, *told.waiting}:
            word = "Waiting" if name in told.waiting else sync
            before = self.records.get((name, cluster))
            revision = told.revision if word == "Synced" else before.revision if before else ""
            state = health if name in contents else "Missing"
            content = contents.get(name, "")
            self.records[name, cluster] = StatusRecord(
                name, cluster, word, state, SINCE, revision, told.revision, content=content
            )

    def value(self, cluster: str, name: str = "s") -> str:
        found = self.bundles[cluster].stacks.get(name)
        return found.objects[0].manifest["data"]["v"] if found else ""


def test_without_a_rollout_all_get_it_at_once() -> None:
    fleet = Fleet()
    found = fleet.render(FIRST, stack("s", "1", waves=(("a", "b", "c"),)))
    assert not found.waiting
    assert [fleet.value(one) for one in "abc"] == ["1", "1", "1"]


def test_a_wave_begins_when_the_agents_of_those_before_say_that_they_are_well_at_this_commit() -> None:
    fleet = Fleet()
    one = stack("s", "1")
    assert set(fleet.render(FIRST, one).waiting) == {("s", "b"), ("s", "c")}
    assert [fleet.value(cluster) for cluster in "abc"] == ["1", "", ""]
    for following in "bc":
        for cluster in "abc":
            fleet.answer(cluster)
        fleet.render(FIRST, one)
        assert fleet.value(following) == "1"
    fleet.answer("c")
    two = stack("s", "2")
    found = fleet.render(SECOND, two)
    assert [fleet.value(cluster) for cluster in "abc"] == ["2", "1", "1"], "healthy at the commit before is not enough"
    assert "wave 1 is not done: a was not looked at yet" in found.waiting["s", "b"]
    assert fleet.bundles["b"].index.revision == SECOND
    assert fleet.bundles["b"].parts["s"].revision == FIRST, "what it has is of the commit before"
    fleet.answer("a", health="Degraded")
    for cluster in "bc":
        fleet.answer(cluster)
    found = fleet.render(SECOND, two)
    assert found.waiting["s", "b"] == "the rollout is stopped: a has this revision and is Degraded"
    fleet.answer("a")
    assert set(fleet.render(SECOND, two).waiting) == {("s", "c")}


def test_what_options_say_passes_the_waves_as_any_change_does() -> None:
    fleet = Fleet()
    before = stack("s", "1", waves=(("a", "b", "c"),))
    fleet.render(FIRST, before)
    for cluster in "abc":
        fleet.answer(cluster)
    (said,) = before.desired[0].objects
    options: list[dict[str, Any]] = [
        {"ignore_changes": ("data.v",)},
        {"adopt": True},
        {"adopt": True, "take_from": ("helm",)},
        {"aliases": (said.key._replace(name="old"),)},
        {"protect": True},
    ]
    for one in options:
        changed = tuple(replace(each, objects=(replace(said, **one),)) for each in before.desired)
        after = replace(before, desired=changed, rollout=replace(before.rollout, waves=(("a",), ("b",), ("c",))))
        assert changes_digest(after) != changes_digest(before), "a word of before is none about it"
        head = BundleHeader("f", SECOND, "", BundleBudget(10, 0.1), "", "fleet/status")
        found = plan_bundles(evaluation(after), "abc", head, fleet.bundles, {}, now=NOON)
        assert found.waiting.keys() == {("s", "b"), ("s", "c")}, one


def test_what_was_told_a_moment_ago_is_being_changed_until_the_agent_answers_for_just_that() -> None:
    fleet = Fleet()
    at_once: dict[str, Any] = {"waves": (("a", "b", "c"),), "max_unavailable": 1}
    fleet.render(FIRST, stack("s", "1", **at_once))
    for _ in range(4):
        for cluster in "abc":
            fleet.answer(cluster)
        fleet.render(FIRST, stack("s", "1", **at_once))
    assert [fleet.value(one) for one in "abc"] == ["1", "1", "1"]
    two = stack("s", "2", **at_once)
    fleet.render(SECOND, two)
    assert [fleet.value(one) for one in "abc"] == ["1", "1", "1"], "nobody has looked at this commit yet"
    for cluster in "abc":
        fleet.answer(cluster)
    fleet.render(SECOND, two)
    assert [fleet.value(one) for one in "abc"] == ["2", "1", "1"]
    again = fleet.render(SECOND, two)
    assert "a is being changed" in again.waiting["s", "b"], "its record is of when it waited"
    fleet.answer("a")
    fleet.render(SECOND, two)
    assert [fleet.value(one) for one in "abc"] == ["2", "2", "1"]


def test_a_soak_begins_when_the_agent_got_it_and_a_person_is_asked() -> None:
    fleet = Fleet()
    one = stack("s", "1", soak="2h", approve=(2,))
    fleet.render(FIRST, one)
    for cluster in "abc":
        fleet.answer(cluster)
    found = fleet.render(FIRST, one)
    assert (found.again, "wave 1 soaks" in found.waiting["s", "b"]) == (3600.0, True)
    found = fleet.render(FIRST, one, now=NOON + 3601)
    assert "fleet approve s 2" in found.waiting["s", "b"]
    found = fleet.render(FIRST, one, now=NOON + 3601, approved=(2,))
    assert set(found.waiting) == {("s", "c")}


def test_a_stack_goes_with_what_it_needs_here_and_waits_for_what_it_needs_elsewhere() -> None:
    fleet = Fleet()
    base = stack("base", "1", waves=(("a",), ("b", "c")))
    top = stack("top", "1", needs=("base",), waves=(("a", "b", "c"),))
    found = fleet.render(FIRST, base, top)
    assert set(found.waiting) == {("base", "b"), ("base", "c"), ("top", "b"), ("top", "c")}
    assert found.waiting["top", "b"] == "it needs stack base, which waits here"
    assert fleet.bundles["a"].stacks["top"].needs == ("base",), "the agent sees to the order"

    other = Fleet()
    base = stack("base", "1", "a")
    top = stack("top", "1", "b", needs=("base",))
    assert set(other.render(FIRST, base, top).waiting) == {("top", "b")}
    other.answer("a")
    other.answer("b")
    assert not other.render(FIRST, base, top).waiting
    assert other.bundles["b"].stacks["top"].needs == ()


def test_a_freeze_reaches_the_agent_with_what_it_had() -> None:
    fleet = Fleet()
    free: dict[str, Any] = {"waves": (("a", "b", "c"),)}
    fleet.render(FIRST, stack("s", "1", **free))
    fleet.render(SECOND, stack("s", "2", freeze=True, **free))
    assert (fleet.value("a"), fleet.bundles["a"].stacks["s"].freeze) == ("1", True)


def test_what_is_in_other_clusters_only_by_now_is_told_as_such_and_what_left_git_is_not() -> None:
    fleet = Fleet()
    fleet.render(FIRST, stack("s", "1", "ab"), stack("gone", "1", "a"))
    found = fleet.render(SECOND, stack("s", "1", "b"))
    assert (found.bundles["a"].index.elsewhere, dict(found.bundles["a"].stacks)) == (("s",), {})
    assert found.bundles["c"].index.elsewhere == ()
    again = fleet.render(SECOND, stack("s", "1", "b"))
    assert again.bundles["a"].index.elsewhere == ("s",), "an agent may have missed one set"


def test_a_record_that_says_otherwise_is_never_well() -> None:
    record = StatusRecord("s", "a", "Synced", "Healthy", SINCE, FIRST, FIRST, content="c")
    told = BundledStack(FIRST, "c", waits=False)
    assert state_from_record(record, FIRST, told).is_well
    assert state_from_record(record, FIRST).is_well, "a cluster that is reached from here has no content"
    for other in (
        state_from_record(None, FIRST, told),
        state_from_record(record, SECOND, told),
        state_from_record(record, FIRST, replace(told, revision=SECOND)),
        state_from_record(record, FIRST, replace(told, content="d")),
        state_from_record(replace(record, sync="Failed"), FIRST, told),
        state_from_record(replace(record, sync="Suspended", revision=SECOND), FIRST, told),
        state_from_record(replace(record, revision=SECOND), FIRST, told),
        state_from_record(replace(record, health="Unknown"), FIRST, told),
    ):
        assert not other.is_well
    partly = state_from_record(replace(record, sync="Waiting", health="Degraded"), FIRST, told)
    assert (partly.partly, partly.has_it) == (True, True)
