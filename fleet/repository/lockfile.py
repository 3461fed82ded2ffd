"""The lockfile of a repository: the packages that stacks may import, in the form that pip checks hashes in. Pure.

    tabulate==0.9.0 --hash=sha256:024c…

Only exact versions with hashes are allowed. Options, addresses and paths are refused: the machine that fetches packages
decides where they come from, and not a file that users propose changes to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from fleet.errors import ConfigurationError, Source

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
# Spaces are one by one here, so that no two parts of it can share a long run of them: that takes time by its square.
_PINNED = re.compile(
    rf"(?P<name>{_NAME}) ?(?:\[[A-Za-z0-9._, -]*\])? ?== ?(?P<version>[A-Za-z0-9._!+-]+)"
    r" ?(?:; ?(?P<marker>[A-Za-z0-9_. '\"<>=!~()+-]+?))?(?P<hashes>(?: --hash=\S+)*)"
)
_HASH = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_MAKE = "`uv pip compile --generate-hashes` or `pip-compile --generate-hashes` makes such a file"


@dataclass(frozen=True, slots=True)
class PinnedPackage:
    """One version of one package."""

    name: str  # as an index spells it: lower case, words joined by "-"
    version: str
    hashes: tuple[str, ...]
    marker: str  # where it is wanted; "": everywhere
    line: int

    def __str__(self) -> str:
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}=={self.version}{marker}" + "".join(f" --hash={digest}" for digest in self.hashes)


@dataclass(frozen=True, slots=True)
class Lock:
    """All packages of a lockfile. `file` is what the user calls it; `of_base` when it is the base's."""

    file: str
    pinned: tuple[PinnedPackage, ...] = ()
    of_base: bool = False


def read_lock(file: str, text: str, *, of_base: bool = False) -> Lock:
    """Return the packages that the text pins; raise ConfigurationError with the line and what would be right."""
    return Lock(file, tuple(_parse_package(file, line, content) for line, content in _join_lines(text)), of_base)


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with what a backslash continues, and without comments; each with the number of its first line."""
    first, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        bare = _COMMENT.sub("", line).strip()
        if bare.endswith("\\"):
            parts.append(bare[:-1].strip())
            continue
        whole = " ".join([*parts, bare]).strip()
        if whole:
            yield first, whole
        first, parts = 0, []
    if any(parts):
        yield first, " ".join(parts).strip()


def _parse_package(file: str, line: int, content: str) -> PinnedPackage:
    match = _PINNED.fullmatch(" ".join(content.split()))
    if match is None:
        _refuse(file, line, content)
    hashes = tuple(sorted(digest.removeprefix("--hash=") for digest in match["hashes"].split()))
    unusable = [digest for digest in hashes if not _HASH.fullmatch(digest)]
    if not hashes or unusable:
        message = (
            f"the hash {unusable[0]!r} is none that can be checked" if unusable else f"{match['name']} has no hash"
        )
        raise ConfigurationError(
            message, hint=f"write --hash=sha256:… behind the version; {_MAKE}", source=Source(file, line)
        )
    name = re.sub("[-_.]+", "-", match["name"]).lower()
    return PinnedPackage(name, match["version"], hashes, (match["marker"] or "").strip(), line)


def _refuse(file: str, line: int, content: str) -> NoReturn:
    shown_line = content if len(content) <= 60 else f"{content[:59]}…"
    raise ConfigurationError(
        f"{shown_line!r} is no package with its version and hash",
        hint=f"name==version --hash=sha256:…, and nothing else: no options, addresses or paths; {_MAKE}",
        source=Source(file, line),
    )
