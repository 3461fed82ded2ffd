"""Real repositories for the tests of fleet.git, made with plain git and none of our code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.com",
    "GIT_COMMITTER_NAME": "Somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.com",
    "LC_ALL": "C",
}


def git(directory: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=ENVIRONMENT, input=stdin.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="surrogateescape").strip()


def bare(path: Path) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--bare", "--initial-branch=main")
    return path


def clone(path: Path, remote: Path | None = None, **files: str) -> Path:
    """A working clone with one commit; `a__b_py="…"` is the file a/b.py."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    if remote:
        git(path, "remote", "add", "origin", str(remote))
    commit(path, **(files or {"stacks__orders_py": "orders = 1\n"}))
    if remote:
        git(path, "push", "--quiet", "origin", "main")
    return path


def commit(path: Path, **files: str) -> str:
    for name, content in files.items():
        file = path / name.replace("__", "/").replace("_py", ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "change")
    return git(path, "rev-parse", "HEAD")


def files(repository: Path, revision: str) -> dict[str, str]:
    names = git(repository, "ls-tree", "-r", "--name-only", revision).splitlines()
    return {name: git(repository, "cat-file", "blob", f"{revision}:{name}") for name in names}
