"""The example fleet of this repository, from commit to status branch, on two real API servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.testing import Cluster, GitRemote
from fleet.testing.git import git
from tests.demo.__main__ import PROJECT, example

NAMES = ["eu-1", "us-1"]


@pytest.fixture
def pair(clusters: Callable[[int], list[Cluster]]) -> list[Cluster]:
    return clusters(2)


@pytest.fixture
def kubeconfig(pair: list[Cluster], tmp_path: Path) -> Path:
    """The shared clusters under the names that the example has for them."""
    target = tmp_path / "kubeconfig"
    target.write_bytes(pair[0].kubeconfig.read_bytes())
    for cluster, name in zip(pair, NAMES, strict=True):
        done = cluster.run("kubectl", f"--kubeconfig={target}", "config", "rename-context", cluster.context, name)
        assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def clone(git_remote: GitRemote, tmp_path: Path, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    target = git_remote.clone(tmp_path / "clone")
    example(target)
    yield target
    done = fleet(target, "destroy", "--yes", "coordination", "web")
    assert done.returncode == 0, done.stderr


def fleet(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleet", *arguments]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False, timeout=180)


def test_the_example_fleet_is_synced_and_then_costs_no_write(clone: Path, pair: list[Cluster]) -> None:
    marks = [cluster.audit.mark() for cluster in pair]
    preview = fleet(clone, "preview")
    assert preview.returncode == 0, preview.stderr
    assert "16 to create" in preview.stdout
    for cluster, mark in zip(pair, marks, strict=True):
        assert cluster.audit.requests(mark, agent="fleet/")
        assert cluster.audit.writes(mark, agent="fleet/") == []

    first = fleet(clone, "sync", "--no-wait")  # no operator is here to say that the first wave is healthy
    assert first.returncode == 5, first.stderr
    assert "us-1: coordination waits: wave 1 is not done" in first.stderr

    first = fleet(clone, "sync", "--no-wait", "--ignore-rollout")
    assert first.returncode == 0, first.stderr
    for cluster in pair:
        members = cluster.kubectl("-n", "coordination", "get", "etcd", "registry", "-o", "jsonpath={.spec.members}")
        assert members == "3"

    marks = [cluster.audit.mark() for cluster in pair]
    second = fleet(clone, "sync", "--no-wait", "--ignore-rollout", "--expect-no-changes")
    assert second.returncode == 0, second.stderr
    assert "no changes" in second.stdout
    for cluster, mark in zip(pair, marks, strict=True):
        assert cluster.audit.requests(mark, agent="fleet/")
        assert cluster.audit.writes(mark, agent="fleet/") == []

    git(clone, "fetch", "--quiet", "origin")
    files = git(clone, "ls-tree", "-r", "--name-only", "origin/fleet/status").split()
    assert files == [
        "README.md",
        *(f"clusters/{name}/{stack}.json" for name in NAMES for stack in ("coordination", "web")),
    ]
    page = git(clone, "show", "origin/fleet/status:README.md")
    assert all(name in page for name in (*NAMES, "coordination", "web"))


def test_the_example_is_right_as_it_stands() -> None:
    done = fleet(PROJECT, "check")
    assert done.returncode == 0, done.stderr
    assert "2 stacks, 2 clusters" in done.stdout
