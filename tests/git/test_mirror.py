"""A bare copy of a remote."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.errors import FleetError, NotFoundError, PolicyError, ResourceError
from fleet.git.environment import GitLimits
from fleet.git.repository import Mirror
from tests.git.repositories import bare, clone, commit, git


def test_a_mirror_follows_its_remote_and_forgets_branches_that_went(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote, a="1")
    git(path, "push", "--quiet", "origin", "main:old")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    mirror.fetch()
    assert mirror.repository.tree("main").read("a") == b"1"
    assert mirror.repository.resolve("old")
    new = commit(path, a="2")
    git(path, "push", "--quiet", "origin", "main", ":old")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    mirror.fetch()
    assert mirror.repository.resolve("main").id == new
    with pytest.raises(NotFoundError):
        mirror.repository.resolve("old")


def test_refs_that_nobody_asks_for_any_more_are_forgotten(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    clone(tmp_path / "clone", remote, a="1")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    mirror.fetch(("+refs/heads/main:refs/fleet-pulls/1", "+refs/heads/main:refs/fleet-pulls/2"))
    mirror.fetch()
    mirror.only("refs/fleet-pulls/", {"refs/fleet-pulls/2", "refs/fleet-pulls/3"})
    assert git(mirror.repository.root, "for-each-ref", "--format=%(refname)").splitlines() == [
        "refs/fleet-pulls/2",
        "refs/heads/main",
    ]


def test_an_empty_remote_gives_an_empty_mirror(tmp_path: Path) -> None:
    mirror = Mirror.of(str(bare(tmp_path / "bare.git")), tmp_path / "cache", by_person=True)
    mirror.fetch()
    with pytest.raises(NotFoundError):
        mirror.repository.resolve("main")


def test_a_local_remote_from_repository_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="local path"):
        Mirror.of(str(bare(tmp_path / "bare.git")), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_remote_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        Mirror.of(str(tmp_path / "nowhere.git"), tmp_path / "cache", by_person=True).fetch()


def test_an_unreachable_remote_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as refused:
        Mirror.of("https://127.0.0.1:1/fleet.git", tmp_path / "cache").fetch()
    assert "reachable" in str(refused.value.hint)


def test_a_transfer_over_the_limit_is_stopped(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote)
    (path / "random").write_bytes(__import__("os").urandom(4_000_000))
    commit(path)
    git(path, "push", "--quiet", "origin", "main")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True, limits=GitLimits(transfer_bytes=1_000_000))
    with pytest.raises(ResourceError, match="over the limit of 1000000 bytes"):
        mirror.fetch()


def test_objects_are_checked_on_transfer(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote)
    blob = git(path, "hash-object", "-w", "--stdin", stdin="evil")
    (tmp_path / "raw").write_bytes(b"100644 .GIT\0" + bytes.fromhex(blob))
    tree = git(path, "hash-object", "-w", "-t", "tree", "--literally", str(tmp_path / "raw"))
    head = git(path, "commit-tree", tree, "-m", "evil")
    git(path, "push", "--quiet", "origin", f"{head}:refs/heads/evil")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    with pytest.raises(FleetError, match="hasDotgit"):
        mirror.fetch()
    with pytest.raises(NotFoundError):
        mirror.repository.resolve("evil")


def test_a_refspec_cannot_be_an_option(tmp_path: Path) -> None:
    mirror = Mirror.of(str(bare(tmp_path / "bare.git")), tmp_path / "cache", by_person=True)
    with pytest.raises(FleetError):
        mirror.fetch(["--upload-pack=touch x"])


def test_several_fetches_at_once_wait_for_each_other(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote)
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)

    def fetch(_: int) -> None:
        time.sleep(0.01)
        mirror.fetch()

    with ThreadPoolExecutor(4) as pool:
        for number in range(3):
            commit(path, a=str(number))
            git(path, "push", "--quiet", "origin", f"main:refs/heads/b{number}")
            list(pool.map(fetch, range(4)))
    assert mirror.repository.resolve("b2").id == git(path, "rev-parse", "HEAD")
