"""What a merge would bring: from the objects of the two commits, and from nothing else that the clone has."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, ConflictError, ResourceError
from fleet.git.merge import merged_tree
from fleet.git.repository import GitRepository
from tests.git.repositories import bare, clone, commit, git

LINES = "1\n2\n3\n4\n5\n6\n7\n"


def diverged(path: Path, theirs: str = LINES.replace("7", "theirs")) -> Path:
    """`main` and `change`, which both edit the file a since they parted."""
    clone(path, a=LINES)
    git(path, "switch", "--quiet", "--create", "change")
    commit(path, a=theirs)
    git(path, "switch", "--quiet", "main")
    commit(path, a=LINES.replace("1", "ours"))
    return path


def merged(path: Path, base: str = "main", head: str = "change") -> str:
    repository = GitRepository.find(path)
    return merged_tree(repository, repository.resolve(base), repository.resolve(head))


def test_two_edits_of_one_file_are_merged_and_the_result_lies_in_the_clone(tmp_path: Path) -> None:
    path = diverged(tmp_path / "clone")
    tree = merged(path)
    assert git(path, "cat-file", "blob", f"{tree}:a") == "ours\n2\n3\n4\n5\n6\ntheirs"
    assert not git(path, "status", "--porcelain")


@pytest.mark.parametrize("where", [".gitattributes", ".git/info/attributes"])
def test_attributes_have_no_say_in_it(tmp_path: Path, where: str) -> None:
    path = diverged(tmp_path / "clone", theirs=LINES.replace("1", "theirs"))
    (path / ".git" / "info").mkdir(exist_ok=True)
    (path / where).write_text("* merge=union\n")
    if where == ".gitattributes":
        commit(path)
    assert git(path, "merge-tree", "--write-tree", "main", "change"), "git by itself takes both sides"
    with pytest.raises(ConflictError, match="both change 'a'"):
        merged(path)


def test_it_works_in_linked_working_trees_shared_clones_and_with_other_ids(tmp_path: Path) -> None:
    path = diverged(tmp_path / "clone")
    git(path, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    git(tmp_path, "clone", "--quiet", "--shared", str(path), "shared")
    assert merged(path) == merged(tmp_path / "linked") == merged(tmp_path / "shared", "origin/main", "origin/change")
    longer = tmp_path / "longer"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--object-format=sha256", str(longer))
    commit(longer, a=LINES)
    git(longer, "switch", "--quiet", "--create", "change")
    commit(longer, b="2")
    git(longer, "switch", "--quiet", "main")
    commit(longer, c="3")
    assert git(longer, "ls-tree", "--name-only", merged(longer)).split() == ["a", "b", "c"]


def test_a_shallow_clone_merges_what_it_has_and_says_when_that_is_too_little(tmp_path: Path) -> None:
    path = diverged(tmp_path / "clone")
    commit(path, b="later")
    for depth in ("3", "1"):
        git(tmp_path, "clone", "--quiet", f"--depth={depth}", "--no-single-branch", f"file://{path}", depth)
    assert merged(tmp_path / "3", "origin/main", "origin/change") == merged(path)
    with pytest.raises(ConfigurationError, match="no common ancestor") as refused:
        merged(tmp_path / "1", "origin/main", "origin/change")
    assert refused.value.hint == "git fetch --unshallow"


@pytest.mark.parametrize("filtered", ["blob:none", "tree:0"])
def test_what_a_partial_clone_lacks_is_missed_and_not_taken_for_empty(tmp_path: Path, filtered: str) -> None:
    path = diverged(tmp_path / "clone")
    git(path, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--no-checkout", f"--filter={filtered}", f"file://{path}", "partial")
    with pytest.raises(ResourceError, match="partial clone"):
        merged(tmp_path / "partial", "origin/main", "origin/change")


def test_a_repository_that_is_shared_with_a_group_stays_so(tmp_path: Path) -> None:
    path = diverged(tmp_path / "clone")
    remote = bare(tmp_path / "bare.git")
    git(path, "push", "--quiet", str(remote), "main", "change")
    git(remote, "config", "core.sharedRepository", "group")
    repository = GitRepository.open_bare(remote)
    tree = merged_tree(repository, repository.resolve("main"), repository.resolve("change"))
    assert (remote / "objects" / tree[:2]).stat().st_mode & stat.S_IWGRP
