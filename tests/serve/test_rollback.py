"""What the service makes in git when a rollout fails: on real repositories, and by a real service in the end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.evaluate.pool import Pool
from fleet.git.refs import address
from fleet.git.repository import GitRepository
from fleet.git.status import report
from fleet.git.status_records import StatusReport
from fleet.kube.client.errors import UnreachableError
from fleet.kube.concurrency import end_tasks
from fleet.objects.desired import StackCluster
from fleet.plan import Inventory, Plan, Verb
from fleet.serve import failure
from fleet.serve.commits import EvaluatedCommit, FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report.metrics import Metrics
from fleet.serve.rollback import FollowedBranch, Illness, PendingRollbacks, RollbackOutcome, roll_back
from fleet.serve.service import Service
from fleet.sync.result import ObjectHealth, Result
from fleet.sync.targets import ClusterTarget
from fleet.testing import GitRemote
from fleet.testing.git import git
from tests.serve.pulling_clusters import Pulled
from tests.serve.running_service import Served
from tests.sync.rollout_stack import write_rolled_out

STACK = """
import fleet
{imports}
@fleet.stack(clusters="eu", name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    data = {{"a": {value}}}
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "settings"}}, "data": data}})
"""


POD = """
import fleet

ROLLOUT = fleet.Rollout(on_failure="rollback", rollback_after="6s", soak="10m")

@fleet.stack(clusters=[{cluster!r}], name={name!r}, rollout=ROLLOUT)
def stack(cluster: fleet.Cluster) -> None:
    container = {{"name": "web", "image": "localhost/web:{version}"}}
    fleet.Manifest({{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "web"}}, "spec": {{
        "schedulerName": "nobody", "containers": [container]}}}})
"""
ILL = Illness("eu", "eu has it and is Degraded")


@dataclass
class Fleet:
    """A repository with what syncs wrote about its commits, and the copies of services that follow it."""

    root: Path
    remote: GitRemote
    cache: Path
    pool: Pool

    def __post_init__(self) -> None:
        self.remote.clone(self.root)
        self.write("fleet.toml", "")
        self.write("clusters/all.py", "import fleet\nfleet.Cluster('eu')\n")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def wants(self, name: str, value: str, imports: str = "") -> None:
        self.write(f"stacks/{name}.py", STACK.format(name=name, value=value, imports=imports))

    def synced(self, health: str, stacks: Sequence[str] = ("orders",)) -> str:
        """Commit, push, and write what became of it."""
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", f"it will be {health}")
        git(self.root, "push", "--quiet", "origin", "HEAD:main")
        revision = self.tip
        told = [StatusReport(stack, "eu", revision, "Synced", health) for stack in stacks]
        report(GitRepository.find(self.root), told, remote=address(self.remote.url, by_person=True), by="ada")
        return revision

    @property
    def tip(self) -> str:
        return self.remote.git("rev-parse", "main").strip()

    def service(self, name: str = "one") -> tuple[FollowedBranch, EvaluatedCommit]:
        origin = FollowedRepository(self.remote.url)
        mirror = origin.mirror(self.cache / name)
        mirror.fetch((origin.refspec,))
        followed = FollowedBranch(origin, mirror, self.pool)
        return followed, followed.at(self.tip)

    def rolled_back(self, *, direct: bool = True) -> RollbackOutcome | None:
        return roll_back(*self.service(), "orders", ILL, direct=direct)

    def why_not(self) -> str:
        made, before = self.rolled_back(), self.tip
        assert made is not None
        assert (made.outcome, self.tip) == ("stopped", before)
        return made.message.removeprefix("it is not rolled back: ")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as made:
        yield made


@pytest.fixture
def fleet(git_remote: GitRemote, tmp_path: Path, pool: Pool) -> Fleet:
    return Fleet(tmp_path / "repository", git_remote, tmp_path / "mirrors", pool)


def test_it_is_one_commit_on_the_one_that_failed_and_nobody_makes_a_second(fleet: Fleet) -> None:
    fleet.wants("orders", "'1'")
    fleet.wants("other", "'1'")
    good = fleet.synced("Healthy", ["orders", "other"])
    fleet.wants("other", "'2'")
    fleet.synced("Healthy", ["orders", "other"])
    fleet.wants("orders", "'2'")
    bad = fleet.synced("Degraded")
    one, other = fleet.service("one"), fleet.service("other")
    made = roll_back(*one, "orders", Illness("eu", "eu has it and is Degraded:\x1b[31m no quorum"), direct=True)
    assert made is not None
    before = fleet.remote.git("rev-parse", f"{bad}~1").strip()
    words = f"rolled back: orders goes back to {before[:8]} with {fleet.tip[:8]}"
    assert (made.outcome, made.message) == ("pushed", words)
    said = fleet.remote.git("log", "-1", "--format=%P%n%B", "main")
    assert said.startswith(bad)
    assert "stacks/orders.py is as it was" in said
    assert "eu has it and is Degraded: [31m no quorum" in said.replace("  ", " ")
    assert f"Fleet-Rollback: orders {bad}" in said
    assert fleet.remote.git("diff", "--name-only", "main", f"{bad}~1") == "", "the neighbour's newer file stays"
    assert fleet.remote.git("diff", "--name-only", "main", good).split() == ["stacks/other.py"]
    tip = fleet.tip
    assert roll_back(*other, "orders", ILL, direct=True) is None, "another replica is too late"
    assert fleet.tip == tip
    report(
        GitRepository.find(fleet.root),
        [StatusReport("orders", "eu", bad, "Synced", "Healthy")],
        remote="origin",
        by="ada",
    )
    assert (fleet.rolled_back(), fleet.tip) == (RollbackOutcome("", ""), tip), "whoever comes after a kill finds it"
    git(fleet.root, "pull", "--quiet", "--no-rebase", "origin", "main")
    git(fleet.root, "commit", "--quiet", "--amend", "--message", "squashed by hand, without the last line")
    git(fleet.root, "push", "--quiet", "--force", "origin", "HEAD:main")
    assert "where it was well" in fleet.why_not(), "also by its files alone"


def test_it_is_looked_at_again_right_before_the_push_and_what_is_well_by_then_is_left(fleet: Fleet) -> None:
    fleet.wants("orders", "'1'")
    fleet.synced("Healthy")
    fleet.wants("orders", "'2'")
    bad = fleet.synced("Degraded")
    looks: list[str] = []

    def recovered() -> bool:
        looks.append(fleet.tip)
        return False

    made = roll_back(*fleet.service(), "orders", ILL, direct=True, lasts=recovered)
    assert (made, fleet.tip, looks) == (RollbackOutcome("over", ""), bad, [bad])
    known = PendingRollbacks()
    assert known.ask("orders", bad)
    known.note("orders", bad, RollbackOutcome("over", ""))
    assert known.ask("orders", bad), "it may fall ill again, and last"


@dataclass
class Observer:
    """What passes of a service find in the cluster, as a test says; with "" they come to no end."""

    service: Service
    health: str
    problem: FleetError | None = None

    async def reconcile(self, current: EvaluatedCommit, target: ClusterTarget) -> None:
        if not self.health:
            await asyncio.Event().wait()
        self.note(current)

    def report_unexpected(self, current: EvaluatedCommit, placement: StackCluster, error: Exception) -> None:
        raise error

    def note(self, current: EvaluatedCommit, *verbs: Verb) -> None:
        plan = None if self.problem else Plan("orders", "eu", (), Inventory("orders", "eu"))
        result = Result("orders", "eu", plan, self.problem, health=self.health, done=Counter(verbs))
        self.service._reconciler.note(current, result)


@pytest.mark.parametrize(
    ("health", "problem", "is_rolled_back"),
    [
        ("Degraded", None, True),
        ("Healthy", None, False),
        ("Progressing", None, False),
        ("Unknown", UnreachableError("eu: no answer"), False),
        ("", None, False),
    ],
    ids=["ill", "well", "on its way", "unreachable", "silent"],
)
def test_the_service_looks_into_the_cluster_again_right_before_it_pushes(
    fleet: Fleet, health: str, problem: FleetError | None, is_rolled_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure, "LOOK_AGAIN", 0.5 if not health else 60.0)
    rollout = 'rollout=fleet.Rollout(on_failure="rollback", rollback_after="0s"), clusters'
    for value, found in (("'1'", "Healthy"), ("'2'", "Degraded")):
        fleet.wants("orders", value)
        text = (fleet.root / "stacks/orders.py").read_text()
        fleet.write("stacks/orders.py", text.replace("clusters", rollout))
        bad = fleet.synced(found)
    followed, commit = fleet.service()

    async def fail() -> None:
        service = Service(followed.origin, ServeOptions(status=False), Metrics())
        service.current.evaluated, service.current.tip = commit, commit.revision
        Observer(service, "Degraded").note(commit, Verb.UPDATE)
        assert service.reporter.rollbacks.due == {"orders"}
        passes = service._reconciler.queue.workers(Observer(service, health, problem), 3600)
        tasks = [asyncio.create_task(work) for work in passes]
        try:
            await service._failures.roll_back(followed.mirror, fleet.pool)
        finally:
            await end_tasks(*tasks)

    asyncio.run(fail())
    before = fleet.remote.git("rev-parse", "main~1" if is_rolled_back else "main").strip()
    assert before == bad, "a rollback is one commit on top of it"


def test_a_change_that_touched_something_else_is_not_taken_back_for_what_is_ill(fleet: Fleet) -> None:
    fleet.wants("orders", "'1'")
    fleet.synced("Healthy")
    fleet.wants("orders", "'2'")
    fleet.synced("Degraded")
    namespace = Illness("eu", "eu is Degraded", (ObjectHealth("Namespace", "", "orders", "Degraded", "it ends"),))
    made = roll_back(*fleet.service(), "orders", namespace, direct=True)
    assert made is not None
    assert made.outcome == "stopped"
    assert "touched neither Namespace orders, which is Degraded, nor what it depends on" in made.message


def test_it_stops_where_there_is_nothing_to_go_back_to(fleet: Fleet) -> None:
    fleet.wants("orders", "'1'")
    fleet.synced("Degraded")
    assert fleet.why_not().startswith("there is nothing to go back to: no earlier commit")
    fleet.wants("orders", "'2'")
    fleet.synced("Degraded")
    assert "it was not well at" in fleet.why_not()
    fleet.wants("orders", "'3'")
    fleet.synced("Unknown")
    fleet.wants("orders", "'4'")
    fleet.synced("Degraded")
    assert "it was not well at" in fleet.why_not(), "what nobody reported on was not well"


def test_only_what_is_the_stacks_alone_goes_back_and_only_to_what_was_well(fleet: Fleet) -> None:
    fleet.write("stacks/shared.py", "A = '1'\n")
    fleet.wants("orders", "A", "from shared import A")
    fleet.wants("other", "A", "from shared import A")
    fleet.synced("Healthy")
    fleet.write("stacks/shared.py", "A = '2'\n")
    fleet.synced("Degraded")
    assert fleet.why_not() == "what changed is in files that other stacks read too"
    fleet.write("stacks/shared.py", "A = '1'\n")
    fleet.synced("Healthy")
    fleet.write("stacks/shared.py", "A = '3'\n")
    fleet.wants("orders", "A + 'x'", "from shared import A")
    fleet.synced("Degraded")
    assert fleet.why_not() == "its files alone do not make it what it was", "a mix of old and new was never well"
    fleet.write(
        "stacks/both.py",
        STACK.format(name="orders", value="'1'", imports="") + STACK.format(name="more", value="'1'", imports=""),
    )
    (fleet.root / "stacks/orders.py").unlink()
    fleet.synced("Degraded")
    assert "has the stack more too" in fleet.why_not()


def test_where_agents_report_somewhere_else_nobody_knows_what_was_well(fleet: Fleet) -> None:
    fleet.write("clusters/all.py", "import fleet\nfleet.Cluster('eu')\nfleet.Cluster('us', pull=True)\n")

    def wants(value: str) -> None:
        fleet.wants("orders", value)
        text = (fleet.root / "stacks/orders.py").read_text()
        fleet.write("stacks/orders.py", text.replace('clusters="eu"', 'clusters=["eu", "us"]'))

    def told(revision: str, health: str) -> None:
        about = StatusReport("orders", "us", revision, "Synced", health)
        report(GitRepository.find(fleet.root), [about], remote=address(fleet.remote.url, by_person=True), by="agent")

    wants("'1'")
    good = fleet.synced("Healthy")
    later = fleet.synced("Healthy")  # of a neighbour, and the agent passed it over
    wants("'2'")
    fleet.synced("Degraded")
    assert fleet.why_not() == "the status on this remote does not say how us was with the revision to go back to"
    told(good, "Degraded")
    assert f"it was not well at {good[:8]}" in fleet.why_not()
    told(good, "Healthy")
    made = fleet.rolled_back()
    assert made is not None
    assert (made.outcome, f"back to {later[:8]}" in made.message) == ("pushed", True), "with those files it was well"


def test_where_it_may_not_push_a_person_merges_a_branch(fleet: Fleet) -> None:
    fleet.wants("orders", "'1'")
    good = fleet.synced("Healthy")
    fleet.wants("orders", "'2'")
    bad = fleet.synced("Degraded")
    hook = Path(fleet.remote.url.removeprefix("file://")) / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n[ "$1" != refs/heads/main ] || { echo "protected branch" >&2; exit 1; }\n')
    hook.chmod(0o755)
    made = fleet.rolled_back()
    branch = f"fleet/rollback-orders-{good[:8]}"
    assert made is not None
    assert (made.outcome, branch in made.message, fleet.tip) == ("proposed", True, bad)
    proposed = fleet.remote.git("rev-parse", branch)
    assert fleet.remote.git("rev-parse", f"{branch}~1").strip() == bad
    again = fleet.rolled_back(direct=False)
    assert again is not None
    assert (again.outcome, fleet.remote.git("rev-parse", branch)) == ("proposed", proposed), "it is there already"


def test_a_service_takes_a_failed_rollout_back_once_and_tells_it(either: Served) -> None:
    served, repository = either, either.repository
    eu, us = repository.clusters

    def wants(version: str, *, ill: bool = False) -> str:
        write_rolled_out(repository, version, ill=ill, rollout="on_failure='rollback', rollback_after='1s'")
        return served.push(version)

    def commits() -> list[str]:
        return repository.remote.git("rev-list", "main").split()

    def pushed() -> float:
        return served.metric(f'fleet_rollbacks_total{{repository="{FollowedRepository(served.url)}",result="pushed"}}')

    def events() -> set[str]:
        found = json.loads(eu.kubectl("-n", "fleet-system", "get", "events", "-o", "json"))["items"]
        return {one["reason"] for one in found if one["involvedObject"]["name"].startswith(f"{repository.stack}.")}

    first = wants("1")
    served.start()
    served.until("both have it", lambda: all(served.record(one.name).get("revision") == first for one in (eu, us)))
    served.until("both are well", lambda: all(served.record(one.name)["health"] == "Healthy" for one in (eu, us)))
    mark = us.audit.mark()
    second = wants("2", ill=True)
    served.until("it is rolled back", lambda: len(commits()) == 3)
    back = commits()[0]
    assert commits() == [back, second, first]
    words = f"rolled back: {repository.stack} goes back to {first[:8]} with {back[:8]}"
    served.until("it is logged", lambda: any(words in line["message"] for line in served.log()))
    assert pushed() == 1
    why = repository.remote.git("log", "-1", "--format=%B", back)
    assert f"{eu.name} has {second[:8]} and is Degraded: " in why
    if not isinstance(served, Pulled):  # there the records are the agents'
        served.until(
            "it is noted", lambda: words in repository.remote.git("log", "-1", "--notes=fleet", "--format=%N", second)
        )
    served.kill()  # while it goes back: whoever comes finds what was done
    served.start()
    served.until("it is as before", lambda: all(served.record(one.name).get("revision") == back for one in (eu, us)))
    served.until("it is well", lambda: all(served.record(one.name)["health"] == "Healthy" for one in (eu, us)))
    assert commits() == [back, second, first], "the way back is not taken back"
    assert served.data(eu, "after") == served.data(us, "after") == {"version": "1"}
    deployments = [one for one in us.audit.writes(mark, agent="fleet/") if one.resource == "deployments"]
    assert deployments == [], "the second wave never had it"
    if not isinstance(served, Pulled):  # the centre sends no event to clusters that it does not reach
        served.until("there is an event", lambda: "RolledBack" in events())


def test_health_that_comes_and_goes_is_no_reason_and_health_that_stays_is(served: Served) -> None:
    """A pod that no scheduler looks at: how it is, is what the test writes into its status."""
    repository = served.repository
    eu = repository.clusters[0]

    def wants(version: str) -> str:
        text = POD.format(cluster=eu.name, name=repository.stack, version=version)
        repository.write("stacks/stack.py", text)
        return served.push(version)

    def is_turned(state: str) -> None:
        waiting = {"name": "web", "image": "i", "imageID": "", "ready": state == "Healthy", "restartCount": 0}
        waiting["state"] = {"running": {}} if state == "Healthy" else {"waiting": {"reason": "ErrImagePull"}}
        ready = [{"type": "Ready", "status": str(state == "Healthy")}]
        status = {"phase": "Running", "conditions": ready, "containerStatuses": [waiting]}
        merge = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        eu.kubectl("-n", repository.namespace, "patch", "pod", "web", *merge)

    def is_seen(state: str) -> bool:
        origin = FollowedRepository(served.url)
        about = f'cluster="{eu.name}",health="{state}",repository="{origin}",stack="{repository.stack}"'
        return served.metric(f"fleet_stack_health{{{about}}}") == 1

    def turn(state: str) -> None:
        is_turned(state)
        served.until(f"it is seen to be {state}", lambda: is_seen(state))

    def commits() -> list[str]:
        return repository.remote.git("rev-list", "main").split()

    first = wants("1")
    served.start()
    served.until("the pod is there", lambda: is_seen("Progressing"))
    turn("Healthy")
    served.until("it is told", lambda: served.record(eu.name).get("health") == "Healthy")
    second = wants("2")
    served.until("it has it", lambda: served.record(eu.name).get("revision") == second)
    for _ in range(4):
        turn("Degraded")
        turn("Healthy")
    assert commits() == [second, first]
    assert "rolled back" not in served.said()
    turn("Degraded")
    served.until("it is rolled back", lambda: len(commits()) == 3)
    assert commits()[1:] == [second, first]
