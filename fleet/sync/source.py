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
from fleet.repository.identity import identity


@dataclass(frozen=True, slots=True)
class Files:
    """A directory to evaluate. `revision` is the commit's id, "" for the working tree."""

    repository: Repository
    revision: str = ""
    subject: str = ""
    git: Git | None = None
    remarks: tuple[str, ...] = ()  # what a person should know of the choice
    identity: str = ""  # of the repository, see fleet.repository.identity

    @property
    def title(self) -> str:
        return f"{self.revision[:8]} {self.subject}".strip() if self.revision else "the working tree"


@contextmanager
def working_tree(start: Path | None = None) -> Iterator[Files]:
    """The files as they lie there, committed or not."""
    repository = Repository.find(start)
    git = _git_of(repository.root)
    yield Files(repository, git=git, identity=_identity(repository, git, repository.root))


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
        remarks: tuple[str, ...] = ()
        if revision == "HEAD":
            about = (_uncommitted(git.dirt(), below.as_posix(), found.short), _elsewhere(git, repository))
            remarks = tuple(filter(None, about))
        yield Files(repository, found.id, found.subject, git, remarks, _identity(repository, git, here.root))


def _git_of(root: Path) -> Git | None:
    try:
        return Git.find(root)
    except FleetError:
        return None


def _identity(repository: Repository, git: Git | None, directory: Path) -> str:
    """By the settings that are read; `directory` is where they lie in the person's clone."""
    name = repository.settings.fleet.name
    if name or git is None:
        return name
    below = directory.relative_to(git.root.resolve()).as_posix()
    try:
        address = git.remote(repository.settings.git.remote)
    except FleetError:  # a remote that is never talked to: its address is of no use
        address = None
    if address is None:
        return identity("", first_commit=_first_commit(git), below=below)
    url = address.url
    if address.protocol == "file" and "://" not in url:
        url = str(git.root.resolve() / url)  # `../fleet.git` is not the same one elsewhere
    return identity("", remote=url, below=below)


def _first_commit(git: Git) -> str:
    """ "" where it cannot be known: there is no commit yet, or the clone is shallow."""
    asked = "find the first commit"
    if git.git.run(asked, "rev-parse", "--is-shallow-repository").text == "true":
        return ""
    found = git.git.run(asked, "rev-list", "--max-parents=0", "HEAD", accept=(0, 128))
    return min(found.text.split(), default="") if found.status == 0 else ""


def _elsewhere(git: Git, repository: Repository) -> str:
    """CI checks out commits and not branches; a person on another branch should know."""
    here, usual = git.branch(), repository.settings.git.branch
    return f"this is the branch {here}, and fleet.toml says that {usual} is synced" if here and here != usual else ""


def _uncommitted(dirt: Dirt, below: str, short: str) -> str:
    files = [name for name in (*dirt.changed, *dirt.untracked) if below == "." or name.startswith(f"{below}/")]
    if not files:
        return ""
    names = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"not committed, so not part of this sync of {short}: {names}"
