"""Read single values out of a bbolt file, which is what an etcd snapshot is, without etcd.

Only what is needed to know how far a snapshot reaches and which version's data it is: finding a bucket, a key in it,
its last key. The format: https://github.com/etcd-io/bbolt - pages of a B+ tree, all numbers little-endian.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

_HEADER = struct.Struct("<QHHI")  # of a page: number, kind, count of elements, how many pages follow that belong to it
_META = struct.Struct("<IIIIQQQQQ")  # magic, version, page size, flags, root, sequence, freelist, pages, transaction
_BRANCH_ELEMENT = struct.Struct("<IIQ")  # position of the key from here, its size, the page below
_LEAF_ELEMENT = struct.Struct("<IIII")  # flags, position of the key from here, its size, the value's size
_BUCKET = struct.Struct("<QQ")  # root page (0: the page is right here, after this), sequence
_MAGIC, _VERSION = 0xED0CDAED, 2
_BRANCH, _LEAF = 0x01, 0x02
_IS_BUCKET = 0x01
_DEEPEST = 64
_LARGEST_PAGE = 1 << 30


class DamagedError(ValueError):
    """This is not a bbolt file, or not a whole one."""


@dataclass(frozen=True, slots=True)
class _Element:
    key: bytes
    below: int = 0  # in a branch: the page
    value: bytes = b""  # in a leaf
    is_bucket: bool = False


class Bolt:
    """An open file, of which nothing is kept in memory but the page that is looked at."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        first = self._read(0, _HEADER.size + _META.size)
        self._size = _META.unpack_from(first, _HEADER.size)[2]
        if _META.unpack_from(first, _HEADER.size)[0] != _MAGIC or not 512 <= self._size <= 65536:
            raise DamagedError("it does not begin as a database of etcd does")
        metas = [self._meta(number) for number in (0, 1)]
        self._root = max((meta for meta in metas if meta), default=(0, 0))[1]
        if not self._root:
            raise DamagedError("neither of its two heads is valid")

    def get(self, bucket: bytes, key: bytes) -> bytes | None:
        page = self._bucket(bucket)
        found = self._find(page, key) if page else None
        return found.value if found else None

    def last_key(self, bucket: bytes) -> bytes | None:
        """Return the last key of a bucket; None if the bucket is empty or not there."""
        page = self._bucket(bucket)
        elements = self._descend(page, None) if page else []
        return elements[-1].key if elements else None

    def _meta(self, number: int) -> tuple[int, int] | None:
        """Return transaction and root of a head, if it is whole."""
        content = self._read(number * self._size + _HEADER.size, _META.size + 8)
        magic, version, _, _, root, _, _, _, transaction = _META.unpack_from(content)
        (checksum,) = struct.unpack_from("<Q", content, _META.size)
        if (magic, version) != (_MAGIC, _VERSION) or checksum != _fnv(content[: _META.size]):
            return None
        return transaction, root

    def _bucket(self, name: bytes) -> bytes | None:
        """Return the root page of a bucket."""
        found = self._find(self._page(self._root), name)
        if found is None or not found.is_bucket:
            return None
        root, _ = _BUCKET.unpack_from(found.value)
        return self._page(root) if root else found.value[_BUCKET.size :]

    def _find(self, page: bytes, key: bytes) -> _Element | None:
        return next((one for one in self._descend(page, key) if one.key == key), None)

    def _descend(self, page: bytes, key: bytes | None) -> list[_Element]:
        """Return the elements of the leaf where `key` would be, or of the last leaf."""
        for _ in range(_DEEPEST):
            _, kind, count, _ = _HEADER.unpack_from(page)
            elements = [_element(page, kind, number) for number in range(count)]
            if kind & _LEAF:
                return elements
            if not elements:
                raise DamagedError("a branch of its tree is empty")
            below = [one for one in elements if key is None or one.key <= key] or elements[:1]
            page = self._page(below[-1].below)
        raise DamagedError("its tree has no end")

    def _page(self, number: int) -> bytes:
        header = self._read(number * self._size, _HEADER.size)
        _, _, _, more = _HEADER.unpack(header)
        if (more + 1) * self._size > _LARGEST_PAGE:
            raise DamagedError(f"its page {number} is too large")
        return self._read(number * self._size, (more + 1) * self._size)

    def _read(self, offset: int, length: int) -> bytes:
        content = os.pread(self._descriptor, length, offset)
        if len(content) < length:
            raise DamagedError("it is cut off")
        return content


def _element(page: bytes, kind: int, number: int) -> _Element:
    begin = _HEADER.size + 16 * number
    try:
        if kind & _BRANCH:
            position, length, below = _BRANCH_ELEMENT.unpack_from(page, begin)
            return _Element(page[begin + position : begin + position + length], below=below)
        if kind & _LEAF:
            flags, position, length, value = _LEAF_ELEMENT.unpack_from(page, begin)
            key = begin + position
            content = page[key + length : key + length + value]
            return _Element(page[key : key + length], value=content, is_bucket=bool(flags & _IS_BUCKET))
    except struct.error as error:
        raise DamagedError("a page of its tree is cut off") from error
    raise DamagedError(f"its tree has a page of the unknown kind {kind}")


def _fnv(content: bytes) -> int:
    """Return the FNV-1a hash with 64 bits, by which bbolt knows whole heads."""
    result = 0xCBF29CE484222325
    for byte in content:
        result = ((result ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return result
