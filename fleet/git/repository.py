"""A clone or a bare mirror, whose objects are read and whose private refs are written; never its checkout.

A `Mirror` is a bare copy of a remote that only fleet uses: nothing is checked out, nothing in it is configured by its
content.

CI checks out one commit and nothing before it. A decision that needs the history of such a shallow clone has the rest
fetched, into the same clone, because its own configuration is often all that gives access. No name, file or index
changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.errors import AccessError, ConfigurationError, FleetError, NotFoundError, ResourceError
from fleet.git import refs
from fleet.git.command import Git
from fleet.git.environment import DEFAULT_LIMITS, GitLimits
from fleet.git.objects import Objects
from fleet.git.refs import Address
from fleet.git.tree import Tree

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GitCommit:
    id: str
    tree: str
    subject: str

    @property
    def short(self) -> str:
        return self.id[:8]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs between two revisions.

    A rename is a removal and an addition, and so is a file that was a symlink or becomes one.
    """

    path: str
    verb: str  # "added", "changed", "removed"


@dataclass(frozen=True, slots=True)
class Dirt:
    """The differences of a working tree from its HEAD: none of them is in a commit."""

    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    branch: str | None = field(default=None, compare=False)  # that is checked out, None when HEAD is a commit

    def __bool__(self) -> bool:
        return bool(self.changed or self.untracked)


_VERBS = {"A": ("added",), "D": ("removed",), "T": ("removed", "added")}


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository; `root` is the top of the working tree, or the bare repository itself."""

    root: Path
    bare: bool = False
    limits: GitLimits = DEFAULT_LIMITS
    shallow: bool = field(default=False, compare=False)  # its first commits are not here

    @classmethod
    def find(cls, start: Path, *, limits: GitLimits = DEFAULT_LIMITS) -> GitRepository:
        """Find the repository that `start` lies in, as git finds it, ownership check included."""
        query = ("rev-parse", "--show-toplevel", "--is-shallow-repository")
        root, _, shallow = Git(start, limits=limits).run("find the repository", *query).text.rpartition("\n")
        return cls(Path(root), limits=limits, shallow=shallow == "true")

    @classmethod
    def open_bare(cls, path: Path, *, limits: GitLimits = DEFAULT_LIMITS) -> GitRepository:
        """Open a bare repository that is named outright; refuse one that belongs to another user."""
        if not (path / "HEAD").is_file() or not (path / "objects").is_dir():
            raise NotFoundError(f"{path} is not a bare git repository")
        if path.stat().st_uid not in (os.geteuid(), 0):
            raise AccessError(f"the repository {path} belongs to another user", hint="make one that is yours")
        return cls(path, bare=True, limits=limits)

    @property
    def git(self) -> Git:
        return Git(self.root, self.root if self.bare else None, self.limits)

    def resolve(self, revision: str = "HEAD") -> GitCommit:
        """Return the commit that a revision means; raise NotFoundError when there is none."""
        refs.revision(revision)
        with self.objects(f"resolve {revision}") as objects:
            commit = objects.find(f"{revision}^{{commit}}")
        if commit is None:
            raise self._missing_revision_error(revision)
        return GitCommit(commit.id, commit.tree, commit.subject)

    def subtree(self, commit: GitCommit, path: str) -> str:
        """Return the id of a directory of a commit."""
        with self.objects(f"read {commit.short}") as objects:
            directory = objects.find(f"{commit.tree}:{path}")
        if directory is None or directory.kind != "tree":
            raise NotFoundError(f"{commit.short} has no directory {path!r}")
        return directory.id

    @contextmanager
    def objects(self, what: str) -> Iterator[Objects]:
        """Open single objects by their names, for as long as the block lasts."""
        with self.git.conversation(what, "cat-file", "--batch") as process:
            yield Objects(process, self.limits)

    def tree(self, revision: str = "HEAD") -> Tree:
        """Return the files of a revision."""
        return Tree(self.git, self.resolve(revision).tree, revision)

    def dirt(self) -> Dirt:
        """Return how the working tree differs from HEAD; the user's index is only read."""
        if self.bare:
            return Dirt()
        listing = self.git.run(
            "compare the working tree",
            "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=all",
            "--no-renames",
        )  # fmt: skip
        changed, untracked, branch = [], [], None
        for entry in _fields(listing.stdout):
            if entry.startswith("# branch.head ") and entry != "# branch.head (detached)":
                branch = entry.removeprefix("# branch.head ")
            elif entry.startswith("? "):
                untracked.append(entry[2:])
            elif entry.startswith("1 "):
                changed.append(entry.split(" ", 8)[8])
            elif entry.startswith("u "):
                changed.append(entry.split(" ", 10)[10])
        return Dirt(tuple(sorted(changed)), tuple(sorted(untracked)), branch)

    def changes(self, base: str, head: str) -> tuple[FileChange, ...]:
        """Return the files that differ between two revisions, by path."""
        old, new = self.resolve(base), self.resolve(head)
        listing = self.git.run(
            f"compare {base} with {head}",
            "diff-tree", "-r", "-z", "--no-renames", "--name-status", "--no-ext-diff", old.tree, new.tree,
        )  # fmt: skip
        fields = list(_fields(listing.stdout))
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return tuple(FileChange(path, verb) for letter, path in pairs for verb in _VERBS.get(letter, ("changed",)))

    def outside(self, revisions: Iterable[str], of: str) -> tuple[str, ...]:
        """Return those commits (full ids) that are not in the history of `of`, as far as this clone has it."""
        commits, present = list(dict.fromkeys(revisions)), []
        if not commits:
            return ()
        with self.objects("read the history") as objects:
            present = [commit for commit in commits if objects.find(f"{commit}^{{commit}}")]
            has_tip = objects.find(f"{of}^{{commit}}") is not None
        if not has_tip:
            return tuple(commits)
        what = "read the history"
        beyond = self.git.run(what, "rev-list", "--max-count=1", *present, f"^{of}").text if present else ""
        unrelated = [commit for commit in present if not self._is_in(commit, of)] if beyond else []
        return (*unrelated, *(commit for commit in commits if commit not in present))

    def _is_in(self, commit: str, of: str) -> bool:
        return self.git.run("read the history", "merge-base", "--is-ancestor", commit, of, accept=(0, 1)).status == 0

    def checked_out(self) -> frozenset[str]:
        """Return the full refs that this or a linked working tree has checked out."""
        listing = self.git.run("list the working trees", "worktree", "list", "--porcelain")
        return frozenset(line[7:] for line in listing.lines if line.startswith("branch "))

    def remotes(self) -> dict[str, str]:
        """Return the remotes of this clone's own configuration: name → push url, as git has it after rewrites."""
        urls: dict[str, str] = {}
        for line in self.git.run("list the remotes", "remote", "--verbose").lines:
            name, _, rest = line.partition("\t")
            url, _, use = rest.rpartition(" (")
            if use.startswith("push)"):
                urls.setdefault(name, url)
        return urls

    def remote(self, name: str = "origin") -> refs.Address | None:
        """Return where a remote is pushed to, None when there is none of that name."""
        url = self.remotes().get(name)
        return None if url is None else refs.address(url, by_person=True)

    def _missing_revision_error(self, revision: str) -> FleetError:
        if revision == "HEAD":
            return ConfigurationError("the repository has no commit yet", hint="commit something first")
        fetch = "is it fetched? `git fetch`"
        if self.shallow:
            fetch = "this clone is shallow: `git fetch --unshallow` gets the rest"
        return NotFoundError(f"there is no revision {revision!r}", hint=fetch)


def _fields(listing: bytes) -> Iterator[str]:
    return (os.fsdecode(field) for field in listing.split(b"\0") if field)


BRANCHES = "+refs/heads/*:refs/heads/*"
TAGS = "+refs/tags/*:refs/tags/*"
HEADS_LOCK = "pulls"  # of fetches that those of branches do not wait for
UNTIDY_SECONDS = 3600.0  # before a mirror that could not be tidied is tidied again
LEFT_SECONDS = 60.0  # since the last write to a file that a stopped transfer left behind
_LOCKS = ("", HEADS_LOCK)
# Objects that nothing leads to are dropped after more time than a transfer takes, and are one file until then.
_PRUNING = ("-c", "gc.pruneExpire=1.hour.ago", "-c", "gc.cruftPacks=true")


@dataclass(frozen=True, slots=True)
class Mirror:
    """The copy of one remote, in a directory of its own below `cache`.

    Users who may open pull requests from forks decide what is fetched for these: `make_room` bounds what is kept of it.
    """

    repository: GitRepository
    address: refs.Address

    @classmethod
    def of(cls, url: str, cache: Path, *, by_person: bool = False, limits: GitLimits = DEFAULT_LIMITS) -> Mirror:
        """Open the mirror of `url`; make it, still empty, when it is not there. It is filled by `fetch`."""
        address = refs.address(url, by_person=by_person)
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = cache / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.git"
        if not (path / "HEAD").exists():
            with _lock(path):
                Git(cache, limits=limits).run("make the mirror", "init", "--quiet", "--bare", "--template=", path.name)
        return cls(GitRepository.open_bare(path, limits=limits), address)

    def tips(self, branch: str, *further: str) -> dict[str, str]:
        """Return what a branch of the remote and other refs, in full, point to now; ask for nothing else.

        The others may be missing, the branch may not.
        """
        ref = refs.branch_ref(branch)
        listing = self.repository.git.run(
            f"ask {self.address} for {branch}",
            "ls-remote", "--quiet", "--end-of-options", self.address.url, ref, *map(refs.ref, further),
            protocol=self.address.protocol,
        )  # fmt: skip
        lines = [line.split("\t", 1) for line in listing.lines if "\t" in line]
        commits = {name: commit for commit, name in lines if name in (ref, *further)}
        if ref not in commits:
            raise NotFoundError(f"{self.address} has no branch {branch!r}", hint="name another one, or push it")
        return commits

    def fetch(self, refspecs: Sequence[str] = (BRANCHES, TAGS), *, lock: str = "") -> None:
        """Bring the mirror to what the remote has now; branches that were deleted there are deleted here.

        A caller that fetches other refs, and must not be waited for, names a lock of its own: git itself keeps
        concurrent writes apart.
        """
        with _lock(self.repository.root, lock):
            self.repository.git.run(
                f"fetch from {self.address}",
                "fetch", "--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                "--no-auto-maintenance", "--end-of-options", self.address.url, *(_refspec(spec) for spec in refspecs),
                protocol=self.address.protocol,
            )  # fmt: skip
            self._tidy()

    def _tidy(self) -> None:
        """Have git pack what fetches left, at times: a service would collect thousands of packs.

        What was fetched is there also if that fails. So a failure is logged, and not repeated for an hour.
        """
        if self._was_untidy:
            return
        try:
            self.repository.git.run("tidy the mirror", *_PRUNING, "-c", "gc.auto=2000", "gc", "--auto", "--quiet")
        except FleetError as problem:
            self._untidy_mark.touch()
            log.warning("%s: %s", self.address, problem.message)

    def make_room(self, most: int) -> None:
        """Drop what nothing leads to, if the mirror has more than `most` bytes; raise ResourceError if it still has.

        In any case, what transfers left behind that were stopped at a limit is removed.
        """
        self._remove_leftovers()
        if self._count_bytes() <= most:
            return
        if not self._was_untidy:
            with _lock(self.repository.root, HEADS_LOCK), suppress(FleetError):
                self.repository.git.run("tidy the mirror", *_PRUNING, "gc", "--quiet")
            if self._count_bytes() <= most:
                return
            self._untidy_mark.touch()
        raise ResourceError(
            f"the copy of {self.address} on this machine has more than {most} bytes",
            hint="close pull requests with large files; an hour later there is room again",
        )

    @property
    def _untidy_mark(self) -> Path:
        return self.repository.root.with_suffix(".untidy")

    @property
    def _was_untidy(self) -> bool:
        """Return whether the mirror could not be tidied a short time ago."""
        try:
            return time.time() - self._untidy_mark.stat().st_mtime < UNTIDY_SECONDS
        except FileNotFoundError:
            return False

    def _count_bytes(self) -> int:
        """Return the size of all files with objects."""
        size = 0
        for directory, _, names in os.walk(self.repository.root / "objects"):
            for name in names:
                with suppress(FileNotFoundError):  # it was moved or removed meanwhile
                    size += (Path(directory) / name).stat().st_size
        return size

    def _remove_leftovers(self) -> None:
        """Remove what stopped transfers left, which git keeps for weeks; leave it while a fetch is under way."""
        with ExitStack() as locks:
            try:
                for lock in _LOCKS:
                    locks.enter_context(_lock(self.repository.root, lock, waits=False))
            except BlockingIOError:
                return
            objects = self.repository.root / "objects"
            for file in (*objects.glob("pack/tmp_*"), *objects.glob("??/tmp_obj_*")):
                with suppress(FileNotFoundError):
                    if time.time() - file.stat().st_mtime > LEFT_SECONDS:
                        file.unlink()

    def only(self, under: str, keep: Set[str]) -> None:
        """Forget all refs below a directory but the kept ones; git drops what nothing leads to in its own time."""
        with _lock(self.repository.root):
            listing = self.repository.git.run("list the refs", "for-each-ref", "--format=%(refname)", under)
            commands = "".join(f"delete {ref}\n" for ref in listing.lines if ref not in keep)
            if commands:
                self.repository.git.run("forget refs", "update-ref", "--stdin", stdin=commands.encode())


def _refspec(text: str) -> str:
    source, _, target = text.removeprefix("+").partition(":")
    for name in (source, target):
        refs.ref(name.replace("*", "x", 1))
    return text


@contextmanager
def _lock(path: Path, name: str = "", *, waits: bool = True) -> Iterator[None]:
    """Let one process at a time into the block; the lock goes with the process that holds it.

    Raise BlockingIOError if another one has it and the caller does not wait.
    """
    with path.with_suffix(f".{name}.lock" if name else ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


HISTORY_HINT = "git fetch --unshallow; in CI, check out the whole history (fetch-depth: 0, GIT_DEPTH: 0)"


def with_history(repository: GitRepository, remote: Address | None, branch: str) -> GitRepository:
    """Fetch all that the remote's branch goes back to into the clone; ConfigurationError when that cannot be had."""
    if not repository.shallow:
        return repository
    if remote is None:
        raise ConfigurationError(
            "this clone is shallow, and has no remote to fetch its history from", hint=HISTORY_HINT
        )
    try:
        repository.git.run(
            f"fetch the history of {branch} from {remote}",
            "fetch", "--quiet", "--unshallow", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--no-auto-maintenance", "--end-of-options", remote.url, refs.branch_ref(branch),
            protocol=remote.protocol,
        )  # fmt: skip
    except FleetError as error:
        raise ConfigurationError(
            f"this clone is shallow, and its history is needed: {error.message}", hint=HISTORY_HINT
        ) from error
    answer = repository.git.run("look at the clone", "rev-parse", "--is-shallow-repository")
    return replace(repository, shallow=answer.text == "true")
