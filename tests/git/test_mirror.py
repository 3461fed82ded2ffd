"""A bare copy of a remote."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import FleetError, NotFoundError, PolicyError, ResourceError
from fleet.git.environment import GitLimits
from fleet.git.repository import HEADS_LOCK, LEFT_SECONDS, UNTIDY_SECONDS, Mirror, _lock
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
    (path / "random").write_bytes(os.urandom(4_000_000))
    commit(path)
    git(path, "push", "--quiet", "origin", "main")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True, limits=GitLimits(transfer_bytes=1_000_000))
    with pytest.raises(ResourceError, match="over the limit of 1000000 bytes"):
        mirror.fetch()


def make_older(path: Path, seconds: float) -> None:
    """Set the time of a file, or of all files in a directory, to that long ago."""
    for file in [path] if path.is_file() else path.rglob("*"):
        os.utime(file, (time.time() - seconds,) * 2)


def test_what_a_stopped_transfer_leaves_behind_is_removed(tmp_path: Path) -> None:
    """Git keeps it for two weeks, and so a fork's author could fill the disk with heads that are over the limit."""
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote)
    (path / "random").write_bytes(os.urandom(4_000_000))
    commit(path)
    git(path, "push", "--quiet", "origin", "main")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True, limits=GitLimits(transfer_bytes=1_000_000))
    for _ in range(2):
        with pytest.raises(ResourceError, match="over the limit"):
            mirror.fetch()
    objects = mirror.repository.root / "objects"

    def left() -> int:
        return sum(file.stat().st_size > 500_000 for file in objects.rglob("tmp_*"))

    mirror.make_room(100_000_000)
    assert left() == 2, "it may be of a fetch of this moment"
    make_older(objects, LEFT_SECONDS + 5)
    with _lock(mirror.repository.root, HEADS_LOCK):
        mirror.make_room(100_000_000)
    assert left() == 2, "it may be of the fetch that is under way"
    mirror.make_room(100_000_000)
    assert left() == 0


def test_a_mirror_that_is_full_takes_no_more_until_something_is_forgotten(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote, a="1")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    mirror.fetch()
    mirror.make_room(1_000_000)
    (path / "random").write_bytes(os.urandom(4_000_000))
    commit(path)
    git(path, "push", "--quiet", "origin", "main:head")
    mirror.fetch(("+refs/heads/head:refs/fleet-pulls/1",), lock=HEADS_LOCK)
    with pytest.raises(ResourceError, match="has more than 1000000 bytes"):
        mirror.make_room(1_000_000)
    mirror.only("refs/fleet-pulls/", set())
    make_older(mirror.repository.root / "objects", 7200)
    with pytest.raises(ResourceError):
        mirror.make_room(1_000_000)
    make_older(mirror.repository.root.with_suffix(".untidy"), UNTIDY_SECONDS + 5)
    mirror.make_room(1_000_000)
    assert mirror.repository.tree("main").read("a") == b"1"


def test_a_fetch_is_done_also_where_the_mirror_cannot_be_tidied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """How long that takes is for whoever may open a pull request: the branch is followed all the same."""
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote, a="1")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    hurried = replace(mirror, repository=replace(mirror.repository, limits=GitLimits(seconds=0)))
    for value in ("2", "3"):
        new = commit(path, a=value)
        git(path, "push", "--quiet", "origin", "main")
        hurried.fetch()
        assert mirror.repository.resolve("main").id == new
    assert ["cannot tidy the mirror" in line for line in caplog.messages] == [True], "not with every fetch"


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
