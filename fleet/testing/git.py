"""A git remote for tests: a bare repository on disk, made with GitPython, which is loaded when the first one is."""

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
        from git import Repo

        Repo.init(path, expand_vars=False, bare=True, initial_branch="main").close()
        return cls(path)

    def clone(self, target: Path) -> Path:
        """Make a working clone with a user configured, so that commits work on a machine without one."""
        from git import Repo

        # By the remote's own object: `Repo.clone_from` needs a working directory, and a test may have removed it.
        with Repo(self.path) as remote, remote.clone(str(target)) as repository, repository.config_writer() as config:
            config.set_value("user", "name", "Test").set_value("user", "email", "test@example.com")
        return target

    def git(self, *arguments: str) -> str:
        return git(self.path, *arguments)


def git(directory: Path, *arguments: str) -> str:
    """Run git and return what it printed."""
    process = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {process.stderr.strip()}")
    return process.stdout
