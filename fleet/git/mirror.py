"""A bare copy of a remote that only fleet uses: nothing is checked out, nothing in it is configured by its content."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import NotFoundError
from fleet.git import names
from fleet.git.command import Git
from fleet.git.limits import USUAL, Limits
from fleet.git.repository import Repository

BRANCHES = "+refs/heads/*:refs/heads/*"
TAGS = "+refs/tags/*:refs/tags/*"


@dataclass(frozen=True, slots=True)
class Mirror:
    """The copy of one remote, in a directory of its own below `cache`."""

    repository: Repository
    address: names.Address

    @classmethod
    def of(cls, url: str, cache: Path, *, by_person: bool = False, limits: Limits = USUAL) -> Mirror:
        """The mirror of `url`; made, still empty, when it is not there. It is filled by `fetch`."""
        address = names.address(url, by_person=by_person)
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
        ref = names.branch(branch)
        listing = self.repository.git.run(
            f"ask {self.address} for {branch}",
            "ls-remote", "--quiet", "--end-of-options", self.address.url, ref, *map(names.ref, others),
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
        names.ref(name.replace("*", "x", 1))
    return text


@contextmanager
def _locked(path: Path, name: str = "") -> Iterator[None]:
    """One process at a time; the lock goes with the process that holds it."""
    with path.with_suffix(f".{name}.lock" if name else ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
