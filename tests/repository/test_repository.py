"""Which files belong to a fleet: found from anywhere inside it, and none from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError
from fleet.repository import Paths, Repository, Settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "fleet"
    for name in (
        "fleet.toml",
        "clusters/eu.py",
        "stacks/orders.py",
        "stacks/team/shop.py",
        "stacks/team/_shared.py",
        "stacks/test_orders.py",
        "stacks/conftest.py",
        "stacks/README.md",
        "stacks/.hidden.py",
        "stacks/__pycache__/orders.py",
        "stacks/_library/part.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return root


def test_a_file_whose_name_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").touch()
    (tmp_path / "stacks").mkdir()
    (tmp_path / os.fsdecode(b"stacks/\xff.py")).touch()
    with pytest.raises(ConfigurationError, match=r"stacks/.\.py: the name of the file is not UTF-8 text"):
        Repository.at(tmp_path).stack_files()


def test_the_repository_is_found_from_below(root: Path) -> None:
    assert Repository.find(root / "stacks/team").root == root


def test_outside_a_repository_the_hint_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="fleet init"):
        Repository.find(tmp_path)


def test_stacks_are_python_files_that_are_neither_shared_nor_tests(root: Path) -> None:
    repository = Repository.at(root)
    assert repository.stack_files() == ("stacks/orders.py", "stacks/team/shop.py")
    assert repository.cluster_files() == ("clusters/eu.py",)


def test_a_link_does_not_bring_in_files_from_outside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/stack.py").write_text("")
    (root / "stacks/link.py").symlink_to(tmp_path / "outside.py")
    (root / "stacks/more").symlink_to(tmp_path / "more")
    (root / "linked").symlink_to(tmp_path / "more")

    assert Repository.at(root).stack_files() == ("stacks/orders.py", "stacks/team/shop.py")
    with pytest.raises(ConfigurationError, match=r"paths\.stacks"):
        Repository.at(root, settings=Settings(paths=Paths(stacks="linked"))).stack_files()


def test_a_missing_directory_names_the_setting(root: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"paths\.stacks: the directory deploy/ for stacks does not exist"):
        Repository.at(root, settings=Settings(paths=Paths(stacks="deploy"))).stack_files()
