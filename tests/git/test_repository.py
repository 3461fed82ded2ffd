"""Revisions, changes and the state of a working tree, from real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, NotFoundError, PolicyError
from fleet.git.repository import Dirt, FileChange, GitRepository
from tests.git.repositories import bare, clone, commit, git


def test_the_repository_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    assert GitRepository.find(path / "stacks").root == path


def test_a_revision_resolves_to_its_commit(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    first = git(path, "rev-parse", "HEAD")
    second = commit(path, a="1")
    repository = GitRepository.find(path)
    assert repository.resolve().id == second
    assert repository.resolve("HEAD~1").id == first
    assert repository.resolve("main").subject == "change"
    assert repository.resolve(first[:8]).tree == git(path, "rev-parse", f"{first}^{{tree}}")
    assert repository.dirt().branch == "main"


def test_an_unknown_revision_is_not_found_and_an_option_is_no_revision(tmp_path: Path) -> None:
    repository = GitRepository.find(clone(tmp_path / "clone"))
    with pytest.raises(NotFoundError, match="no revision 'nowhere'"):
        repository.resolve("nowhere")
    with pytest.raises(ConfigurationError, match="not a revision"):
        repository.resolve("--all")


def test_a_repository_without_a_commit_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    with pytest.raises(ConfigurationError, match="no commit yet"):
        GitRepository.find(tmp_path).resolve()


def test_in_a_shallow_clone_the_hint_is_to_fetch_the_rest(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    old = git(path, "rev-parse", "HEAD")
    commit(path, a="1")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{path}", "shallow")
    with pytest.raises(NotFoundError) as missing:
        GitRepository.find(tmp_path / "shallow").resolve(old)
    assert "--unshallow" in str(missing.value.hint)


def test_a_clean_working_tree_has_no_dirt_and_a_changed_one_names_its_files(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1", b="1", c="1", d="1")
    repository = GitRepository.find(path)
    assert repository.dirt() == Dirt()
    (path / "a").write_text("2")
    git(path, "rm", "--quiet", "b")
    git(path, "mv", "c", "e f")
    (path / "new\nline").write_text("")
    dirt = repository.dirt()
    assert dirt
    assert dirt.changed == ("a", "b", "c", "e f")
    assert dirt.untracked == ("new\nline",)


def test_looking_at_the_working_tree_does_not_write_the_index(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    (path / "stacks" / "orders.py").touch()  # git would refresh its index for this
    index = path / ".git" / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    assert not GitRepository.find(path).dirt()
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_changes_between_two_revisions_by_path(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1", b="1", c="same content that would be a rename\n" * 9)
    git(path, "rm", "--quiet", "b")
    git(path, "mv", "c", "d")
    commit(path, a="2")
    changes = GitRepository.find(path).changes("HEAD~1", "HEAD")
    assert changes == (
        FileChange("a", "changed"),
        FileChange("b", "removed"),
        FileChange("c", "removed"),
        FileChange("d", "added"),
    )
    (path / "a").unlink()
    (path / "a").symlink_to("d")
    commit(path)
    changes = GitRepository.find(path).changes("HEAD~1", "HEAD")
    assert changes == (FileChange("a", "removed"), FileChange("a", "added")), "a symlink is not read: the file is gone"


def test_a_remote_of_the_clone_is_judged_before_it_is_used(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    repository = GitRepository.find(path)
    assert repository.remote() is None
    git(path, "remote", "add", "origin", "ext::sh -c evil")
    with pytest.raises(PolicyError, match="remote helper"):
        repository.remote()
    git(path, "remote", "set-url", "origin", str(bare(tmp_path / "bare.git")))
    address = repository.remote()
    assert address is not None
    assert address.protocol == "file"
    assert repository.remote("--all") is None


def test_a_linked_working_tree_is_a_repository_too(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    git(path, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    repository = GitRepository.find(tmp_path / "side")
    assert repository.dirt().branch == "side"
    assert repository.checked_out() == {"refs/heads/main", "refs/heads/side"}


def test_refs_that_replace_objects_are_not_believed(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="true")
    other = git(path, "hash-object", "-w", "--stdin", stdin="false")
    git(path, "replace", git(path, "rev-parse", "HEAD:a"), other)
    assert GitRepository.find(path).tree().read("a") == b"true"
