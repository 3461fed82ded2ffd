"""A new repository works at once: its checks and its tests pass, and nothing that was there is touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from fleet.repository import Repository
from tests.docs.document import blocks

READING = """import fleet


@fleet.stack(clusters=["dev"])
def reading(cluster: fleet.Cluster) -> None:
    settings = {"metadata": {"name": "settings"}, "data": {"address": fleet.output("writing", "address")}}
    fleet.Manifest({"apiVersion": "v1", "kind": "ConfigMap", **settings})
"""
WRITING = """import fleet


@fleet.stack(clusters=["dev"])
def writing(cluster: fleet.Cluster) -> None:
    fleet.export("address", "db:2379")
"""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_"))}
    return subprocess.run(arguments, cwd=directory, check=False, capture_output=True, text=True, env=environment)


def fleet(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(directory, sys.executable, "-m", "fleet", *arguments)


def pytested(directory: Path) -> str:
    return run(directory, sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider").stdout


def test_a_new_repository_passes_its_checks_and_its_tests(tmp_path: Path) -> None:
    made = fleet(tmp_path, "init", "shop")
    root = tmp_path / "shop"

    assert made.returncode == 0, made.stderr
    assert "fleet check" in made.stdout
    assert yaml.safe_load((root / ".github/workflows/fleet.yml").read_text())["jobs"]["check"]
    checked = fleet(root, "check")
    assert checked.returncode == 0, checked.stderr
    tested = run(root, sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout
    ruff = Path(sys.executable).with_name("ruff")
    assert run(root, str(ruff), "check", "--isolated", "--no-cache", ".").returncode == 0
    assert (
        run(root, str(ruff), "format", "--isolated", "--no-cache", "--check", "--line-length=120", ".").returncode == 0
    )


def test_every_new_fleet_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = []
    for directory in ("Team A/My Shop", "Team B/My Shop"):
        fleet(tmp_path, "init", "--no-git", directory)
        names.append(Repository.at(tmp_path / directory).settings.fleet.name)
    assert all(re.fullmatch("my-shop-[0-9a-f]{6}", name) for name in names)
    assert len(set(names)) == 2


def test_the_tests_of_a_new_repository_can_fail(tmp_path: Path) -> None:
    fleet(tmp_path, "init", "--no-git")
    stack = tmp_path / "stacks/hello.py"
    prod = tmp_path / "clusters/prod.py"
    prod.write_text('import fleet\n\nfleet.Cluster("prod", labels={"env": "prod"})\n')
    stack.write_text(stack.read_text().replace("members=3 if", "members=1 if"))
    assert "1 failed, 1 passed" in pytested(tmp_path)
    stack.write_text(stack.read_text().replace('"store",', '"store", tls=fleet.TLS(enabled=False),'))
    assert "2 failed" in pytested(tmp_path)


def test_the_tests_of_a_new_repository_pass_with_any_other_stacks(tmp_path: Path) -> None:
    fleet(tmp_path, "init", "--no-git")
    page = Path(__file__).parents[2] / "README.md"
    (shown,) = (block for block in blocks(page) if block.path == "stacks/hello.py")
    (tmp_path / "stacks/hello.py").write_text(shown.text)
    assert "2 passed" in pytested(tmp_path)

    (tmp_path / "stacks/hello.py").unlink()
    (tmp_path / "stacks/reading.py").write_text(READING)
    (tmp_path / "stacks/writing.py").write_text(WRITING)
    assert "2 passed" in pytested(tmp_path), "one stack reads an export of another, which is called first"

    (tmp_path / "stacks/reading.py").unlink()
    (tmp_path / "stacks/writing.py").unlink()
    assert "2 passed" in pytested(tmp_path)


def test_a_new_repository_passes_a_strict_type_checker(tmp_path: Path) -> None:
    fleet(tmp_path, "init", "--no-git")
    cache = Path(__file__).parents[2] / ".mypy_cache" / "stacks"
    checked = run(tmp_path, sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", ".")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "in 3 source files" in checked.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_new_repository_is_a_git_repository(tmp_path: Path) -> None:
    fleet(tmp_path, "init", "shop")
    assert run(tmp_path / "shop", "git", "symbolic-ref", "HEAD").stdout.strip() == "refs/heads/main"

    fleet(tmp_path / "shop", "init", "inner")
    assert not (tmp_path / "shop/inner/.git").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")

    refused = fleet(tmp_path, "init")

    assert refused.returncode == 2
    assert "README.md" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_what_was_made_is_told_as_data(tmp_path: Path) -> None:
    data = orjson.loads(fleet(tmp_path, "init", "-o", "json").stdout)

    assert "stacks/hello.py" in data["files"]
    assert sorted(data["files"]) == sorted(
        path.relative_to(tmp_path).as_posix()
        for path in tmp_path.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(tmp_path).parts
    )


def test_the_schema_of_settings_is_renewed_alone(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("# ours\n")
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "fleet.schema.json").symlink_to("elsewhere")
    (tmp_path / "deep").mkdir()

    renewed = fleet(tmp_path / "deep", "init", "--schema")

    assert (renewed.returncode, renewed.stdout) == (0, "fleet.schema.json\n")
    assert "#:schema ./fleet.schema.json" in renewed.stderr, "the file does not lead to it yet"
    assert orjson.loads((tmp_path / "fleet.schema.json").read_bytes())["title"] == "fleet.toml"
    assert (tmp_path / "elsewhere").read_text() == "theirs"
    assert (tmp_path / "fleet.toml").read_text() == "# ours\n"
    (tmp_path / "fleet.toml").write_text("#:schema ./fleet.schema.json\n")
    assert fleet(tmp_path, "init", "--schema").stderr == ""
    assert fleet(tmp_path.parent, "init", "--schema").returncode == 2, "there is no repository"
