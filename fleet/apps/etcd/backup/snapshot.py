"""A snapshot file of etcd: whether it is whole, and what can be known of it.

etcd appends the SHA-256 of all that it sent, so a file that was cut off or damaged on its way is found without etcd.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fleet.apps.etcd.backup.bolt import Bolt, DamagedError
from fleet.errors import ResourceError
from fleet.kit.backup.plan import Facts

_DIGEST = hashlib.sha256().digest_size
_SECTOR = 512  # a database is a multiple of it; what is left over is the digest
_CHUNK = 1 << 20


def verified(file: Path) -> Facts:
    """Read all of it back and compare; ResourceError if it is not whole."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if hasattr(os, "posix_fadvise"):
            # What is checked is what the disk has, as far as it was synced, not what memory still knows of it.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(descriptor).st_size
        if size <= _DIGEST or size % _SECTOR != _DIGEST:
            raise ResourceError(f"{file.name} is not whole: {size} bytes end without etcd's checksum")
        checksum = _checked(descriptor, size, file.name)
        try:
            bolt = Bolt(descriptor)
            revision, version = _revision(bolt), (bolt.get(b"cluster", b"clusterVersion") or b"").decode()
        except (DamagedError, UnicodeDecodeError) as error:
            raise ResourceError(f"{file.name} is no snapshot of etcd: {error}") from error
        return Facts(size, checksum, str(revision), ".".join(version.split(".")[:2]))
    finally:
        os.close(descriptor)


def _checked(descriptor: int, size: int, name: str) -> str:
    digest = hashlib.sha256()
    left, tail = size - _DIGEST, b""
    while left > 0:
        chunk = os.read(descriptor, min(left, _CHUNK))
        if not chunk:
            raise ResourceError(f"{name} ends before its {size} bytes")
        digest.update(chunk)
        left -= len(chunk)
    while len(tail) < _DIGEST and (chunk := os.read(descriptor, _DIGEST - len(tail))):
        tail += chunk
    if digest.digest() != tail:
        raise ResourceError(f"{name} is damaged: its content does not have the checksum that etcd gave it")
    digest.update(tail)
    return f"sha256:{digest.hexdigest()}"


def _revision(bolt: Bolt) -> int:
    """Read the last key of the store, which is a revision: eight bytes, an underscore, and the number within the
    transaction."""
    last = bolt.last_key(b"key")
    return int.from_bytes(last[:8], "big") if last else 1
