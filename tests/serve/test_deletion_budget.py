"""A commit that takes a little from many stacks of one cluster: the service judges it as a whole, pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fleet.errors import PolicyError
from fleet.objects.desired import Desired
from fleet.plan import Inventory, Plan, plan, plan_removed_placement
from fleet.plan.budget import DeletionBudget
from fleet.serve.safety import DeletionLedger, PartlySeenError
from fleet.testing import Cluster, GitRemote
from fleet.testing.proxy import Answer, Match, Proxy, Rule
from fleet.testing.proxy import Plan as Faults
from tests.objects.live import config_map, entry_of, live_of
from tests.objects.live import desired as orders
from tests.objects.live import wanted as an_object
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository

MOST = DeletionBudget(10)


def a_stack(name: str, *objects: str) -> Desired:
    return replace(orders(*(an_object(config_map(one)) for one in objects)), stack=name)


def loses(wanted: Desired, *objects: str) -> Plan:
    known = Inventory(wanted.stack, "eu-1", "r", tuple(entry_of(config_map(one)) for one in objects))
    live = {entry.key: live_of(config_map(entry.key.name)) for entry in known.entries}
    return plan(wanted, known, {**{one.key: None for one in wanted.objects}, **live})


class Passes:
    """Of the stacks of one cluster, at one commit after the other."""

    def __init__(self, stacks: int) -> None:
        self.spending = DeletionLedger()
        self.wanted = {f"s{number}": a_stack(f"s{number}", "stays") for number in range(stacks)}

    def over(self, losing: dict[str, tuple[str, ...]], revision: str = "r1", *beside: str) -> None:
        plans = [loses(self.wanted[stack], *objects) for stack, objects in losing.items()]
        looked_at = {*losing, *beside}
        self.spending.check("eu-1", plans, MOST, revision=revision, wanted=self.wanted, looked_at=looked_at)

    def done(self, *stacks: str) -> None:
        for stack in stacks:
            self.spending.note_deleted((stack, "eu-1"))

    def commit(self, revision: str) -> None:
        self.spending.begin_commit(revision, self.wanted, ["eu-1"])


def test_what_is_refused_together_is_refused_one_by_one() -> None:
    passes = Passes(12)
    with pytest.raises(PolicyError, match=r"takes away 12 objects .*the budget is 10"):
        passes.over(dict.fromkeys(passes.wanted, ("goes",)))
    for stack in passes.wanted:
        with pytest.raises(PolicyError, match="takes away 12 objects"):
            passes.over({stack: ("goes",)})
    passes.commit("r2")  # of something else
    with pytest.raises(PolicyError, match="takes away 12 objects"):
        passes.over({"s3": ("goes",)}, "r2")
    passes.over({"s3": (), "s4": ()}, "r2")  # two have it back
    passes.over({"s5": ("goes",)}, "r2")


def test_nothing_goes_before_every_stack_was_looked_at_with_what_the_commit_wants() -> None:
    passes = Passes(3)
    with pytest.raises(PartlySeenError, match=r"eu-1: what is taken away waits: stack s1 and 1 more"):
        passes.over({"s0": ("goes",)})
    passes.over({}, "r1", "s1")
    with pytest.raises(PartlySeenError, match="stack s2 has to be looked at before"):
        passes.over({"s0": ("goes",)})
    passes.over({}, "r1", "s2")
    passes.over({"s0": ("goes",)})
    passes.done("s0")
    passes.wanted["s2"] = a_stack("s2", "stays", "another")
    passes.commit("r2")
    with pytest.raises(PartlySeenError, match="stack s2 has"):
        passes.over({"s1": ("goes",)}, "r2")


def test_what_a_commit_took_away_counts_until_the_next_one_and_an_object_counts_once() -> None:
    passes = Passes(3)
    names = tuple(f"c{number}" for number in range(8))
    passes.over({"s0": names}, "r1", "s1", "s2")
    passes.over({"s0": names[4:]})  # some of them take their time
    passes.done("s0")
    passes.over({"s0": ()})
    with pytest.raises(PolicyError, match=r"takes away 11 objects \(s0 8, s1 3\)"):
        passes.over({"s1": ("a", "b", "c")})
    passes.over({"s2": ()})
    with pytest.raises(PolicyError, match=r"takes away 12 objects \(s0 8, s1 3, s2 1\)"):
        passes.over({"s2": ("a",)})
    passes.commit("r2")
    passes.over({"s1": ("a", "b", "c"), "s2": ("a",)}, "r2")


def test_a_pass_that_began_at_an_earlier_commit_spends_what_that_one_had() -> None:
    passes = Passes(2)
    names = tuple(f"c{number}" for number in range(8))
    passes.over({}, "r1", *passes.wanted)
    passes.commit("r2")
    passes.over({"s0": names}, "r2")
    passes.done("s0")
    passes.over({"s1": names}, "r1")
    passes.done("s1")
    with pytest.raises(PolicyError, match="takes away 11 objects"):
        passes.over({"s1": ("a", "b", "c")}, "r2")


def test_what_leaves_a_cluster_counts_until_it_was_forgotten_or_its_stack_left_git() -> None:
    passes = Passes(1)
    entries = tuple(entry_of(config_map(f"c{number}")) for number in range(11))
    leaving = plan_removed_placement(Inventory("old", "eu-1", "r", entries))
    wanted = passes.wanted
    with pytest.raises(PolicyError, match="old 11"):
        passes.spending.check("eu-1", [leaving], MOST, revision="r1", wanted=wanted, looked_at=wanted.keys())
    with pytest.raises(PolicyError, match="old 11"):
        passes.over({"s0": ("goes",)})
    passes.commit("r2")  # which does not know it
    passes.over({"s0": ("goes",)}, "r2")


FILE = """
import fleet

@fleet.stack(clusters=fleet.where(env="test"), name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    for name in {objects!r}:
        fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": name}}}})
"""


class Twelve:
    """Stacks on one cluster behind a proxy, served."""

    def __init__(self, served: Served, proxy: Proxy) -> None:
        self.served, self.proxy = served, proxy
        (self.cluster,) = served.repository.clusters
        self.names = [f"{served.repository.stack}-{number:02}" for number in range(12)]

    def push(self, *objects: str) -> str:
        for name in self.names:
            self.served.repository.write(f"stacks/{name}.py", FILE.format(name=name, objects=objects))
        return self.served.push()

    def are(self, revision: str, sync: str, words: str = "") -> bool:
        records = [self.served.record(self.cluster.name, name) for name in self.names]
        said = [(one.get("wanted"), one.get("sync"), words in one.get("message", "")) for one in records]
        return said == [(revision, sync, True)] * len(self.names)

    def left(self, name: str) -> list[str]:
        return [stack for stack in self.names if self.served.data(self.cluster, name, stack) is not None]


@pytest.fixture
def twelve(
    clusters: Callable[[int], list[Cluster]],
    git_remote: GitRemote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Twelve]:
    repository = FleetRepository(tmp_path / "repository", clusters(1), capsys, monkeypatch, git_remote)
    (cluster,) = repository.clusters
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
        served = Served(repository, tmp_path)
        served.environment["KUBECONFIG"] = str(proxy.kubeconfig)
        made = Twelve(served, proxy)
        yield made
        served.kill()
    theirs = f"fleet.dev/inventory in ({','.join(made.names)})"
    cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", theirs)
    cluster.kubectl("delete", "namespace", "--wait=false", *made.names)


def test_twelve_stacks_that_lose_one_object_each_lose_none_until_a_person_allows_it(twelve: Twelve) -> None:
    served, proxy = twelve.served, twelve.proxy
    revision = twelve.push("stays", "goes")
    served.start()
    served.until("all is there", partial(twelve.are, revision, "Synced"))
    mark = twelve.cluster.audit.mark()

    def deleted() -> list[str]:
        writes = twelve.cluster.audit.writes(mark, agent="fleet")
        return [one.uri for one in writes if one.verb == "delete" and one.namespace in twelve.names]

    def looks(result: str) -> float:
        return served.metric(f'fleet_passes_total{{repository="{served.url}#main",result="{result}"}}')

    def is_refused() -> bool:
        """And was tried again, stack by stack."""
        return looks("Failed") >= 48 and twelve.are(revision, "Failed", "takes away 12 objects")

    revision = twelve.push("stays")
    served.until("it is refused", is_refused)
    assert deleted() == []

    served.kill()
    proxy.plan = Faults([Rule(Match(), Answer(500))])
    served.start()
    served.until("a new service sees nothing of the cluster", lambda: looks("Failed") + looks("Unreachable") >= 24)
    proxy.plan = Faults()
    served.until("it refuses it, too", is_refused)
    assert deleted() == []
    assert twelve.left("goes") == twelve.names

    allowed = served.repository.sync("--allow-deletes", "12")
    assert allowed.code == 0, allowed.err
    assert twelve.left("goes") == []
    assert twelve.left("stays") == twelve.names
    served.until("the service goes on", partial(twelve.are, revision, "Synced"))
    assert len(deleted()) == 12
