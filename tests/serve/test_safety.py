"""A commit that has lost something, as the service sees it: real git, and what the status branch remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import FleetError, PolicyError, Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.git.repository import GitRepository, Mirror
from fleet.git.status_records import StatusRecord
from fleet.plan.budget import DeletionBudget
from fleet.repository import Repository as Settings
from fleet.serve.safety import check_commit_safety, read_status_records
from fleet.sync.source import NO_FILES, Commit
from fleet.testing.git import git
from tests.git.repositories import bare, clone

HERE = Source("stacks/a.py", 1)


def evaluation(*stacks: str) -> Evaluation:
    clusters = (ClusterData("eu", {}, None, None, False, HERE),)
    rollout = RolloutData((("eu",),), "0s", "15m")
    return Evaluation(clusters, tuple(StackResult(name, HERE, ("eu",), rollout, ()) for name in stacks))


def record(stack: str, revision: str) -> StatusRecord:
    return StatusRecord(stack, "eu", "Synced", "Healthy", "2026-01-01T00:00:00Z", revision, revision)


def test_a_service_goes_on_only_from_what_was_applied_unless_somebody_said_so(tmp_path: Path) -> None:
    repository = GitRepository.find(clone(tmp_path / "clone", bare(tmp_path / "bare.git")))
    root = repository.root
    first = repository.resolve().id
    git(root, "commit", "--quiet", "--allow-empty", "--message", "second")
    second = repository.resolve().id
    git(root, "checkout", "--quiet", "--orphan", "other")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "another past")
    other = repository.resolve().id
    git(root, "commit", "--quiet", "--allow-empty", "--message", "goes on from it")
    third = repository.resolve().id
    git(root, "checkout", "--quiet", "-b", "fork", first)
    git(root, "commit", "--quiet", "--allow-empty", "--message", "beside the second")
    fork = repository.resolve().id
    four = evaluation("a", "b", "c", "d")
    pairs = {(name, "eu") for name in "abcd"}

    def check(revision: str, what: Evaluation, before: str | None, told: list[StatusRecord]) -> None:
        known = (before, pairs) if before else None
        check_commit_safety(repository, revision, what, DeletionBudget(), before=known, memory=lambda: told)

    check(second, four, first, [])
    check(first, four, None, [])
    for revision in (other, first):
        with pytest.raises(PolicyError, match="history was rewritten"):
            check(revision, four, second, [record("a", second)])
        with pytest.raises(PolicyError, match="history was rewritten"):
            check(revision, four, None, [record("a", second)])
        with pytest.raises(PolicyError, match="history was rewritten"):
            check(revision, four, second, [record("a", revision), record("b", second)])
        check(revision, four, second, [record(name, revision) for name in "abcd"])
    with pytest.raises(PolicyError, match="history was rewritten"):
        check(fork, four, second, [record(name, first) for name in "abcd"])  # it lags behind what was seen
    check(third, four, first, [record(name, other) for name in "abcd"])  # allowed, and gone on from

    told = [record(name, first) for name in "abcd"]
    for words in (told, told[:1]):
        with pytest.raises(PolicyError, match="3 of 4 stacks have left git"):
            check(second, evaluation("a"), first, words)
    check(second, evaluation("a"), first, [record("a", second)])
    with pytest.raises(PolicyError, match="no stack is left in git"):
        check(second, evaluation(), None, told)


def test_a_status_branch_that_is_not_there_says_nothing_and_one_that_cannot_be_read_stops(tmp_path: Path) -> None:
    url = bare(tmp_path / "bare.git").as_uri()
    mirror = Mirror.of(url, tmp_path / "cache", by_person=True)
    here = Commit(Settings(NO_FILES), mirror.repository, "", "", remotes={"origin": url})
    assert read_status_records(here) == []
    with pytest.raises(FleetError):
        read_status_records(replace(here, remotes={"origin": (tmp_path / "gone.git").as_uri()}))
