"""Whatever goes wrong ends in words and an exit code, never in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

NO_CONFIG = {"KUBECONFIG": "/nowhere/config"}


def run(
    directory: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=directory,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    assert run(tmp_path, "fleet", "init", "shop").returncode == 0
    (tmp_path / "afile").touch()
    for words in (["add", "."], ["-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "--quiet", "-mx"]):
        subprocess.run(["git", *words], cwd=tmp_path / "shop", check=True)
    return tmp_path / "shop"


@pytest.mark.parametrize("command", ["init", "render --to", "crds --write"])
def test_a_directory_that_cannot_be_made_is_named(shop: Path, command: str) -> None:
    done = run(shop, "fleet", *command.split(), "../afile/x")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ../afile/x")
    assert done.stderr.endswith(": Not a directory\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_output_to_a_full_disk_is_one_line(shop: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fleet", "render"]
        done = subprocess.run(command, cwd=shop, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.parametrize("command", ["preview", "sync", "check --once"])
def test_a_stack_that_is_named_without_its_option_is_told_of_it(shop: Path, command: str) -> None:
    done = run(shop, "fleet", *command.split(), "web")
    assert done.returncode == 2
    hint = "\n  hint: stacks are named with --stack NAME\n"
    takes_stacks = not command.startswith("check")
    assert done.stderr.endswith(f"error: Got unexpected extra argument (web){hint if takes_stacks else chr(10)}")


def test_a_directory_that_was_deleted_is_said_to_be_gone(tmp_path: Path) -> None:
    script = f'mkdir gone && cd gone && rmdir ../gone && "{sys.executable}" -m fleet check'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "error: the current directory is gone\n  hint: cd to one that exists\n",
    )


def test_who_has_read_enough_ends_a_command_without_an_error(tmp_path: Path) -> None:
    script = f'"{sys.executable}" -m fleet crds; echo "code $?" >&2'
    done = subprocess.run(
        ["sh", "-c", f"({script}) | (read line; exec 0<&-; sleep 1)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "code 0\n"


def test_an_error_is_called_the_same_whoever_found_it(tmp_path: Path) -> None:
    for arguments in (["nonsense"], ["check", "--nonsense"], ["init", "--output", "xml"], ["check"]):
        done = run(tmp_path, "fleet", *arguments)
        assert done.returncode == 2
        assert "\nerror: " in f"\n{done.stderr}"
        assert "Error:" not in done.stderr


def test_the_operator_ends_as_the_command_line_does(tmp_path: Path) -> None:
    without = run(tmp_path, "fleet", "operator", "run", environment=NO_CONFIG)
    assert without.returncode == 3
    assert without.stderr.splitlines()[-2] == "error: there is no kubeconfig at /nowhere/config"
    wrong = run(tmp_path, "fleet", "operator", "run", "--metrics", "x")
    assert wrong.returncode == 2
    assert "'x' is not ADDRESS:PORT" in wrong.stderr
    checked = run(tmp_path, "fleet_operator", "check")
    assert (checked.returncode, checked.stderr) == (2, "error: this is not a pod with a service account\n")


def test_nothing_is_said_of_clusters_that_were_not_asked(shop: Path) -> None:
    status = run(shop, "fleet", "status", environment=NO_CONFIG)
    assert (status.returncode, status.stdout) == (3, "nothing is known\ncould not be asked: dev\n")
    diff = run(shop, "fleet", "diff", environment=NO_CONFIG)
    assert (diff.returncode, diff.stdout) == (3, "nothing is known\ncould not be compared on dev: hello\n")
    assert (
        '"failed": [\n    {\n      "stack": "hello",\n      "cluster": "dev",\n'
        in run(shop, "fleet", "diff", "-o", "json", environment=NO_CONFIG).stdout
    )


def test_without_a_kubeconfig_the_hint_is_about_that(shop: Path) -> None:
    done = run(shop, "fleet", "connect", "store", environment=NO_CONFIG)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "  hint: name one with --kubeconfig or the variable KUBECONFIG"


@pytest.mark.parametrize("command", ["sync", "history", "status --git", "rollback hello"])
def test_without_git_it_is_git_that_is_missing(shop: Path, command: str) -> None:
    done = run(shop, "fleet", *command.split(), environment={"PATH": "/nowhere"})
    assert done.returncode == 2
    assert done.stderr.startswith("error: git was not found on this machine")


def test_a_directory_that_is_no_git_repository_is_said_to_be_none(tmp_path: Path) -> None:
    run(tmp_path, "fleet", "init", "--no-git")
    done = run(tmp_path, "fleet", "sync")
    assert done.returncode == 2
    assert "this is not a git repository" in done.stderr
