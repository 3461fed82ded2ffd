"""Whether a commit goes on from what was applied, in clones that have all of the history and in those that do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, PolicyError
from fleet.git.refs import address
from fleet.git.repository import GitRepository, with_history
from fleet.objects.desired import Key
from fleet.plan import Inventory, Plan, Step, Verb
from fleet.sync.safety import check_ancestry
from fleet.testing.git import git
from tests.git.repositories import bare, clone

STEP = Step(Verb.UPDATE, Key("", "ConfigMap", "orders", "settings"), {})


def commits(path: Path, *names: str) -> list[str]:
    made = []
    for name in names:
        git(path, "commit", "--quiet", "--allow-empty", "--message", name)
        made.append(git(path, "rev-parse", "HEAD").strip())
    return made


def checked(here: GitRepository, revision: str, applied: str, *, back: bool = False) -> None:
    plan = Plan("orders", "eu", (STEP,), Inventory("orders", "eu", revision=applied))
    url = here.remotes().get("origin")
    remote = address(url, by_person=True) if url else None
    check_ancestry(here, revision, [plan], back=back, deepened=lambda git: with_history(git, remote, "main"))


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return bare(tmp_path / "origin.git")


def shallow(origin: Path, path: Path) -> GitRepository:
    git(path.parent, "clone", "--quiet", "--depth=1", f"file://{origin}", path.name)
    found = GitRepository.find(path)
    assert found.shallow
    return found


def test_a_shallow_clone_fetches_the_history_that_the_answer_needs(origin: Path, tmp_path: Path) -> None:
    whole = clone(tmp_path / "whole", origin)
    first, _, last = commits(whole, "first", "second", "last")
    git(whole, "push", "--quiet", "origin", "HEAD:main")
    here = shallow(origin, tmp_path / "ci")
    before = git(here.root, "for-each-ref")
    checked(here, last, first)
    assert git(here.root, "for-each-ref") == before, "no name is made or moved"
    assert not GitRepository.find(here.root).shallow
    git(whole, "reset", "--quiet", "--hard", "HEAD~2")
    (other,) = commits(whole, "another past")
    git(whole, "push", "--quiet", "--force", "origin", "HEAD:main")
    with pytest.raises(PolicyError, match="the history was rewritten"):
        checked(shallow(origin, tmp_path / "rewritten"), other, last)


def test_an_earlier_commit_that_a_person_names_is_known_to_be_one(origin: Path, tmp_path: Path) -> None:
    whole = clone(tmp_path / "whole", origin)
    first, last = commits(whole, "first", "last")
    git(whole, "push", "--quiet", "origin", "HEAD:main")
    here = shallow(origin, tmp_path / "ci")
    git(here.root, "fetch", "--quiet", "--depth=1", "origin", first)
    checked(here, first, last, back=True)
    with pytest.raises(PolicyError, match="the history was rewritten"):
        checked(GitRepository.find(whole), first, last)


@pytest.mark.parametrize("lost", ["remote", "its answer"])
def test_what_cannot_be_known_is_refused_and_never_skipped(origin: Path, tmp_path: Path, lost: str) -> None:
    whole = clone(tmp_path / "whole", origin)
    first, last = commits(whole, "first", "last")
    git(whole, "push", "--quiet", "origin", "HEAD:main")
    here = shallow(origin, tmp_path / "ci")
    checked(here, last, last)
    if lost == "remote":
        git(here.root, "remote", "remove", "origin")
    else:
        shutil.rmtree(origin)
    with pytest.raises(ConfigurationError, match="this clone is shallow") as refused:
        checked(here, last, first)
    assert "fetch-depth: 0" in str(refused.value)


def test_the_history_of_another_branch_is_fetched_too_but_not_where_the_remote_has_none(
    origin: Path, tmp_path: Path
) -> None:
    whole = clone(tmp_path / "whole", origin)
    git(whole, "push", "--quiet", "origin", "HEAD:main")
    git(whole, "switch", "--quiet", "--create", "side")
    first, _, last = commits(whole, "first", "second", "last")
    git(whole, "push", "--quiet", "origin", "side")
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=side", f"file://{origin}", "ci")
    checked(GitRepository.find(tmp_path / "ci"), last, first)
    git(tmp_path, "clone", "--quiet", "--bare", "--depth=1", "--no-single-branch", f"file://{origin}", "part.git")
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=side", f"file://{tmp_path}/part.git", "of-part")
    with pytest.raises(ConfigurationError, match="this clone is shallow"):
        checked(GitRepository.find(tmp_path / "of-part"), last, first)
