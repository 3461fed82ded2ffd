"""What one root file system adds to another, as a layer: images with the same base have that once on a node."""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

WHITEOUT = ".wh."  # a layer says with this prefix that a file of a layer below is gone
Fingerprint = tuple[object, ...]


def difference(below: Path, whole: Path, target: Path, *, without: Iterable[str] = ()) -> None:
    """Write what the tar `whole` has that the tar `below` has not; a file that is gone is said to be gone.

    `without` are patterns of paths that are left out; as in dpkg's, `*` matches any text.
    """
    known = dict(_fingerprints(below))
    patterns = tuple(without)
    seen = set()
    with tarfile.open(whole) as source, tarfile.open(target, "w") as layer:
        for member in source:
            path = _path(member)
            seen.add(path)
            if any(fnmatchcase(f"/{path}", pattern) for pattern in patterns):
                continue
            if known.get(path) != _fingerprint(source, member):
                member.name = path
                # Of a long name: it would win over the new one.
                member.pax_headers = {key: value for key, value in member.pax_headers.items() if key != "path"}
                layer.addfile(member, source.extractfile(member) if member.isreg() else None)
        for path in sorted(known.keys() - seen):
            parent, name = posixpath.split(path)
            if parent in seen or not parent:  # below a directory that is gone there is nothing more to say
                layer.addfile(tarfile.TarInfo(posixpath.join(parent, f"{WHITEOUT}{name}")))


def _fingerprints(root: Path) -> Iterator[tuple[str, Fingerprint]]:
    with tarfile.open(root) as tar:
        for member in tar:
            yield _path(member), _fingerprint(tar, member)


def _fingerprint(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Fingerprint:
    content = tar.extractfile(member) if member.isreg() else None
    digest = hashlib.sha256(content.read()).digest() if content else b""
    return member.type, member.mode, member.uid, member.gid, member.linkname, digest


def _path(member: tarfile.TarInfo) -> str:
    return posixpath.normpath(member.name).lstrip("/")
