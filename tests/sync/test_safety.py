"""What a repository or a cluster seems to have lost: each time the sync stops, and nothing is deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster, GitRemote
from fleet.testing.git import git
from fleet.testing.proxy import Answer, EmptyList, Match, Plan, Proxy, Rule
from tests.sync.fleet_repository import FleetRepository, config_map

OURS = "fleet/"
FILE = """
import fleet

@fleet.stack(clusters=fleet.where(env="test"), name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": {object!r}}}}})
"""


class Fleet:
    """Four stacks on two clusters, synced; and every time anew what was written since."""

    def __init__(self, repository: FleetRepository) -> None:
        self.repository = repository
        repository.commit("clusters")
        self.names = [f"{repository.stack}-{letter}" for letter in "abcd"]
        for name in self.names:
            text = FILE.format(name=name, object=name)
            repository.write(f"stacks/{name}.py", text)
        self.base = repository.commit("four stacks")
        git(repository.root, "push", "--quiet", "origin", "HEAD:main")
        done = repository.sync()
        assert done.code == 0, done.err
        self._marks = [one.audit.mark() for one in repository.clusters]
        self.status = repository.remote.git("rev-parse", "fleet/status")

    def back(self) -> None:
        git(self.repository.root, "reset", "--quiet", "--hard", self.base)
        git(self.repository.root, "clean", "--quiet", "-fd")

    def writes(self) -> list[object]:
        found = zip(self.repository.clusters, self._marks, strict=True)
        return [write for one, mark in found for write in one.audit.writes(mark, agent=OURS)]

    def remove(self, *names: str) -> None:
        for name in names:
            (self.repository.root / f"stacks/{name}.py").unlink()


@pytest.fixture
def fleet(repository: FleetRepository) -> Iterator[Fleet]:
    made = Fleet(repository)
    yield made
    for cluster in repository.clusters:
        theirs = f"fleet.dev/inventory in ({','.join(made.names)})"
        cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", theirs)
        cluster.kubectl("delete", "namespace", "--wait=false", *made.names)


def _emptied(fleet: Fleet) -> None:
    fleet.remove(*fleet.names)
    fleet.repository.write("stacks/__init__.py", "")


def _raising(fleet: Fleet) -> None:
    fleet.repository.write(f"stacks/{fleet.names[0]}.py", "raise RuntimeError('half written')")


def _halved(fleet: Fleet) -> None:
    fleet.remove(*fleet.names[:2])


def _rewritten(fleet: Fleet) -> None:
    """Another past: as if the four stacks had been pushed over."""
    root = fleet.repository.root
    git(root, "checkout", "--quiet", "--orphan", "other")
    changed = FILE.format(name=fleet.names[2], object="another")
    fleet.repository.write(f"stacks/{fleet.names[2]}.py", changed)


def _amended(fleet: Fleet) -> None:
    """The same past but for the last commit, which is another one now."""
    git(fleet.repository.root, "reset", "--quiet", "--soft", "HEAD~1")
    fleet.repository.write(f"stacks/{fleet.names[2]}.py", FILE.format(name=fleet.names[2], object="another"))


def _no_clusters(fleet: Fleet) -> None:
    fleet.repository.write("clusters/all.py", "import fleet\n")


def _relabelled(fleet: Fleet) -> None:
    text = (fleet.repository.root / "clusters/all.py").read_text()
    fleet.repository.write("clusters/all.py", text.replace("'test'", "'production'"))


GIT = {
    "an empty stacks/": (_emptied, 5, "no stack is left in git"),
    "a stack that raises": (_raising, 2, "half written"),
    "half the stacks deleted": (_halved, 5, "2 of 4 stacks have left git"),
    "another past": (_rewritten, 5, "the history was rewritten"),
    "the last commit amended": (_amended, 5, "the history was rewritten"),
    "no clusters": (_no_clusters, 2, "no cluster"),
    "other labels": (_relabelled, 2, "env"),
}


def test_what_git_seems_to_have_lost_stops_the_sync_and_nothing_is_deleted(fleet: Fleet) -> None:
    repository = fleet.repository
    for title, (disaster, code, words) in GIT.items():
        disaster(fleet)
        repository.commit(title)
        done = repository.sync(*(["--any-branch"] if disaster is _rewritten else []))
        assert (done.code, words in done.err) == (code, True), f"{title}: {done.code} {done.err}"
        assert fleet.writes() == [], title
        assert repository.remote.git("rev-parse", "fleet/status") == fleet.status, title
        git(repository.root, "checkout", "--quiet", "--force", "main")
        fleet.back()

    fleet.remove(fleet.names[0], fleet.names[1])
    repository.commit("meant so")
    meant = repository.sync("--allow-deletes", "4")
    assert meant.code == 0, meant.err
    assert fleet.writes() == [], "what has left is left running"
    assert repository.sync().code == 0, "and is not asked for again"


def test_a_repository_that_is_gone_or_empty_deletes_nothing(fleet: Fleet) -> None:
    repository = fleet.repository
    name = fleet.names[0]
    empty = FILE.format(name=name, object="other")
    repository.write(f"stacks/{name}.py", empty)
    repository.commit("one object for another")
    moved = repository.remote.path.rename(repository.remote.path.with_name("moved.git"))
    done = repository.sync()
    assert done.code in (3, 4, 6), done.err
    assert "fetch the status" in done.err
    assert fleet.writes() == []
    moved.rename(repository.remote.path)
    shutil.rmtree(repository.root)
    GitRemote.make(repository.root.parent / "empty.git").clone(repository.root)
    repository.enter()
    assert repository.sync().code == 2
    assert fleet.writes() == []


@pytest.fixture
def behind(
    clusters: Callable[[int], list[Cluster]],
    git_remote: GitRemote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[FleetRepository, Proxy]]:
    """A repository with a stack of ten objects, one of which git has dropped, on a cluster behind a proxy."""
    made = FleetRepository(tmp_path / "repository", clusters(1), capsys, monkeypatch, git_remote)
    made.wants(*(config_map(f"c{number}", {"a": "1"}) for number in range(10)))
    made.commit()
    assert made.sync().code == 0
    made.wants(*(config_map(f"c{number}", {"a": "2"}) for number in range(1, 10)))
    made.commit()
    (cluster,) = made.clusters
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
        yield made, proxy
    cluster.kubectl("delete", "namespace", made.namespace, "--wait=false")
    cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={made.stack}")


def test_a_cluster_that_does_not_answer_well_loses_nothing(behind: tuple[FleetRepository, Proxy]) -> None:
    repository, proxy = behind
    (cluster,) = repository.clusters
    lists = Match(verb="list")
    plans = {
        "forbidden": Rule(lists, Answer(403)),
        "forbidden objects": Rule(Match(namespace=repository.namespace), Answer(403)),
        "broken": Rule(lists, Answer(500)),
        "expired credentials": Rule(Match(), Answer(401)),
        "an inventory that seems empty": Rule(Match(verb="list", namespace="fleet-system"), EmptyList()),
    }
    for title, rule in plans.items():
        proxy.plan = Plan([rule])
        mark = cluster.audit.mark()
        done = repository.sync("--kubeconfig", str(proxy.kubeconfig))
        assert done.code in (3, 4), f"{title}: {done.code} {done.err}"
        written = [one for one in cluster.audit.writes(mark, agent=OURS) if one.resource != "leases"]
        assert [one for one in written if one.verb == "delete" or one.code < 300] == [], title
        assert repository.data(cluster, "c0") == {"a": "1"}, title

    proxy.plan = Plan([Rule(Match(verb="list", namespace=repository.namespace), EmptyList())])
    done = repository.sync("--kubeconfig", str(proxy.kubeconfig), "--no-wait")
    assert done.code == 0, done.err
    assert "1 deleted, 9 updated" in done.out or "9 updated, 1 deleted" in done.out, "nothing was taken for gone"
    assert (repository.data(cluster, "c0"), repository.data(cluster, "c1")) == (None, {"a": "2"})


def test_two_fleets_that_want_one_object_are_told_each_others_names(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.write("fleet.toml", '[fleet]\nname = "first"\n')
    repository.wants(config_map("shared", {"a": "1"}), clusters=[eu.name])
    repository.commit()
    assert repository.sync().code == 0
    second = repository.other("second")
    second.stack = f"{repository.stack}-2"
    second.write("fleet.toml", '[fleet]\nname = "second"\n')
    space = f"'namespace': {repository.namespace!r}"
    claimed = config_map("shared", {"a": "2"}, "adopt=True").replace("'name': 'shared'", f"'name': 'shared', {space}")
    second.wants(claimed)
    second.commit()
    refused = second.sync("--cluster", eu.name)
    assert refused.code == 4
    assert f"belongs to stack {repository.stack} of the fleet first" in refused.err
    assert f"stack {second.stack} of the fleet second wants it too" in refused.err
    assert repository.data(eu, "shared") == {"a": "1"}


def test_a_suspended_stack_is_left_as_it_is_until_it_is_resumed(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}), clusters=[eu.name])
    repository.commit()
    assert repository.fleet("suspend", "nope").code == 6
    assert repository.sync().code == 0
    said = repository.fleet("suspend", repository.stack, "--reason", "ticket 12")
    assert said.code == 0, said.err
    repository.wants(config_map("a", {"a": "2"}), clusters=[eu.name, us.name])
    revision = repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    for only in ((), ("--cluster", us.name)):
        done = repository.sync(*only)
        assert done.code == 0, done.err
        assert f"ticket 12; {'2 changes wait' if only else '1 change waits'}" in done.out, done.out
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []], (
        "not in the new cluster either"
    )
    refused = repository.fleet("destroy", repository.stack, "--yes")
    assert (refused.code, "fleet resume" in refused.err) == (5, True)
    assert "ticket 12" in repository.fleet("status", "--stack", repository.stack).out
    (here, _) = repository.fleet("status", "--git", "-o", "json").json()["stacks"]
    assert (here["sync"], here["wanted"]) == ("Suspended", revision)

    assert repository.fleet("resume", repository.stack).code == 0
    assert repository.sync().code == 0
    assert repository.data(eu, "a") == repository.data(us, "a") == {"a": "2"}


def test_a_part_of_a_commit_is_applied_alone_and_a_dry_run_writes_nothing(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    names = ("a", "b", "c")
    repository.wants(*(config_map(name, {"a": "1"}) for name in names))
    repository.commit()
    here = ("--cluster", eu.name)
    marks = [one.audit.mark() for one in (eu, us)]
    tried = repository.sync("--dry-run")
    assert (tried.code, "8 to create" in tried.out) == (0, True)
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]

    assert repository.sync("--target", f"{repository.stack}/nope").code == 6
    done = repository.sync(*here, "--target", f"{repository.stack}/a", "--no-wait")
    assert done.code == 0, done.err
    assert [repository.data(eu, name) for name in names] == [{"a": "1"}, None, None]
    assert repository.sync(*here, "--exclude", f"{repository.stack}/ConfigMap/c", "--no-wait").code == 0
    assert [repository.data(eu, name) for name in names] == [{"a": "1"}, {"a": "1"}, None]
    assert repository.sync().code == 0
    assert repository.data(eu, "c") == {"a": "1"}


def test_data_goes_with_a_stack_only_when_the_stack_says_so(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "books"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    here = ("--cluster", eu.name, "--no-wait")
    repository.wants(f"fleet.Manifest({claim!r})", clusters=[eu.name])
    text = (repository.root / "stacks/stack.py").read_text()
    repository.write("stacks/stack.py", text.replace("namespace=", "delete_data=True, namespace="))
    repository.commit()
    done = repository.sync(*here)
    assert done.code == 0, done.err
    gone = repository.fleet("destroy", repository.stack, "--yes", "--timeout", "60s", *here[:2])
    assert gone.code == 0, gone.err
    assert "2 to delete" in gone.out, gone.out
    found = repository.get(eu, "namespace", repository.namespace)
    assert found is None or "deletionTimestamp" in found["metadata"]


def test_a_stack_has_the_rights_of_its_own_account_and_no_others(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    space = eu.namespace
    eu.kubectl("-n", space, "create", "serviceaccount", repository.stack)
    eu.kubectl("-n", space, "create", "role", "maps", "--verb=*", "--resource=configmaps")
    eu.kubectl(
        "-n", space, "create", "rolebinding", "maps", "--role=maps", f"--serviceaccount={space}:{repository.stack}"
    )
    repository.write("fleet.toml", f'[trust]\naccount = "{space}/{{stack}}"\n')
    here = f"'namespace': {space!r}"
    allowed = config_map("mine", {"a": "1"}).replace("'name': 'mine'", f"'name': 'mine', {here}")
    repository.wants(allowed, clusters=[eu.name])
    repository.commit()
    mark = eu.audit.mark()
    done = repository.sync("--dry-run")
    assert done.code == 0, done.err
    done = repository.sync()
    assert done.code == 0, done.err
    patched = [one for one in eu.audit.writes(mark, agent=OURS) if one.name == "mine"]
    assert [one.verb for one in patched] == ["patch"]
    secret = allowed.replace("ConfigMap", "Secret").replace("'data': {'a': '1'}", "'type': 'Opaque'")
    repository.wants(allowed, secret, clusters=[eu.name])
    repository.commit()
    refused = repository.sync()
    assert refused.code == 3, refused.err
    assert f"system:serviceaccount:{space}:{repository.stack}" in refused.err
    assert repository.fleet("destroy", repository.stack, "--yes").code == 0
