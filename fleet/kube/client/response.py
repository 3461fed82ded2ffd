"""The parser of an API server's answers over HTTP/1.1, and the limits on what an answer may be.

It puts an answer together from the pieces in which it comes, whole or (for watches) piece by piece. It is pure, and
strict because the next answer comes over the same connection: any deviation from the protocol is an error, and then the
connection is not used again.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from fleet.kube.client.errors import BrokenError

LONGEST_HEAD = 1 << 18
LONGEST_BODY = 1 << 29  # a page of a list has 500 objects of 1.5 MiB at most, and nearly always far less
LONGEST_LINE = 1 << 26  # an event of a watch has one object
BODILESS = frozenset({204, 304})
_GZIP = 16 + zlib.MAX_WBITS
_LINE_END = b"\r\n"


class RawResponse(NamedTuple):
    """An answer, and whether its connection can be used again."""

    status: int
    headers: dict[str, str]  # names as `Retry-After`
    body: bytes
    reusable: bool  # whether the connection can take another request


class ResponseParser:
    """Parser of one answer. ValueError if it is none, or longer than an answer may be."""

    def __init__(self, *, takes_gzip: bool = False, opens_tunnel: bool = False) -> None:
        self.status = 0  # 0 until the head is complete
        self.headers: dict[str, str] = {}
        self.is_empty = True  # whether nothing of the answer has come
        self._takes_gzip = takes_gzip
        self._opens_tunnel = opens_tunnel
        self._is_gzip = False
        self._buffer = bytearray()
        self._keeps = False
        self._left: int | None = 0  # bytes of the body or of its chunk that are still to come; None: until the end
        self._chunked = False
        self._in_chunk = False
        self._parts: list[bytes] = []
        self._length = 0  # of the parts

    def feed(self, data: bytes) -> RawResponse | None:
        """Take in a piece. Return the answer if it is complete, else None; raise ValueError if it is none."""
        self.is_empty = False
        self._buffer += data
        while not self.status:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > LONGEST_HEAD:
                    raise ValueError("the head of the answer does not end")
                return None
            self._take_head(self._buffer[:end].decode("latin-1"))
            del self._buffer[: end + 4]
        if self._chunked:
            return self._whole() if self._take_chunks() else None
        if self._left is None:
            self._take_part(len(self._buffer))
            return None
        self._left -= self._take_part(self._left)
        return None if self._left else self._whole()

    @property
    def unread(self) -> int:
        """Return how many bytes of the body have come and were not taken."""
        return self._length

    def take_body(self) -> bytes:
        """Return what has come of the body, which then is no part of the complete answer."""
        if self._is_gzip:
            raise ValueError("the answer is compressed, and is to be read as it comes")
        body = b"".join(self._parts)
        self._parts.clear()
        self._length = 0
        return body

    def end(self) -> RawResponse:
        """Return the answer that ends with its connection; raise ValueError if it is not complete."""
        if not self.status or self._chunked or self._left is not None:
            raise ValueError("the connection ended in the middle of the answer")
        self._keeps = False
        return self._whole()

    def _whole(self) -> RawResponse:
        body = b"".join(self._parts)
        if self._is_gzip and body:
            body = _unpack(body)
        # No further request was sent yet, so bytes beyond this answer belong to no request.
        return RawResponse(self.status, self.headers, body, self._keeps and not self._buffer)

    def _take_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        status = int(rest[:3]) if rest[:3].isascii() and rest[:3].isdigit() else 0
        if version not in ("HTTP/1.1", "HTTP/1.0") or not 100 <= status <= 599:
            raise ValueError(f"the answer begins with {first[:80]!r}")
        if status < 200:
            return  # an interim response: the answer follows
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            name, value = name.title(), value.strip()
            if not colon or not name or name != name.strip():
                raise ValueError(f"the answer has a header {line[:80]!r}")
            if name == "Content-Length" and headers.get(name, value) != value:
                raise ValueError("the answer has two lengths")
            headers[name] = value
        encoding = headers.get("Content-Encoding", "identity").lower()
        self._is_gzip = encoding == "gzip" and self._takes_gzip
        if encoding != "identity" and not self._is_gzip:
            raise ValueError(f"the answer is encoded as {encoding[:80]}, which was not asked for")
        self.status, self.headers = status, headers
        self._keeps = version == "HTTP/1.1" and headers.get("Connection", "").lower() != "close"
        self._frame(headers)

    def _frame(self, headers: dict[str, str]) -> None:
        encoding, length = headers.get("Transfer-Encoding"), headers.get("Content-Length")
        if self._opens_tunnel and self.status < 300:
            self._keeps = True  # what follows is the tunnel, whatever the headers say
            return
        if self.status in BODILESS:
            return
        if encoding is not None:
            if encoding.lower() != "chunked" or length is not None:
                raise ValueError("the answer does not say clearly where it ends")
            self._chunked = True
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise ValueError(f"the answer has a length of {length[:80]!r}")
            self._left = int(length)
            if self._left > LONGEST_BODY:
                raise ValueError(_TOO_LONG)
        else:
            self._left = None

    def _take_part(self, most: int) -> int:
        """Move at most that many bytes from the buffer to the body. Return how many it were."""
        size = min(most, len(self._buffer))
        if not size:
            return 0
        self._length += size
        if self._length > LONGEST_BODY:
            raise ValueError(_TOO_LONG)
        if size == len(self._buffer):
            self._parts.append(bytes(self._buffer))
            self._buffer.clear()
        else:
            with memoryview(self._buffer) as view:
                self._parts.append(bytes(view[:size]))
            del self._buffer[:size]
        return size

    def _take_chunks(self) -> bool:
        """Take in what has come of the chunks; return whether the last one has."""
        while True:
            if self._in_chunk and not self._take_chunk():
                return False
            end = self._buffer.find(_LINE_END)
            if end < 0:
                if len(self._buffer) > LONGEST_HEAD:
                    raise ValueError("a part of the answer does not begin")
                return False
            size = _chunk_size(self._buffer[:end])
            if not size:
                return self._take_trailers(end + 2)
            del self._buffer[: end + 2]
            self._left, self._in_chunk = size, True

    def _take_chunk(self) -> bool:
        """Take in what has come of a chunk and of the end of its line; return whether both are complete."""
        assert self._left is not None  # noqa: S101 - of a chunk
        self._left -= self._take_part(self._left)
        if self._left or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != _LINE_END:
            raise ValueError("a part of the answer is longer than it said")
        del self._buffer[:2]
        self._in_chunk = False
        return True

    def _take_trailers(self, begin: int) -> bool:
        while (end := self._buffer.find(_LINE_END, begin)) >= 0:
            if end == begin:
                del self._buffer[: end + 2]
                return True
            begin = end + 2
        if len(self._buffer) > LONGEST_HEAD:
            raise ValueError("the end of the answer does not end")
        return False


_TOO_LONG = f"the answer is longer than {LONGEST_BODY >> 20} MiB"


def _chunk_size(line: bytearray) -> int:
    """Return the size of a chunk; raise ValueError if the line has none."""
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise ValueError(f"a part of the answer has a size of {bytes(line[:80])!r}")
    return int(digits, 16)


def _unpack(body: bytes) -> bytes:
    """Return the content of a compressed body; raise ValueError if it is not whole, or too long."""
    stream = zlib.decompressobj(_GZIP)
    try:
        unpacked = stream.decompress(body, LONGEST_BODY)
    except zlib.error as problem:
        raise ValueError(f"the compressed answer is damaged: {problem}") from None
    if stream.unconsumed_tail:
        raise ValueError(_TOO_LONG)
    if not stream.eof:
        raise ValueError("the compressed answer ends early")
    return unpacked


async def read_lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they come, without what follows the last newline: that event was cut off.

    Raise BrokenError for a line that is longer than an event may be.
    """
    parts: list[bytes] = []
    length = 0
    async for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            parts.append(line)
            yield b"".join(parts)
            parts.clear()
            length = 0
        if rest:
            parts.append(rest)
            length += len(rest)
            if length > LONGEST_LINE:
                raise BrokenError(ValueError(f"an event is longer than {LONGEST_LINE >> 20} MiB"))
