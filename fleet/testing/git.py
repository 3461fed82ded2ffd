"""A git remote for tests: a bare repository on disk."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GitRemote:
    """A bare repository, to be pushed to and cloned from."""

    path: Path

    @property
    def url(self) -> str:
        return self.path.as_uri()

    @classmethod
    def make(cls, path: Path) -> GitRemote:
        """Make an empty repository."""
        git(path.parent, "init", "--quiet", "--bare", "--initial-branch=main", str(path))
        return cls(path)

    def clone(self, target: Path) -> Path:
        """Make a working clone with a user configured, so that commits work on a machine without one."""
        git(self.path, "clone", "--quiet", str(self.path), str(target))
        git(target, "config", "user.name", "Test")
        git(target, "config", "user.email", "test@example.com")
        return target

    def git(self, *arguments: str) -> str:
        return git(self.path, *arguments)


def git(directory: Path, *arguments: str) -> str:
    """Run git and return what it printed."""
    process = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {process.stderr.strip()}")
    return process.stdout
