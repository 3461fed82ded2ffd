"""`fleet agent` on a real API server, with a branch that people do things to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.testing import GitRemote
from fleet.testing.git import git
from tests.serve.pulling_clusters import CENTRE_KNOWS, POLL, Agent
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository, Run, config_map


@dataclass
class Edge:
    """A cluster with an agent that reports to a repository of its own, and a person who can push to its branch."""

    repository: FleetRepository
    reports: GitRemote
    agent: Agent
    looking: Served
    clone: Path

    @property
    def branch(self) -> str:
        return f"fleet/rendered/{self.agent.cluster.name}"

    def render(self, *arguments: str) -> Run:
        return self.repository.fleet("render", "--push", "--reports", self.reports.url, *arguments)

    def once(self, *arguments: str) -> Run:
        place = ("--kubeconfig", str(self.agent.cluster.kubeconfig), "--cache", str(self.agent.directory / "once"))
        about = ("--repository", self.repository.remote.url, "--cluster", self.agent.cluster.name)
        return self.repository.fleet("agent", *about, *place, "--report", self.reports.url, "--once", *arguments)

    def start(self) -> None:
        self.agent.start("--report", self.reports.url, poll=POLL)
        self.until("it is ready", lambda: self.agent.ask("/readyz")[0] == 200)

    def record(self) -> dict[str, Any]:
        path = f"clusters/{self.agent.cluster.name}/{self.repository.stack}.json"
        try:
            found: dict[str, Any] = json.loads(self.reports.git("show", f"fleet/status:{path}"))
        except AssertionError:
            return {}
        return found

    def forge(self, change: Callable[[Path], object]) -> str:
        """A commit on the branch by somebody else."""
        git(self.clone, "fetch", "--quiet", "origin", self.branch)
        git(self.clone, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        change(self.clone)
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "--message", "forged")
        git(self.clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{self.branch}")
        return git(self.clone, "rev-parse", "HEAD").strip()

    def data(self) -> dict[str, str] | None:
        return self.looking.data(self.agent.cluster, "settings")

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        self.agent.until(what, condition)


@pytest.fixture
def edge(repository: FleetRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    eu = repository.clusters[0]
    lines = [f"fleet.Cluster({one.name!r}, pull=True)" for one in repository.clusters]
    repository.write("clusters/all.py", "\n".join(["import fleet", *lines, ""]))
    monkeypatch.setenv("KUBECONFIG", CENTRE_KNOWS)
    agent = Agent(eu, tmp_path / "agent", repository.remote.url)
    reports = GitRemote.make(tmp_path / "reports.git")
    made = Edge(repository, reports, agent, Served(repository, tmp_path), repository.remote.clone(tmp_path / "clone"))
    yield made
    agent.kill()


def emptied(root: Path, good: str) -> None:
    git(root, "checkout", "--quiet", good, "--", ".")
    for one in (root / "stacks").iterdir():
        one.unlink()
    edit(root, stacks=[])


def edit(root: Path, **fields: Any) -> None:
    """`fleet.json` with other fields, in the form that is asked for."""
    path = root / "fleet.json"
    data = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def test_a_branch_that_is_not_what_it_should_be_changes_and_deletes_nothing(edge: Edge) -> None:
    repository, eu = edge.repository, edge.agent.cluster
    repository.wants(config_map("settings", {"a": "1"}))
    first = repository.commit()
    assert edge.render().code == 0
    assert edge.data() is None, "the centre reaches no cluster"
    done = edge.once()
    assert (done.code, edge.data()) == (0, {"a": "1"}), done.err
    assert f"{repository.stack} on {eu.name}: 2 created, healthy" in done.out
    assert (edge.record()["revision"], edge.record()["sync"], len(edge.record()["content"])) == (first, "Synced", 32)
    heads = repository.remote.git("for-each-ref", "--format=%(refname)").split()
    assert "refs/heads/fleet/status" not in heads, "it reports to a repository of its own"

    good = repository.remote.git("rev-parse", edge.branch).strip()
    edge.start()
    other = f"fleet/rendered/{repository.clusters[1].name}"

    def is_told(said: str) -> None:
        edge.until(f"{said!r} is told", lambda: said in edge.record().get("message", ""))
        assert (edge.record()["sync"], edge.record()["revision"], edge.data()) == ("Failed", first, {"a": "1"})

    edge.forge(
        lambda root: (
            git(root, "fetch", "--quiet", "origin", other),
            git(root, "checkout", "--quiet", "FETCH_HEAD", "--", "."),
        )
    )
    is_told(f"the set is for '{repository.clusters[1].name}'")
    edge.forge(lambda root: emptied(root, good))
    is_told("no stack is left in git")
    edge.forge(lambda root: git(root, "checkout", "--quiet", good, "--", "."))
    edge.until("it goes on", lambda: edge.record()["sync"] == "Synced")

    repository.remote.git("update-ref", "-d", f"refs/heads/{edge.branch}")
    repository.wants(config_map("settings", {"a": "2"}))
    second = repository.commit()
    assert edge.render().code == 0, "a branch that is not there is made"
    edge.until("it is refused", lambda: "the branch was rewritten" in edge.record().get("message", ""))
    edge.agent.kill()
    edge.start()
    refused = edge.once()
    assert (refused.code, "the branch was rewritten" in refused.err, edge.data()) == (5, True, {"a": "1"})
    assert edge.once("--allow-rewritten").code == 0
    assert (edge.data(), edge.record()["revision"]) == ({"a": "2"}, second)
    repository.wants(config_map("settings", {"a": "3"}))
    repository.commit()
    assert edge.render().code == 0
    edge.until("the agent goes on by itself", lambda: edge.data() == {"a": "3"})


def test_what_leaves_the_cluster_is_forgotten_and_what_leaves_git_is_left(edge: Edge) -> None:
    repository, eu = edge.repository, edge.agent.cluster
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    assert edge.render().code == 0
    assert edge.once().code == 0
    repository.wants(config_map("settings", {"a": "1"}), clusters=[repository.clusters[1].name])
    repository.commit()
    assert edge.render("--allow-deletes", "5").code == 0
    done = edge.once()
    assert (done.code, edge.data(), edge.record()) == (0, {"a": "1"}, {}), done.err
    inventory = f"fleet.dev/inventory={repository.stack}"
    assert eu.kubectl("-n", "fleet-system", "get", "configmap", "-l", inventory, "-o", "name") == ""
