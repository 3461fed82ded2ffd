"""Backups that only whoever has a key can read, as a stream: memory does not grow with their size.

AES-256-GCM over pieces of 1 MiB, each with its number and whether it is the last one, so that pieces can be neither
changed, exchanged, left out nor cut off. A backup has a key of its own, which HKDF makes of the given key and of a
random salt in its head; numbers can so begin at 0. The head says which key it was, by a digest from which nobody learns
the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fleet.errors import AccessError, ConfigurationError, ResourceError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"fleet\x00e1"
_PIECE = 1 << 20
_TAG = 16
_SALT = 32
_HEAD = len(MAGIC) + 8 + _SALT


@dataclass(frozen=True, slots=True)
class BackupKey:
    """A key of 32 bytes, and the Secret that has it."""

    key: bytes = field(repr=False)
    place: str = "the Secret"

    @classmethod
    def read(cls, text: str, place: str) -> BackupKey:
        """Return the key that a text stands for, in base64 or hexadecimal; raise ConfigurationError if it is none."""
        text = "".join(text.split())
        try:
            key = (
                bytes.fromhex(text) if re.fullmatch(r"[0-9a-fA-F]{64}", text) else base64.b64decode(text, validate=True)
            )
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != 32:
            raise ConfigurationError(
                f"{place} has no key for backups: 32 bytes in base64 are expected",
                hint="kubectl create secret generic NAME --from-literal=key=$(openssl rand -base64 32)",
            )
        return cls(key, place)

    @property
    def id(self) -> str:
        """Say which key it is, for people and records."""
        return hashlib.sha256(b"fleet backup key\0" + self.key).hexdigest()[:16]


def encrypted_size(size: int) -> int:
    """Return how many bytes come of so many."""
    pieces = max(1, -(-size // _PIECE))
    return _HEAD + size + pieces * _TAG


def encrypt(pieces: Iterable[bytes], key: BackupKey) -> Iterator[bytes]:
    """Yield a head, and the pieces encrypted."""
    head = MAGIC + bytes.fromhex(key.id) + os.urandom(_SALT)
    cipher = _cipher(key, head)
    yield head
    number, waiting = 0, bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) > _PIECE:  # one is always left, since the last one must be known for it
            yield cipher.encrypt(_nonce(number, last=False), bytes(memoryview(waiting)[:_PIECE]), head)
            del waiting[:_PIECE]
            number += 1
    yield cipher.encrypt(_nonce(number, last=True), bytes(waiting), head)


def decrypt(pieces: Iterable[bytes], keys: Iterable[BackupKey], name: str) -> Iterator[bytes]:
    """Yield what was encrypted. Raise AccessError, with the ids of the keys, if none of `keys` is the one;
    ResourceError if it was changed or is not whole."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - slow to import, and few backups need it

    source, waiting = iter(pieces), bytearray()

    def fill(size: int) -> None:
        while len(waiting) < size and (piece := next(source, b"")):
            waiting.extend(piece)

    fill(_HEAD)
    head = bytes(waiting[:_HEAD])
    if len(head) < _HEAD or not is_encrypted(head):
        raise ResourceError(f"{name} is not encrypted, or by something else")
    del waiting[:_HEAD]
    cipher = _cipher(_key_of(head, list(keys), name), head)
    number = 0
    while True:
        fill(_PIECE + _TAG + 1)
        last = len(waiting) <= _PIECE + _TAG
        piece = bytes(memoryview(waiting)[: _PIECE + _TAG])
        del waiting[: _PIECE + _TAG]
        try:
            yield cipher.decrypt(_nonce(number, last=last), piece, head)
        except (InvalidTag, ValueError) as error:
            raise ResourceError(f"{name} was changed since it was encrypted, or is cut off") from error
        if last:
            return
        number += 1


def is_encrypted(beginning: bytes) -> bool:
    return beginning.startswith(MAGIC)


def _key_of(head: bytes, keys: list[BackupKey], name: str) -> BackupKey:
    wanted = head[len(MAGIC) : len(MAGIC) + 8].hex()
    for key in keys:
        if key.id == wanted:
            return key
    have = " and ".join(f"{key.place} has {key.id}" for key in keys) or "no key is given"
    raise AccessError(
        f"{name} is encrypted with the key {wanted}, and {have}",
        hint="name the Secret with that key, or put it into the Secret as `previous`",
    )


def _cipher(key: BackupKey, head: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return AESGCM(HKDF(SHA256(), 32, salt=head[-_SALT:], info=head[:-_SALT]).derive(key.key))


def _nonce(number: int, *, last: bool) -> bytes:
    return struct.pack(">QxxxB", number, last)
