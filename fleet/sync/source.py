"""Which files a run reads: the working tree for looking, a commit for applying, never a mix of the two."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigurationError, FleetError
from fleet.git.repository import Dirt
from fleet.git.repository import Repository as Git
from fleet.repository import Repository


@dataclass(frozen=True, slots=True)
class Files:
    """A directory to evaluate. `revision` is the commit's id, "" for the working tree."""

    repository: Repository
    revision: str = ""
    subject: str = ""
    git: Git | None = None
    remark: str = ""

    @property
    def title(self) -> str:
        return f"{self.revision[:8]} {self.subject}".strip() if self.revision else "the working tree"


@contextmanager
def working_tree(start: Path | None = None) -> Iterator[Files]:
    """The files as they lie there, committed or not."""
    repository = Repository.find(start)
    yield Files(repository, git=_git_of(repository.root))


@contextmanager
def commit(revision: str = "HEAD", start: Path | None = None) -> Iterator[Files]:
    """The files of a commit, settings included; the working tree only tells which repository is meant."""
    here = Repository.find(start)
    git = _git_of(here.root)
    if git is None:
        raise ConfigurationError(
            f"{here.root} is not in a git repository, and only commits are applied",
            hint="git init && git add . && git commit",
        )
    found = git.resolve(revision)
    below = here.root.relative_to(git.root.resolve())
    inside = () if below == Path() else (below.as_posix(),)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        git.tree(found.id).materialise(Path(directory) / "tree", *inside)
        repository = Repository.at(Path(directory) / "tree" / below)
        remark = _uncommitted(git.dirt(), below.as_posix(), found.short) if revision == "HEAD" else ""
        yield Files(repository, found.id, found.subject, git, remark)


def _git_of(root: Path) -> Git | None:
    try:
        return Git.find(root)
    except FleetError:
        return None


def _uncommitted(dirt: Dirt, below: str, short: str) -> str:
    files = [name for name in (*dirt.changed, *dirt.untracked) if below == "." or name.startswith(f"{below}/")]
    if not files:
        return ""
    names = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"not committed, so not part of this sync of {short}: {names}"
