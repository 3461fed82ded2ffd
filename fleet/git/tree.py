"""The files of one revision, without a checkout: no filters, no hooks, no submodules, no symlink followed.

What a stack reads is noted by its path, and so are the changes of a commit: a file that is read by another name would
not be missed when it changes. So a symlink to a document, as many repositories have for people, leads nowhere here; one
that a stack could mean is refused, because a pattern would pass over it in silence.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from fleet.errors import ConfigurationError, NotFoundError, PolicyError, ResourceError, Source
from fleet.git.command import Git
from fleet.git.environment import Limits

_SYMLINK, _SUBMODULE, _EXECUTABLE = "120000", "160000", "100755"
NAME_BYTES = 255  # of a file or directory, as file systems have it
_LINK_BYTES = 4096  # of where a symlink leads
_MEANT = (".py", ".yaml", ".yml", ".json", ".toml")  # what stacks are made of
_NOWHERE = ".git/symlinks-are-not-followed"  # no tree has it


@dataclass(frozen=True, slots=True)
class File:
    path: str
    id: str
    size: int
    mode: str

    @property
    def is_symlink(self) -> bool:
        return self.mode == _SYMLINK

    @property
    def is_submodule(self) -> bool:
        return self.mode == _SUBMODULE


@dataclass(frozen=True, slots=True)
class Tree:
    """`id` is the tree's own id: two revisions with one id have the same files."""

    git: Git
    id: str
    revision: str

    def files(self, *under: str) -> tuple[File, ...]:
        """All files by path, or those that are or lie under the paths given; symlinks and submodules included."""
        limits = self.git.limits
        # A few objects can make a tree of any size: it is not listed further than it may be read.
        most = replace(limits, output_bytes=min(limits.output_bytes, limits.files * (limits.path_bytes // 4)))
        listing = replace(self.git, limits=most).run(
            f"list the files of {self.revision}",
            "ls-tree", "-r", "-z", "-l", "--full-tree", self.id, "--", *(_inside(path) for path in under),
        )  # fmt: skip
        if listing.stdout.count(b"\0") > limits.files:
            raise ResourceError(f"{self.revision} has more than {limits.files} files")
        return tuple(_file(entry) for entry in listing.stdout.split(b"\0") if entry)

    def read(self, path: str) -> bytes:
        """One file's content."""
        found = [file for file in self.files(path) if file.path == path]
        if not found:
            raise NotFoundError(f"{self.revision} has no file {path!r}")
        _check(found, self.git.limits, self.revision)
        _check_plain(found, self.revision)
        if found[0].is_submodule:
            raise NotFoundError(f"{path!r} is a submodule in {self.revision}; those are not read")
        return next(content for _, content in self._contents(found))

    def read_all(self, *under: str, matching: Callable[[str], bool] = lambda path: True) -> dict[str, bytes]:
        """The content of all files (or those under the paths given, and of those the matching ones), by path."""
        files = [file for file in self.files(*under) if not file.is_submodule and matching(file.path)]
        _check(files, self.git.limits, self.revision)
        _check_plain(files, self.revision)
        return {file.path: content for file, content in self._contents(files)}

    def materialise(self, directory: Path, *under: str) -> tuple[File, ...]:
        """Write the files into `directory`, which must be new or empty, and return what was written.

        A symlink out of the repository is an error that names it: what it leads to is not part of the revision. So is
        one to a directory, to another symlink or to what stacks are made of. Any other becomes a symlink to nowhere: a
        listing has its name, and whoever reads it fails. A submodule is left out.
        """
        found = [file for file in self.files(*under) if not file.is_submodule]
        _check(found, self.git.limits, self.revision)
        files, links = ([file for file in found if file.is_symlink is linked] for linked in (False, True))
        self._check_links(links, found)
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise ConfigurationError(f"{directory} is not empty")
        made: set[str] = set()
        for file, content in self._contents(files):
            parent = os.path.dirname(file.path)  # noqa: PTH120 - many thousand times: strings
            if parent not in made:
                (directory / parent).mkdir(parents=True, exist_ok=True)
                made.add(parent)
            _write(directory / file.path, content, 0o755 if file.mode == _EXECUTABLE else 0o644)
        for link in links:
            (directory / link.path).parent.mkdir(parents=True, exist_ok=True)
        for link in links:
            _link(directory / link.path)
        return tuple(files)

    def _check_links(self, links: Sequence[File], found: Sequence[File]) -> None:
        if not links:
            return
        _check_plain((link for link in links if link.size > _LINK_BYTES), self.revision)
        leading = [(link, _led(link.path, os.fsdecode(target))) for link, target in self._contents(links)]
        _check_plain((link for link, to in leading if to is None), self.revision, " and leads out of the repository")
        others = {".", *_directories(file.path for file in found), *(link.path for link in links)}
        _check_plain(
            (link for link, to in leading if to in others or _is_meant(link.path) or _is_meant(to or "")), self.revision
        )

    def _contents(self, files: Sequence[File]) -> Iterator[tuple[File, bytes]]:
        """Every file's content in order, from one process."""
        if not files:
            return
        with self.git.conversation(f"read the files of {self.revision}", "cat-file", "--batch", "--buffer") as process:
            assert process.stdin and process.stdout  # noqa: S101 - pipes, always
            asking = threading.Thread(target=_ask, args=(process.stdin, files), daemon=True)
            asking.start()
            for file in files:
                yield file, _answer(process.stdout, file)
            asking.join()


def _ask(stream: IO[bytes], files: Iterable[File]) -> None:
    with suppress(BrokenPipeError, ValueError):
        stream.write(b"".join(file.id.encode() + b"\n" for file in files))
        stream.close()


def _answer(stream: IO[bytes], file: File) -> bytes:
    header = stream.readline().split()
    if len(header) == 2 and header[1] == b"missing":
        raise ResourceError(
            f"the content of {file.path!r} is not in this repository",
            hint="in a partial clone, fetch all of it: `git fetch --refetch --no-filter`",
        )
    if len(header) != 3 or header[1] != b"blob" or int(header[2]) != file.size:
        raise EOFError
    content = stream.read(file.size + 1)
    if len(content) != file.size + 1:
        raise EOFError
    return content[:-1]


def _file(entry: bytes) -> File:
    about, _, path = entry.partition(b"\t")
    mode, _, identity, size = about.decode().split()
    return File(os.fsdecode(path), identity, 0 if size == "-" else int(size), mode)


def _check(files: Iterable[File], limits: Limits, revision: str) -> None:
    total = 0
    seen: dict[str, str] = {}
    for file in files:
        source = Source(file.path)
        if not _is_plain(file.path):
            raise PolicyError(f"{revision} has a path that is not safe to write", source=source)
        encoded = os.fsencode(file.path)
        if file.path.count("/") > limits.depth or len(encoded) > limits.path_bytes:
            raise PolicyError(
                f"{revision} has a path over {limits.depth} directories deep or {limits.path_bytes} bytes long",
                source=Source(f"{file.path[:60]}…"),
            )
        if len(encoded) > NAME_BYTES and max(map(len, encoded.split(b"/"))) > NAME_BYTES:
            raise PolicyError(
                f"{revision} has a name over {NAME_BYTES} bytes long", source=Source(f"{file.path[:60]}…")
            )
        if file.size > limits.file_bytes:
            raise ResourceError(f"it is over {limits.file_bytes} bytes in {revision}", source=source)
        total += file.size
        folded = _folded(file.path)
        if folded in seen:
            raise PolicyError(
                f"{revision} has {seen[folded]!r} besides, which is the same file where case or accents are folded",
                source=source,
                hint="what a reviewer sees must be what is read: rename one of them",
            )
        seen[folded] = file.path
    if total > limits.tree_bytes:
        raise ResourceError(f"the files of {revision} are over {limits.tree_bytes} bytes together")
    for directory in _directories(seen):
        if directory in seen:
            raise PolicyError(
                f"{revision} has a directory of that name besides",
                source=Source(seen[directory]),
                hint="what a reviewer sees must be what is read: rename one of them",
            )


def _directories(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def _check_plain(files: Iterable[File], revision: str, more: str = "") -> None:
    for file in files:
        if file.is_symlink:
            raise PolicyError(
                f"it is a symlink in {revision}{more}, and those are never followed",
                source=Source(file.path),
                hint="commit the file itself, or remove the symlink",
            )


def _led(path: str, target: str) -> str | None:
    """The path that a symlink's words lead to, None for one outside; what they pass on the way is not looked at."""
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))  # noqa: PTH118, PTH120 - pure text
    return None if target.startswith("/") or inside == ".." or inside.startswith("../") else inside


def _is_meant(path: str) -> bool:
    return path.lower().endswith(_MEANT)


def _is_plain(path: str) -> bool:
    """git's own rules for paths in an index: a hand-made tree object can hold anything."""
    parts = path.split("/")
    bare = [part.lower().rstrip(". ") for part in parts]
    return (
        bool(path)
        and "\\" not in path
        and not any(part in ("", ".git", "git~1") for part in bare)
        and ".." not in parts
    )


def _folded(path: str) -> str:
    """One text for all names that some file system takes for the same, or that an eye does."""
    return path if path.isascii() and path.islower() else unicodedata.normalize("NFKC", path).casefold()


def _inside(path: str) -> str:
    if not path or path.startswith("-") or not _is_plain(path):
        raise ConfigurationError(
            f"{path!r} is not a path inside the repository", hint="relative, with '/', without '..'"
        )
    return path


def _link(path: Path) -> None:
    try:
        path.symlink_to(_NOWHERE)
    except FileExistsError:
        raise PolicyError(
            "two paths of the revision are one file on this file system", source=Source(path.name)
        ) from None


def _write(path: Path, content: bytes, mode: int) -> None:
    """A new file, never through a symlink; on file systems that fold case, a second name for it is an error."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except FileExistsError:
        raise PolicyError(
            "two paths of the revision are one file on this file system", source=Source(path.name)
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
