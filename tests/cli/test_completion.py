"""<Tab> in a real shell, and the answers to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(sys.executable).parent


def repository(path: Path) -> Path:
    (path / "stacks").mkdir()
    (path / "clusters").mkdir()
    (path / "fleet.toml").write_text("")
    (path / "stacks" / "orders.py").write_text(
        "import fleet\n\nraise SystemExit('completion must not run this')\n\n"
        '@fleet.stack(clusters="eu-1")\ndef order_book(cluster):\n    pass\n\n'
        '@fleet.stack(clusters="eu-1", name="billing")\ndef other(cluster):\n    pass\n'
    )
    (path / "stacks" / "broken.py").write_text("def (")
    (path / "clusters" / "all.py").write_text(
        'import fleet\nfrom fleet import Cluster\nfleet.Cluster("eu-1")\nCluster(name="us-1")\nCluster(str(1))\n'
    )
    (path / "kubeconfig").write_text("contexts:\n- name: kind-a\n- name: kind-b\n")
    return path


def answers(path: Path, line: str, shell: str = "bash") -> list[str]:
    """What is proposed for the last word of a line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1) if shell != "fish" else words[-1],
        "KUBECONFIG": str(path / "kubeconfig"),
    }
    done = subprocess.run(
        [SCRIPTS / "fleet", "completion", shell, "--answer"],
        env=environment, cwd=path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split(",")[1].split("\t")[0] for line in done.stdout.splitlines() if "," in line]


@pytest.mark.parametrize(
    ("line", "proposals"),
    [
        ("fleet comp", ["completion"]),
        ("fleet completion ", ["bash", "zsh", "fish"]),
        ("fleet cluster ", ["add", "check", "list", "remove"]),
        ("fleet render --stack ", ["billing", "order-book"]),
        ("fleet render --stack b", ["billing"]),
        ("fleet render --cluster ", ["eu-1", "us-1"]),
        ("fleet cluster check e", ["eu-1"]),
        ("fleet explain registry --cluster ", ["eu-1", "us-1"]),
        ("fleet cluster remove ", ["eu-1", "us-1"]),
        ("fleet cluster add x --context ", ["kind-a", "kind-b"]),
        ("fleet cluster list --ch", ["--check"]),
    ],
)
def test_commands_flags_and_names_are_proposed_without_running_user_code(
    tmp_path: Path, line: str, proposals: list[str]
) -> None:
    assert answers(repository(tmp_path), line) == proposals


def test_outside_a_repository_there_are_no_names_and_no_errors(tmp_path: Path) -> None:
    assert answers(tmp_path, "fleet render --stack ") == []
    assert answers(tmp_path, "fleet cluster add x --context ") == []


def test_fish_is_answered_in_its_own_way(tmp_path: Path) -> None:
    assert answers(repository(tmp_path), "fleet render --stack ", "fish") == ["billing", "order-book"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(shell: str) -> None:
    done = subprocess.run([SCRIPTS / "fleet", "completion", shell], capture_output=True, text=True, check=True)
    assert f"completion {shell} --answer" in done.stdout
    assert "_FLEET_COMPLETE" not in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True)


def test_tab_in_bash_completes(tmp_path: Path) -> None:
    if not shutil.which("bash"):
        pytest.skip("there is no bash here")
    script = (
        'source <(fleet completion bash); COMP_WORDS=(fleet render --stack ""); COMP_CWORD=3; '
        'compopt() { :; }; _fleet_completion fleet; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment, cwd=repository(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["billing", "order-book"]
