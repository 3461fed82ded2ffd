"""Files of a revision without a checkout."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, NotFoundError, PolicyError, ResourceError
from fleet.git.environment import GitLimits
from fleet.git.repository import GitRepository
from tests.git.repositories import bare, clone, commit, git


def test_files_are_listed_and_read_from_any_revision_whatever_the_working_tree_holds(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1", stacks__x_py="x")
    commit(path, a="2")
    (path / "a").write_text("3")
    repository = GitRepository.find(path)
    assert [file.path for file in repository.tree("HEAD").files()] == ["a", "stacks/x.py"]
    assert [file.path for file in repository.tree("HEAD").files("stacks")] == ["stacks/x.py"]
    assert repository.tree("HEAD").read("a") == b"2"
    assert repository.tree("HEAD~1").read("a") == b"1"
    assert repository.tree("HEAD").read_all() == {"a": b"2", "stacks/x.py": b"x"}
    with pytest.raises(NotFoundError, match="no file 'b'"):
        repository.tree().read("b")


def test_a_tree_is_materialised_to_the_byte_with_modes_and_odd_names(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    (path / "empty").write_bytes(b"")
    (path / "binary").write_bytes(bytes(range(256)) * 5000)
    (path / "ü mlaut\n\t").write_text("odd")
    (path / os.fsdecode(b"not-utf8-\xff")).write_text("odd")
    (path / ".gitattributes").write_text("a filter=evil export-ignore text eol=crlf\n")
    git(path, "config", "filter.evil.smudge", "false")
    commit(path)
    target = tmp_path / "target"
    written = GitRepository.find(path).tree().materialise(target)
    assert {file.path for file in written} == {
        os.fsdecode(os.fsencode(p.relative_to(target))) for p in target.rglob("*")
    }
    for file in target.iterdir():
        assert file.read_bytes() == (path / file.name).read_bytes()
    assert (target / "run.sh").stat().st_mode & 0o111
    assert not (target / "a").stat().st_mode & 0o111


def test_part_of_a_tree_can_be_materialised(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1", stacks__x_py="x", clusters__y_py="y")
    GitRepository.find(path).tree().materialise(tmp_path / "target", "stacks", "clusters")
    assert sorted(p.name for p in (tmp_path / "target").iterdir()) == ["clusters", "stacks"]


def test_a_symlink_is_an_error_that_names_it_and_nothing_is_written(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1")
    (path / "stacks").mkdir()
    (path / "stacks" / "secrets.py").symlink_to("/etc/passwd")
    commit(path)
    tree = GitRepository.find(path).tree()
    with pytest.raises(PolicyError, match=r"stacks/secrets\.py: it is a symlink"):
        tree.materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()
    with pytest.raises(PolicyError, match="symlink"):
        tree.read("stacks/secrets.py")
    tree.materialise(tmp_path / "other", "a")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "..//../x", "../stacks/../../x", "../.."])
def test_a_symlink_that_leads_out_of_the_repository_is_refused(tmp_path: Path, target: str) -> None:
    path = clone(tmp_path / "clone", stacks__x_py="x")
    (path / "stacks" / "link").symlink_to(target)
    commit(path)
    with pytest.raises(PolicyError, match=r"stacks/link: it is a symlink in HEAD and leads out of the repository"):
        GitRepository.find(path).tree().materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("name", "target"),
    [("y.py", "x.py"), ("y.yaml", "../a"), ("y", "x.py"), ("y", ".."), ("y", "."), ("y", "../docs"), ("y", "../link")],
)
def test_a_symlink_that_a_stack_could_mean_is_refused(tmp_path: Path, name: str, target: str) -> None:
    path = clone(tmp_path / "clone", a="1", stacks__x_py="x", docs__README="read me")
    (path / "link").symlink_to("a")
    (path / "stacks" / name).symlink_to(target)
    commit(path)
    with pytest.raises(PolicyError, match=rf"stacks/{name}: it is a symlink in HEAD, and those are never followed"):
        GitRepository.find(path).tree().materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_symlink_to_a_document_is_listed_and_leads_nowhere(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", docs__README="read me", stacks__x_py="x")
    (path / "README").symlink_to("docs/README")
    (path / "stacks" / "more").mkdir()
    (path / "stacks" / "more" / "README").symlink_to("../../docs/README")
    (path / "gone").symlink_to("not-there")
    commit(path)
    tree, target = GitRepository.find(path).tree(), tmp_path / "target"
    assert [file.path for file in tree.materialise(target)] == ["docs/README", "stacks/x.py"]
    assert sorted(entry.name for entry in target.iterdir()) == ["README", "docs", "gone", "stacks"]
    for name in ("README", "stacks/more/README", "gone"):
        with pytest.raises(FileNotFoundError, match=name):
            (target / name).read_bytes()
    with pytest.raises(PolicyError, match="symlink"):
        tree.read("README")


def test_a_hand_made_tree_cannot_write_through_a_symlink(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    blob = git(path, "hash-object", "-w", "--stdin", stdin="x")
    link = git(path, "hash-object", "-w", "--stdin", stdin="elsewhere")
    (tmp_path / "raw").write_bytes(b"100644 config\0" + bytes.fromhex(blob))
    inner = git(path, "hash-object", "-w", "-t", "tree", "--literally", str(tmp_path / "raw"))
    twice = b"120000 a\0" + bytes.fromhex(link) + b"40000 a\0" + bytes.fromhex(inner)
    (tmp_path / "raw").write_bytes(twice)
    outer = git(path, "hash-object", "-w", "-t", "tree", "--literally", str(tmp_path / "raw"))
    head = git(path, "commit-tree", outer, "-m", "evil")
    with pytest.raises(PolicyError, match="a directory of that name"):
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_submodule_is_left_out(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1")
    head = git(path, "rev-parse", "HEAD")
    git(path, "update-index", "--add", "--cacheinfo", f"160000,{head},theirs")
    git(path, "commit", "--quiet", "--message", "submodule")
    written = GitRepository.find(path).tree().materialise(tmp_path / "target")
    assert [file.path for file in written] == ["a"]


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", "git~1", "."])
def test_a_hand_made_tree_cannot_write_outside(tmp_path: Path, name: str) -> None:
    path = clone(tmp_path / "clone")
    blob = git(path, "hash-object", "-w", "--stdin", stdin="evil")
    raw = b"100644 " + b"config\0" + bytes.fromhex(blob)
    (tmp_path / "raw").write_bytes(raw)
    inner = git(path, "hash-object", "-w", "-t", "tree", "--literally", str(tmp_path / "raw"))
    (tmp_path / "raw").write_bytes(b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner))
    outer = git(path, "hash-object", "-w", "-t", "tree", "--literally", str(tmp_path / "raw"))
    head = git(path, "commit-tree", outer, "-m", "evil")
    with pytest.raises(PolicyError, match="not safe"):
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_limits_hold_before_anything_is_read(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1" * 2000, b="2" * 2000)
    for limits, words in (
        (GitLimits(file_bytes=1000), "a: it is over 1000 bytes"),
        (GitLimits(tree_bytes=3000), "over 3000 bytes together"),
        (GitLimits(files=1), "more than 1 files"),
    ):
        with pytest.raises(ResourceError, match=words):
            GitRepository.find(path, limits=limits).tree().materialise(tmp_path / "target")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "-x", "a/../b", "", ".git/config"])
def test_paths_outside_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="not a path inside"):
        GitRepository.find(clone(tmp_path / "clone")).tree().read(name)


def test_only_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "mine").write_text("")
    with pytest.raises(ConfigurationError, match="not empty"):
        GitRepository.find(clone(tmp_path / "clone")).tree().materialise(tmp_path / "target")


def test_a_missing_blob_of_a_partial_clone_is_an_error_and_is_not_fetched_silently(tmp_path: Path) -> None:
    clone(tmp_path / "clone", bare(tmp_path / "bare.git"), a="1")
    git(tmp_path / "bare.git", "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{tmp_path}/bare.git", "partial")
    with pytest.raises(ResourceError, match="partial clone"):
        GitRepository.find(tmp_path / "partial").tree("origin/main").materialise(tmp_path / "target")


def test_two_thousand_files_are_there_in_a_blink(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", None, **{f"d{n % 40}__f{n}": f"{n}\n" * 20 for n in range(2000)})
    tree = GitRepository.find(path).tree()
    begin = time.thread_time()
    tree.materialise(tmp_path / "target")
    assert time.thread_time() - begin < 2  # a process per file would take five times that, a checkout none of our CPU
    assert (tmp_path / "target" / "d7" / "f7").read_text() == "7\n" * 20
