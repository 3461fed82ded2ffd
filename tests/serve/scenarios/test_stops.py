"""What the service does when git or a cluster seems to have lost something: it stops there, and deletes nothing.

Each disaster of git meets a service that runs, one that reaches its clusters and one whose clusters' agents pull; where
a commit is judged by what there was before, also one that was started just then and knows only the status branch. The
same list for `fleet sync` is in tests/sync/test_safety.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fleet.testing import Cluster, GitRemote, Request
from fleet.testing.git import git
from fleet.testing.proxy import Act, Answer, EmptyList, Match, Plan, Proxy, Rule
from tests.serve.pulling_clusters import Pulled
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository, config_map

FILE = """
import fleet

@fleet.stack(clusters=fleet.where(env="test"), name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": {object!r}}}}})
"""


def writes(cluster: Cluster, mark: int, stack: str) -> list[Request]:
    """Of the service, about the stack; but for Leases, and for events that say what is wrong."""
    found = [one for one in cluster.audit.writes(mark, agent="fleet") if stack in f"{one.uri} {one.name}"]
    return [one for one in found if one.resource not in ("leases", "events")]


class Fleet:
    """Four stacks on two clusters, served; `push` moves the branch to what was written, whatever was there."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.repository = repository = served.repository
        repository.commit("clusters")
        self.names = [f"{repository.stack}-{letter}" for letter in "abcd"]
        for name in self.names:
            repository.write(f"stacks/{name}.py", FILE.format(name=name, object=name))
        self.base = served.push("four stacks")
        served.start()
        served.until("all is told", self.is_told)
        self._marks = [one.audit.mark() for one in repository.clusters]

    def is_told(self) -> bool:
        pairs = [(cluster.name, name) for cluster in self.repository.clusters for name in self.names]
        return all(self.served.record(*pair).get("revision") == self.base for pair in pairs)

    def writes(self) -> list[Request]:
        pairs = zip(self.repository.clusters, self._marks, strict=True)
        return [write for one, mark in pairs for write in writes(one, mark, self.repository.stack)]

    def push(self, title: str) -> None:
        self.repository.commit(title)
        git(self.repository.root, "push", "--quiet", "--force", "origin", "HEAD:main")

    def back(self) -> None:
        root = self.repository.root
        git(root, "checkout", "--quiet", "--force", "main")
        git(root, "reset", "--quiet", "--hard", self.base)
        git(root, "clean", "--quiet", "-fd")
        git(root, "push", "--quiet", "--force", "origin", "main:main")

    def broken(self, words: str = "", since: int = 0) -> bool:
        """And says why, in what its log has from there on: the disaster before may have had the same words."""
        return self.served.metric("fleet_repository_broken") >= 1 and words in self.served.said(since)

    def well(self) -> bool:
        return self.served.ask("/readyz")[0] == 200 and self.served.metric("fleet_repository_broken") == 0


@pytest.fixture
def fleet(either: Served) -> Iterator[Fleet]:
    made = Fleet(either)
    yield made
    either.kill()
    for cluster in either.repository.clusters:
        theirs = f"fleet.dev/inventory in ({','.join(made.names)})"
        cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", theirs)
        cluster.kubectl("delete", "namespace", "--wait=false", *made.names)


def _emptied(fleet: Fleet) -> None:
    for name in fleet.names:
        (fleet.repository.root / f"stacks/{name}.py").unlink()
    fleet.repository.write("stacks/__init__.py", "")


def _raising(fleet: Fleet) -> None:
    fleet.repository.write(f"stacks/{fleet.names[0]}.py", "raise RuntimeError('half written')")


def _halved(fleet: Fleet) -> None:
    for name in fleet.names[:2]:
        (fleet.repository.root / f"stacks/{name}.py").unlink()


def _amended(fleet: Fleet) -> None:
    """The same past but for the last commit, which is another one now."""
    git(fleet.repository.root, "reset", "--quiet", "--soft", "HEAD~1")
    fleet.repository.write(f"stacks/{fleet.names[2]}.py", FILE.format(name=fleet.names[2], object="another"))


def _another_past(fleet: Fleet) -> None:
    git(fleet.repository.root, "checkout", "--quiet", "--orphan", "other")
    fleet.repository.write(f"stacks/{fleet.names[2]}.py", FILE.format(name=fleet.names[2], object="another"))


def _no_clusters(fleet: Fleet) -> None:
    fleet.repository.write("clusters/all.py", "import fleet\n")


def _relabelled(fleet: Fleet) -> None:
    text = (fleet.repository.root / "clusters/all.py").read_text()
    fleet.repository.write("clusters/all.py", text.replace("'test'", "'production'"))


GIT: dict[str, tuple[Callable[[Fleet], None], str]] = {
    "an empty stacks/": (_emptied, "no stack is left in git"),
    "a stack that raises": (_raising, "half written"),
    "half the stacks deleted": (_halved, "2 of 4 stacks have left git"),
    "the last commit amended": (_amended, "the history was rewritten"),
    "another past": (_another_past, "the history was rewritten"),
    "no clusters": (_no_clusters, "no cluster has a label 'env'"),
    "other labels": (_relabelled, "no cluster matches where(env='test')"),
}
BY_MEMORY = {"an empty stacks/", "half the stacks deleted", "the last commit amended", "another past"}


def test_what_git_seems_to_have_lost_stops_the_service_and_nothing_is_deleted(fleet: Fleet) -> None:
    served, repository = fleet.served, fleet.repository
    for title, (disaster, words) in GIT.items():
        disaster(fleet)
        since = served.mark()
        fleet.push(title)
        served.until(f"a service that runs sees {title}", partial(fleet.broken, words, since))
        if title in BY_MEMORY:
            served.kill()
            served.start()
            served.until(f"a new service sees {title}", partial(fleet.broken, words))
        assert fleet.writes() == [], title
        fleet.back()
        served.until(f"it goes on after {title}", fleet.well)
        assert fleet.writes() == [], title

    moved = repository.remote.path.rename(repository.remote.path.with_name("moved.git"))
    served.until("it sees that the repository is gone", fleet.broken)
    since = served.mark()
    GitRemote.make(repository.remote.path)
    served.until("it sees an empty one", partial(fleet.broken, "has no branch", since))
    served.kill()
    served.start()
    served.until("so does a new one", partial(fleet.broken, "has no branch"))
    assert fleet.writes() == []
    shutil.rmtree(repository.remote.path)
    moved.rename(repository.remote.path)
    served.until("the right one is back", fleet.well)
    assert fleet.writes() == []
    if isinstance(served, Pulled):
        return  # what a cluster less is for agents, tests/agent/test_agent.py says

    eu, us = repository.clusters
    text = (repository.root / "clusters/all.py").read_text()
    one = text.replace(f"{us.name!r}, labels={{'env': 'test'}}", f"{us.name!r}, labels={{'env': 'other'}}")
    repository.write("clusters/all.py", one)
    less = served.push("one cluster less")

    def is_settled() -> bool:
        """Each stack is forgotten there, or it is said that this is too much of it; and the rest has the commit."""
        said = [
            line["message"] for line in served.log() if line.get("cluster") == us.name or us.name in line["message"]
        ]
        seen = [
            name
            for name in fleet.names
            if any(name in text and ("takes away" in text or "left running" in text) for text in said)
        ]
        return seen == fleet.names and all(served.record(eu.name, name)["revision"] == less for name in fleet.names)

    served.until("it is settled", is_settled)
    assert all(served.data(where, name, name) is not None for where in (eu, us) for name in fleet.names)
    assert [one for one in fleet.writes() if one.verb == "delete" and one.namespace in fleet.names] == []


@pytest.fixture
def behind(
    clusters: Callable[[int], list[Cluster]],
    git_remote: GitRemote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Served, Proxy]]:
    """The service, on a cluster behind a proxy."""
    repository = FleetRepository(tmp_path / "repository", clusters(1), capsys, monkeypatch, git_remote)
    (cluster,) = repository.clusters
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
        served = Served(repository, tmp_path)
        served.environment["KUBECONFIG"] = str(proxy.kubeconfig)
        yield served, proxy
        served.kill()
    cluster.kubectl("delete", "namespace", repository.namespace, "--wait=false")
    cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={repository.stack}")


def test_a_cluster_that_does_not_answer_well_loses_nothing_of_a_stack_that_drops_an_object(
    behind: tuple[Served, Proxy],
) -> None:
    served, proxy = behind
    repository = served.repository
    (cluster,) = repository.clusters
    space = repository.namespace
    lists, objects = Match(verb="list"), Match(namespace=space)
    inventories = Match(verb="list", namespace="fleet-system")
    answers: dict[str, tuple[Match, Act]] = {
        "forbidden": (lists, Answer(403)),
        "forbidden objects": (objects, Answer(403)),
        "broken": (lists, Answer(500)),
        "expired credentials": (Match(), Answer(401)),
        "an inventory that seems empty": (inventories, EmptyList()),
    }
    left = [f"c{number}" for number in range(12)]

    def push() -> str:
        repository.wants(*(config_map(name, {"left": str(len(left))}) for name in left))
        return served.push()

    def uids() -> dict[str, str]:
        found = served.live(cluster, f"/api/v1/namespaces/{space}/configmaps") or {"items": []}
        pairs = [(one["metadata"]["name"], one["metadata"]["uid"]) for one in found["items"]]
        return {name: uid for name, uid in pairs if name.startswith("c")}

    def applied(revision: str) -> bool:
        record = served.record(cluster.name)
        return (record.get("revision"), record.get("sync")) == (revision, "Synced")

    def tried(revision: str) -> bool:
        return bool(served.record(cluster.name).get("wanted") == revision)

    revision = push()
    served.start()
    served.until("it is there", lambda: applied(revision))
    before = uids()
    assert sorted(before) == sorted(left)
    for title, (match, act) in answers.items():
        proxy.plan = Plan([Rule(match, act)])
        mark = cluster.audit.mark()
        gone = left.pop(0)
        revision = push()
        served.until(f"{title}: it was tried", partial(tried, revision))
        assert served.record(cluster.name)["sync"] in ("Failed", "Unreachable", "Conflict"), title
        assert uids() == before, title
        written = writes(cluster, mark, repository.stack)
        assert [one for one in written if one.verb == "delete" or one.code < 300] == [], title
        proxy.plan = Plan()
        served.until(f"{title}: it goes on", partial(applied, revision))
        del before[gone]
        assert uids() == before, title

    here, everywhere = Match(verb="list", namespace=space), Match(verb="list", path="/api/v1/configmaps")
    proxy.plan = Plan([Rule(one, EmptyList()) for one in (here, everywhere)])
    del before[left.pop(0)]
    revision = push()
    served.until("lists seem empty, and each object is asked for by itself", lambda: applied(revision))
    assert uids() == before, "nothing was taken for gone, nothing was made anew"
