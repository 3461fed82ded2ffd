"""The environment that git runs in, seen from inside git."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fleet import errors
from fleet.git import command
from fleet.git.command import Git
from fleet.git.environment import DEFAULT_LIMITS, GitLimits
from fleet.git.repository import GitRepository
from tests.git.repositories import clone, git


def probe(directory: Path, script: str, limits: GitLimits = DEFAULT_LIMITS) -> str:
    """Run a line of shell where git would run: an alias given for one command is a shell line."""
    return Git(directory, limits=limits).run("probe", "-c", f"alias.probe=!{script}", "probe").text


def test_no_variable_of_the_caller_that_steers_git_gets_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_SSH_COMMAND",
        "GIT_TRACE",
        "GIT_EXTERNAL_DIFF",
        "SSH_ASKPASS",
    ):
        monkeypatch.setenv(name, "/evil")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "1")
    seen = dict(line.split("=", 1) for line in probe(clone(tmp_path / "clone"), "env").splitlines() if "=" in line)
    assert "/evil" not in seen.values()
    assert seen["GIT_TERMINAL_PROMPT"] == "0"
    assert seen["GIT_CONFIG_COUNT"] != "0"


def test_every_command_runs_in_an_environment_without_what_the_caller_says_to_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/evil")
    monkeypatch.setenv("PAGER", "/evil")
    monkeypatch.setenv("OTHER", "kept")
    process = command._start_process(["sh", "-c", "env; ps -o sid= -p $$"], tmp_path, {"GIT_EDITOR": "no"})
    said = process.communicate(timeout=30)[0].decode().split()
    assert {"OTHER=kept", "GIT_EDITOR=no", "LC_ALL=C"} <= set(said)
    assert not [word for word in said if "evil" in word]
    assert int(said[-1]) == process.pid, "a session of its own"


def test_neither_reading_nor_writing_loads_gitpython(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    program = (
        "import sys\nfrom pathlib import Path\nfrom fleet.git.repository import GitRepository\n"
        "from fleet.git.status import report\nfrom fleet.git.status_records import StatusReport\n"
        f"found = GitRepository.find(Path({str(path)!r}))\n"
        "head = found.resolve()\nfound.dirt(), found.remotes(), found.tree().read_all()\n"
        "report(found, [StatusReport('orders', 'eu-1', head.id, health='Healthy')], remote=None)\n"
        "sys.exit('git' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert git(path, "rev-list", "--count", "fleet/status") == "1"


def test_there_is_no_terminal_to_ask_a_question_on(tmp_path: Path) -> None:
    assert probe(clone(tmp_path / "clone"), "sh -c '(: </dev/tty) 2>/dev/null && echo asks || echo silent'") == "silent"


def test_of_the_persons_configuration_only_what_gives_access_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[alias]\n\tst = status\n[user]\n\tname = Me\n[core]\n\tfsmonitor = /bin/evil\n\thooksPath = /evil\n"
        '[credential]\n\thelper = store\n\thelper = "!f() { echo \\"a\\\\\\\\b\\"; }; f"\n'
        '[credential "https://git.example.com"]\n\tusername = me\n\tuseHttpPath\n'
        '[url "ssh://git@host/"]\n\tinsteadOf = gh:\n'
        "[safe]\n\tdirectory = /srv/theirs\n"
    )
    monkeypatch.setenv("HOME", str(home))
    run = Git(clone(tmp_path / "clone")).run
    kept = run("list", "config", "--global", "--list").text.splitlines()
    assert "credential.helper=store" in kept
    assert 'credential.helper=!f() { echo "a\\\\b"; }; f' in kept
    assert "credential.https://git.example.com.username=me" in kept
    assert "credential.https://git.example.com.usehttppath" in kept
    assert "url.ssh://git@host/.insteadof=gh:" in kept
    assert "safe.directory=/srv/theirs" in kept
    assert not [line for line in kept if line.startswith(("alias.", "user.", "core.fsmonitor", "core.hookspath"))]
    assert run("read", "config", "core.hooksPath").text == "/dev/null"


def test_the_repositorys_own_configuration_cannot_turn_protection_off(tmp_path: Path) -> None:
    path, proof = clone(tmp_path / "clone"), tmp_path / "proof"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {proof}\n")
    script.chmod(0o755)
    hooks = path / ".git" / "hooks"
    for hook in ("post-index-change", "reference-transaction", "pre-push", "pre-auto-gc"):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
    git(path, "config", "core.fsmonitor", str(script))
    git(path, "config", "core.pager", str(script))
    git(path, "config", "diff.external", str(script))
    (path / "stacks" / "orders.py").write_text("changed\n")
    proof.unlink(missing_ok=True)
    repository = GitRepository.find(path)
    assert repository.dirt().changed == ("stacks/orders.py",)
    repository.changes("HEAD", "HEAD")
    repository.git.run("write a ref", "update-ref", "refs/fleet/x", "HEAD")
    assert not proof.exists()


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    path, pid = clone(tmp_path / "clone"), tmp_path / "pid"
    begin = time.monotonic()
    with pytest.raises(errors.TimeoutError, match="longer than 3 s"):
        probe(path, f"sh -c 'sleep 60 & echo $! >{pid}; wait'", limits=GitLimits(seconds=3))
    assert time.monotonic() - begin < 20
    deadline = time.monotonic() + 20
    while _is_running(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_endless_output_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(errors.ResourceError, match="output is over 1000000 bytes"):
        probe(clone(tmp_path / "clone"), "yes", limits=GitLimits(output_bytes=1_000_000, seconds=20))


def test_much_on_stderr_blocks_nothing(tmp_path: Path) -> None:
    assert probe(clone(tmp_path / "clone"), "sh -c 'yes | head -c 3000000 >&2; echo done'") == "done"


def test_a_repository_of_another_user_is_named_with_the_way_to_trust_it(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root to give a directory away")
    path = clone(tmp_path / "clone")
    os.chown(path, 12345, 12345)
    os.chown(path / ".git", 12345, 12345)
    with pytest.raises(errors.AccessError, match="belongs to another user") as refused:
        GitRepository.find(path)
    assert f"safe.directory {path}" in str(refused.value.hint)


def test_a_directory_that_is_no_repository_says_so(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="not a git repository"):
        GitRepository.find(tmp_path)
