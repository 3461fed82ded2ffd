"""Objects of a repository by any name that git knows, from one process: `cat-file --batch`, asked by turns.

For reading a few things (a commit, the status branch) where a process for each would be most of the work. A revision's
whole tree is read by `tree`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fleet.errors import ConfigurationError, NotFoundError, PolicyError, ResourceError
from fleet.git.environment import GitLimits

_TREE = re.compile(rb"tree ([0-9a-f]{40}(?:[0-9a-f]{24})?)\n")
_DIRECTORY, _FILES = b"40000", (b"100644", b"100755", b"100664")


class GitObject(NamedTuple):
    """One object of a repository with its content."""

    id: str
    kind: str  # "commit", "tree", "blob", "tag"
    content: bytes

    @property
    def tree(self) -> str:
        """Return the id of a commit's tree, as git reads it: from the first line, and nothing that comes after it.

        The author of a commit can say `tree` once more, and can put any character but a newline into its names.
        """
        match = _TREE.match(self.content)
        if self.kind != "commit" or not match:
            raise ResourceError(f"{self.id} is not a commit", hint="objects are damaged: run `git fsck`")
        return match[1].decode()

    @property
    def subject(self) -> str:
        """Return the first line of a commit's message."""
        _, _, message = self.content.partition(b"\n\n")
        return message.partition(b"\n")[0].decode(errors="replace")


class Objects:
    """A conversation with a git process about the objects of its repository."""

    def __init__(self, process: subprocess.Popen[bytes], limits: GitLimits) -> None:
        assert process.stdin and process.stdout  # noqa: S101 - pipes, always
        self._requests, self._responses, self._limits = process.stdin, process.stdout, limits

    def find(self, name: str) -> GitObject | None:
        """Return the object of that name (`HEAD^{commit}`, `main:a/b`, an id); None when there is none."""
        if "\n" in name:
            raise ConfigurationError(f"{name!r} is not a name of git's")
        self._requests.write(os.fsencode(name) + b"\n")
        self._requests.flush()
        header = self._responses.readline()
        if not header:
            raise EOFError
        fields = header.split()
        if len(fields) != 3 or fields[1] not in (b"commit", b"tree", b"blob", b"tag") or not fields[2].isdigit():
            return None  # "… missing", "… ambiguous"
        size = int(fields[2])
        if size > self._limits.file_bytes:
            raise ResourceError(f"{name} is over {self._limits.file_bytes} bytes")
        content = self._responses.read(size + 1)
        if len(content) != size + 1:
            raise EOFError
        return GitObject(fields[0].decode(), fields[1].decode(), content[:-1])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tip of a ref: its files, and the content of those that are asked for."""

    objects: Objects
    ref: str
    commit: str
    tree: str
    limits: GitLimits

    @classmethod
    def of(cls, objects: Objects, ref: str, limits: GitLimits, *, title: str = "") -> Snapshot | None:
        """Open the tip of a ref; None when there is no such ref. `title` is its name in errors."""
        commit = objects.find(f"{ref}^{{commit}}")
        if commit is None:
            return None
        return cls(objects, title or ref, commit.id, commit.tree, limits)

    def files(self, under: str = "") -> dict[str, str]:
        """Return path → id of every ordinary file, or of those below a directory."""
        top = self.objects.find(f"{self.tree}:{under}" if under else self.tree)
        if top is None or top.kind != "tree":
            return {}
        ids: dict[str, str] = {}
        for path, identity in self._walk(top, f"{under}/" if under else "", 0):
            ids[path] = identity
            if len(ids) > self.limits.files:
                raise ResourceError(f"{self.ref} has more than {self.limits.files} files")
        return ids

    def _walk(self, tree: GitObject, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        if depth > 100:
            raise PolicyError(f"{self.ref} has directories more than 100 deep")
        width = len(tree.id) // 2
        rest = tree.content
        while rest:
            header, _, rest = rest.partition(b"\0")
            mode, _, name = header.partition(b" ")
            identity, rest = rest[:width].hex(), rest[width:]
            path = prefix + os.fsdecode(name)
            if mode == _DIRECTORY:
                below = self.objects.find(identity)
                if below is not None:
                    yield from self._walk(below, f"{path}/", depth + 1)
            elif mode in _FILES:
                yield path, identity

    def read_all(self, under: str = "", *, matching: Callable[[str], bool] = lambda path: True) -> dict[str, bytes]:
        """Return the content of all matching files, by path."""
        return {path: self._content(path, identity) for path, identity in self.files(under).items() if matching(path)}

    def read(self, path: str) -> bytes:
        blob = self.objects.find(f"{self.tree}:{path}")
        if blob is None or blob.kind != "blob":
            raise NotFoundError(f"{self.ref} has no file {path!r}")
        return blob.content

    def _content(self, path: str, identity: str) -> bytes:
        blob = self.objects.find(identity)
        if blob is None:
            raise ResourceError(
                f"the content of {path!r} is not in this repository",
                hint="in a partial clone, fetch all of it: `git fetch --refetch --no-filter`",
            )
        return blob.content
