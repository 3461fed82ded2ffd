"""A clone or bare mirror.

A repository that is read and whose private refs are written: a person's clone, or a bare one. Never its checkout.

A bare copy of a remote that only fleet uses: nothing is checked out, nothing in it is configured by its content.

The history that a shallow clone was made without, fetched when a decision needs it.

CI checks out one commit and nothing before it. What would be decided from that is not known: the rest is fetched, into
the same clone, because its own configuration is often all that gives access. No name, file or index changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.errors import AccessError, ConfigurationError, FleetError, NotFoundError
from fleet.git import refs
from fleet.git.command import Git
from fleet.git.environment import USUAL, Limits
from fleet.git.objects import Objects
from fleet.git.refs import Address
from fleet.git.tree import Tree


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    tree: str
    subject: str

    @property
    def short(self) -> str:
        return self.id[:8]


@dataclass(frozen=True, slots=True)
class Change:
    """One file that differs between two revisions; a rename is a removal and an addition, and so is a file that was a
    symlink or becomes one."""

    path: str
    verb: str  # "added", "changed", "removed"


@dataclass(frozen=True, slots=True)
class Dirt:
    """What a working tree has that its HEAD does not: nothing of it is in a commit."""

    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    branch: str | None = field(default=None, compare=False)  # that is checked out, None when HEAD is a commit

    def __bool__(self) -> bool:
        return bool(self.changed or self.untracked)


_VERBS = {"A": ("added",), "D": ("removed",), "T": ("removed", "added")}


@dataclass(frozen=True, slots=True)
class Repository:
    """`root` is the top of the working tree, or the bare repository itself."""

    root: Path
    bare: bool = False
    limits: Limits = USUAL
    shallow: bool = field(default=False, compare=False)  # its first commits are not here

    @classmethod
    def find(cls, start: Path, *, limits: Limits = USUAL) -> Repository:
        """The repository that `start` lies in, found as git finds it, ownership check included."""
        asked = ("rev-parse", "--show-toplevel", "--is-shallow-repository")
        root, _, shallow = Git(start, limits=limits).run("find the repository", *asked).text.rpartition("\n")
        return cls(Path(root), limits=limits, shallow=shallow == "true")

    @classmethod
    def open_bare(cls, path: Path, *, limits: Limits = USUAL) -> Repository:
        """A bare repository that is named outright; one that belongs to another user is refused."""
        if not (path / "HEAD").is_file() or not (path / "objects").is_dir():
            raise NotFoundError(f"{path} is not a bare git repository")
        if path.stat().st_uid not in (os.geteuid(), 0):
            raise AccessError(f"the repository {path} belongs to another user", hint="make one that is yours")
        return cls(path, bare=True, limits=limits)

    @property
    def git(self) -> Git:
        return Git(self.root, self.root if self.bare else None, self.limits)

    def resolve(self, revision: str = "HEAD") -> Commit:
        """The commit that a revision means."""
        refs.revision(revision)
        with self.objects(f"resolve {revision}") as objects:
            found = objects.find(f"{revision}^{{commit}}")
        if found is None:
            raise self._unresolved(revision)
        return Commit(found.id, found.tree, found.subject)

    def subtree(self, commit: Commit, path: str) -> str:
        """The id of a directory of a commit."""
        with self.objects(f"read {commit.short}") as objects:
            found = objects.find(f"{commit.tree}:{path}")
        if found is None or found.kind != "tree":
            raise NotFoundError(f"{commit.short} has no directory {path!r}")
        return found.id

    @contextmanager
    def objects(self, what: str) -> Iterator[Objects]:
        """Single objects by their names, for as long as the block lasts."""
        with self.git.conversation(what, "cat-file", "--batch") as process:
            yield Objects(process, self.limits)

    def tree(self, revision: str = "HEAD") -> Tree:
        """The files of a revision."""
        return Tree(self.git, self.resolve(revision).tree, revision)

    def dirt(self) -> Dirt:
        """How the working tree differs from HEAD; the user's index is only read."""
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

    def changes(self, base: str, head: str) -> tuple[Change, ...]:
        """The files that differ between two revisions, by path."""
        old, new = self.resolve(base), self.resolve(head)
        listing = self.git.run(
            f"compare {base} with {head}",
            "diff-tree", "-r", "-z", "--no-renames", "--name-status", "--no-ext-diff", old.tree, new.tree,
        )  # fmt: skip
        fields = list(_fields(listing.stdout))
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return tuple(Change(path, verb) for letter, path in pairs for verb in _VERBS.get(letter, ("changed",)))

    def outside(self, revisions: Iterable[str], of: str) -> tuple[str, ...]:
        """Those commits (full ids) that are not in the history of `of`, as far as this clone has it: see `shallow`."""
        asked, known = list(dict.fromkeys(revisions)), []
        if not asked:
            return ()
        with self.objects("read the history") as objects:
            known = [one for one in asked if objects.find(f"{one}^{{commit}}")]
            here = objects.find(f"{of}^{{commit}}") is not None
        if not here:
            return tuple(asked)
        what = "read the history"
        beyond = self.git.run(what, "rev-list", "--max-count=1", *known, f"^{of}").text if known else ""
        strangers = [one for one in known if not self._is_in(one, of)] if beyond else []
        return (*strangers, *(one for one in asked if one not in known))

    def _is_in(self, commit: str, of: str) -> bool:
        return self.git.run("read the history", "merge-base", "--is-ancestor", commit, of, accept=(0, 1)).status == 0

    def checked_out(self) -> frozenset[str]:
        """The full refs that this or a linked working tree has checked out."""
        listing = self.git.run("list the working trees", "worktree", "list", "--porcelain")
        return frozenset(line[7:] for line in listing.lines if line.startswith("branch "))

    def remotes(self) -> dict[str, str]:
        """The remotes of this clone's own configuration: name → where it is pushed to, as git would after rewrites."""
        found: dict[str, str] = {}
        for line in self.git.run("list the remotes", "remote", "--verbose").lines:
            name, _, rest = line.partition("\t")
            url, _, use = rest.rpartition(" (")
            if use.startswith("push)"):
                found.setdefault(name, url)
        return found

    def remote(self, name: str = "origin") -> refs.Address | None:
        """Where a remote is pushed to, None when there is none of that name."""
        url = self.remotes().get(name)
        return None if url is None else refs.address(url, by_person=True)

    def _unresolved(self, revision: str) -> FleetError:
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


@dataclass(frozen=True, slots=True)
class Mirror:
    """The copy of one remote, in a directory of its own below `cache`."""

    repository: Repository
    address: refs.Address

    @classmethod
    def of(cls, url: str, cache: Path, *, by_person: bool = False, limits: Limits = USUAL) -> Mirror:
        """The mirror of `url`; made, still empty, when it is not there. It is filled by `fetch`."""
        address = refs.address(url, by_person=by_person)
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = cache / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.git"
        if not (path / "HEAD").exists():
            with _locked(path):
                Git(cache, limits=limits).run("make the mirror", "init", "--quiet", "--bare", "--template=", path.name)
        return cls(Repository.open_bare(path, limits=limits), address)

    def tips(self, branch: str, *others: str) -> dict[str, str]:
        """What a branch of the remote and other refs, in full, point to now; asks for nothing else.

        Others may be missing, the branch may not.
        """
        ref = refs.branch(branch)
        listing = self.repository.git.run(
            f"ask {self.address} for {branch}",
            "ls-remote", "--quiet", "--end-of-options", self.address.url, ref, *map(refs.ref, others),
            protocol=self.address.protocol,
        )  # fmt: skip
        lines = [line.split("\t", 1) for line in listing.lines if "\t" in line]
        found = {name: commit for commit, name in lines if name in (ref, *others)}
        if ref not in found:
            raise NotFoundError(f"{self.address} has no branch {branch!r}", hint="name another one, or push it")
        return found

    def fetch(self, refspecs: Sequence[str] = (BRANCHES, TAGS), *, lock: str = "") -> None:
        """Bring the mirror to what the remote has now; branches that went there go here.

        Those who fetch other refs, and are not to be waited for, name a lock of their own: git itself keeps apart what
        writes at once.
        """
        with _locked(self.repository.root, lock):
            self.repository.git.run(
                f"fetch from {self.address}",
                "fetch", "--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                "--no-auto-maintenance", "--end-of-options", self.address.url, *(_refspec(spec) for spec in refspecs),
                protocol=self.address.protocol,
            )  # fmt: skip
            # every fetch leaves a pack: without this a service would collect thousands
            self.repository.git.run("tidy the mirror", "-c", "gc.auto=2000", "gc", "--auto", "--quiet")

    def only(self, under: str, kept: Set[str]) -> None:
        """Of the refs below a directory, forget all others; git drops what nothing leads to in its own time."""
        with _locked(self.repository.root):
            listed = self.repository.git.run("list the refs", "for-each-ref", "--format=%(refname)", under)
            gone = "".join(f"delete {one}\n" for one in listed.lines if one not in kept)
            if gone:
                self.repository.git.run("forget refs", "update-ref", "--stdin", stdin=gone.encode())


def _refspec(text: str) -> str:
    source, _, target = text.removeprefix("+").partition(":")
    for name in (source, target):
        refs.ref(name.replace("*", "x", 1))
    return text


@contextmanager
def _locked(path: Path, name: str = "") -> Iterator[None]:
    """One process at a time; the lock goes with the process that holds it."""
    with path.with_suffix(f".{name}.lock" if name else ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


HINT = "git fetch --unshallow; in CI, check out the whole history (fetch-depth: 0, GIT_DEPTH: 0)"


def with_history(repository: Repository, remote: Address | None, branch: str) -> Repository:
    """The clone with all that the remote's branch goes back to; ConfigurationError when that cannot be had."""
    if not repository.shallow:
        return repository
    if remote is None:
        raise ConfigurationError("this clone is shallow, and has no remote to fetch its history from", hint=HINT)
    try:
        repository.git.run(
            f"fetch the history of {branch} from {remote}",
            "fetch", "--quiet", "--unshallow", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--no-auto-maintenance", "--end-of-options", remote.url, refs.branch(branch),
            protocol=remote.protocol,
        )  # fmt: skip
    except FleetError as problem:
        raise ConfigurationError(
            f"this clone is shallow, and its history is needed: {problem.message}", hint=HINT
        ) from problem
    asked = repository.git.run("look at the clone", "rev-parse", "--is-shallow-repository")
    return replace(repository, shallow=asked.text == "true")
