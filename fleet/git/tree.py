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
from fleet.git.environment import GitLimits

_SYMLINK, _SUBMODULE, _EXECUTABLE = "120000", "160000", "100755"
NAME_BYTES = 255  # of a file or directory, as file systems have it
_LINK_BYTES = 4096  # of where a symlink leads
_STACK_SUFFIXES = (".py", ".yaml", ".yml", ".json", ".toml")  # what stacks are made of
_LINK_TARGET = ".git/symlinks-are-not-followed"  # no tree has it


@dataclass(frozen=True, slots=True)
class TreeFile:
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

    def files(self, *under: str) -> tuple[TreeFile, ...]:
        """Return all files by path, or those at or below the paths given; symlinks and submodules included."""
        limits = self.git.limits
        # A few objects can make a tree of any size: it is not listed further than it may be read.
        most = replace(limits, output_bytes=min(limits.output_bytes, limits.files * (limits.path_bytes // 4)))
        listing = replace(self.git, limits=most).run(
            f"list the files of {self.revision}",
            "ls-tree", "-r", "-z", "-l", "--full-tree", self.id, "--", *(_check_inside(path) for path in under),
        )  # fmt: skip
        if listing.stdout.count(b"\0") > limits.files:
            raise ResourceError(f"{self.revision} has more than {limits.files} files")
        return tuple(_parse_entry(entry) for entry in listing.stdout.split(b"\0") if entry)

    def read(self, path: str) -> bytes:
        """Return one file's content."""
        files = [file for file in self.files(path) if file.path == path]
        if not files:
            raise NotFoundError(f"{self.revision} has no file {path!r}")
        _check_files(files, self.git.limits, self.revision)
        _check_plain(files, self.revision)
        if files[0].is_submodule:
            raise NotFoundError(f"{path!r} is a submodule in {self.revision}; those are not read")
        return next(content for _, content in self._contents(files))

    def read_all(self, *under: str, matching: Callable[[str], bool] = lambda path: True) -> dict[str, bytes]:
        """Return the content of all files (or of the matching ones at or below the paths given), by path."""
        files = [file for file in self.files(*under) if not file.is_submodule and matching(file.path)]
        _check_files(files, self.git.limits, self.revision)
        _check_plain(files, self.revision)
        return {file.path: content for file, content in self._contents(files)}

    def materialise(self, directory: Path, *under: str) -> tuple[TreeFile, ...]:
        """Write the files into `directory`, which must be new or empty, and return the files that were written.

        A symlink out of the repository is an error that names it: what it leads to is not part of the revision. So is
        one to a directory, to another symlink or to what stacks are made of. Any other becomes a symlink to nowhere: a
        listing has its name, and reading it fails. A submodule is left out.
        """
        listed = [file for file in self.files(*under) if not file.is_submodule]
        _check_files(listed, self.git.limits, self.revision)
        files, links = ([file for file in listed if file.is_symlink is linked] for linked in (False, True))
        self._check_links(links, listed)
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise ConfigurationError(f"{directory} is not empty")
        parents: set[str] = set()
        for file, content in self._contents(files):
            parent = os.path.dirname(file.path)  # noqa: PTH120 - many thousand times: strings
            if parent not in parents:
                (directory / parent).mkdir(parents=True, exist_ok=True)
                parents.add(parent)
            _write_file(directory / file.path, content, 0o755 if file.mode == _EXECUTABLE else 0o644)
        for link in links:
            (directory / link.path).parent.mkdir(parents=True, exist_ok=True)
        for link in links:
            _write_link(directory / link.path)
        return tuple(files)

    def _check_links(self, links: Sequence[TreeFile], listed: Sequence[TreeFile]) -> None:
        if not links:
            return
        _check_plain((link for link in links if link.size > _LINK_BYTES), self.revision)
        resolved_links = [
            (link, _resolve_link(link.path, os.fsdecode(target))) for link, target in self._contents(links)
        ]
        _check_plain(
            (link for link, to in resolved_links if to is None), self.revision, " and leads out of the repository"
        )
        forbidden_targets = {".", *_directories(file.path for file in listed), *(link.path for link in links)}
        _check_plain(
            (
                link
                for link, to in resolved_links
                if to in forbidden_targets or _is_stack_file(link.path) or _is_stack_file(to or "")
            ),
            self.revision,
        )

    def _contents(self, files: Sequence[TreeFile]) -> Iterator[tuple[TreeFile, bytes]]:
        """Yield every file's content in order, from one process."""
        if not files:
            return
        with self.git.conversation(f"read the files of {self.revision}", "cat-file", "--batch", "--buffer") as process:
            assert process.stdin and process.stdout  # noqa: S101 - pipes, always
            writer = threading.Thread(target=_request_contents, args=(process.stdin, files), daemon=True)
            writer.start()
            for file in files:
                yield file, _read_content(process.stdout, file)
            writer.join()


def _request_contents(stream: IO[bytes], files: Iterable[TreeFile]) -> None:
    with suppress(BrokenPipeError, ValueError):
        stream.write(b"".join(file.id.encode() + b"\n" for file in files))
        stream.close()


def _read_content(stream: IO[bytes], file: TreeFile) -> bytes:
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


def _parse_entry(entry: bytes) -> TreeFile:
    header, _, path = entry.partition(b"\t")
    mode, _, identity, size = header.decode().split()
    return TreeFile(os.fsdecode(path), identity, 0 if size == "-" else int(size), mode)


def _check_files(files: Iterable[TreeFile], limits: GitLimits, revision: str) -> None:
    total = 0
    path_of: dict[str, str] = {}
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
        folded = _fold_name(file.path)
        if folded in path_of:
            raise PolicyError(
                f"{revision} has {path_of[folded]!r} besides, which is the same file where case or accents are folded",
                source=source,
                hint="what a reviewer sees must be what is read: rename one of them",
            )
        path_of[folded] = file.path
    if total > limits.tree_bytes:
        raise ResourceError(f"the files of {revision} are over {limits.tree_bytes} bytes together")
    for directory in _directories(path_of):
        if directory in path_of:
            raise PolicyError(
                f"{revision} has a directory of that name besides",
                source=Source(path_of[directory]),
                hint="what a reviewer sees must be what is read: rename one of them",
            )


def _directories(paths: Iterable[str]) -> set[str]:
    directories: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    return directories


def _check_plain(files: Iterable[TreeFile], revision: str, more: str = "") -> None:
    for file in files:
        if file.is_symlink:
            raise PolicyError(
                f"it is a symlink in {revision}{more}, and those are never followed",
                source=Source(file.path),
                hint="commit the file itself, or remove the symlink",
            )


def _resolve_link(path: str, target: str) -> str | None:
    """Return the path that a symlink's text leads to, None for one outside; what it passes on the way is not read."""
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))  # noqa: PTH118, PTH120 - pure text
    return None if target.startswith("/") or inside == ".." or inside.startswith("../") else inside


def _is_stack_file(path: str) -> bool:
    return path.lower().endswith(_STACK_SUFFIXES)


def _is_plain(path: str) -> bool:
    """Return whether a path is one that git allows in an index: a hand-made tree object can hold anything."""
    parts = path.split("/")
    bare = [part.lower().rstrip(". ") for part in parts]
    return (
        bool(path)
        and "\\" not in path
        and not any(part in ("", ".git", "git~1") for part in bare)
        and ".." not in parts
    )


def _fold_name(path: str) -> str:
    """Return one text for all names that some file system takes for the same, or that an eye does."""
    return path if path.isascii() and path.islower() else unicodedata.normalize("NFKC", path).casefold()


def _check_inside(path: str) -> str:
    if not path or path.startswith("-") or not _is_plain(path):
        raise ConfigurationError(
            f"{path!r} is not a path inside the repository", hint="relative, with '/', without '..'"
        )
    return path


def _write_link(path: Path) -> None:
    try:
        path.symlink_to(_LINK_TARGET)
    except FileExistsError:
        raise PolicyError(
            "two paths of the revision are one file on this file system", source=Source(path.name)
        ) from None


def _write_file(path: Path, content: bytes, mode: int) -> None:
    """Write a new file, never through a symlink; on file systems that fold case, a second name for it is an error."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except FileExistsError:
        raise PolicyError(
            "two paths of the revision are one file on this file system", source=Source(path.name)
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
