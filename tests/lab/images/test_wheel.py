"""The project's wheel in the cache, which several checkouts share."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from fleet.lab.images import bake

PROJECT = """
[project]
name = "shared"
version = "1"
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""


def test_the_wheels_of_two_checkouts_do_not_take_each_others_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "cache"))
    built = []
    for checkout in ("one", "two", "one"):
        (tmp_path / checkout / "shared").mkdir(parents=True, exist_ok=True)
        (tmp_path / checkout / "pyproject.toml").write_text(PROJECT)
        (tmp_path / checkout / "shared" / "__init__.py").write_text(f"NAME = {checkout!r}")
        monkeypatch.setattr(bake, "SOURCE", tmp_path / checkout)
        built.append(bake.build_wheel())
    assert built[0] == built[2] != built[1]
    for file, checkout in zip(built, ("one", "two"), strict=False):
        with zipfile.ZipFile(file) as content:
            assert content.read("shared/__init__.py").decode() == f"NAME = {checkout!r}"
