"""An answer over HTTP/1.1, put together from the pieces in which it comes. Pure.

Strict, because the next answer comes over the same connection: what is not quite as the protocol has it is an error,
and then the connection is not used again.
"""

from __future__ import annotations

from typing import NamedTuple

LONGEST_HEAD = 1 << 18
BODILESS = frozenset({204, 304})


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # names as `Retry-After`
    body: bytes
    reusable: bool  # the connection can take another request


class Parser:
    """Of one answer. `feed` gives it when it is whole, `end` when the connection ended; ValueError if it is none."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keeps = False
        self._left: int | None = 0  # of the body; None: until the connection ends
        self._chunked = False
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Answer | None:
        self._buffer += data
        while not self._status:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > LONGEST_HEAD:
                    raise ValueError("the head of the answer does not end")
                return None
            self._take_head(self._buffer[:end].decode("latin-1"))
            del self._buffer[: end + 4]
        if self._chunked:
            return self._whole() if self._take_chunks() else None
        if self._left is None or len(self._buffer) < self._left:
            return None
        self._parts = [bytes(self._buffer[: self._left])]
        del self._buffer[: self._left]
        return self._whole()

    def end(self) -> Answer:
        """The other side has closed the connection."""
        if not self._status or self._chunked or self._left is not None:
            raise ValueError("the connection ended in the middle of the answer")
        self._parts, self._keeps = [bytes(self._buffer)], False
        self._buffer.clear()
        return self._whole()

    def _whole(self) -> Answer:
        # Nobody asked for anything more yet: whatever else came belongs to no request.
        return Answer(self._status, self._headers, b"".join(self._parts), self._keeps and not self._buffer)

    def _take_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        status = int(rest[:3]) if rest[:3].isdigit() else 0
        if version not in ("HTTP/1.1", "HTTP/1.0") or not 100 <= status <= 599:
            raise ValueError(f"the answer begins with {first[:80]!r}")
        if status < 200:
            return  # announces the answer
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            name, value = name.title(), value.strip()
            if not colon or not name or name != name.strip():
                raise ValueError(f"the answer has a header {line[:80]!r}")
            if name == "Content-Length" and headers.get(name, value) != value:
                raise ValueError("the answer has two lengths")
            headers[name] = value
        if "Content-Encoding" in headers:
            raise ValueError(f"the answer is encoded as {headers['Content-Encoding']}, which was not asked for")
        self._status, self._headers = status, headers
        self._keeps = version == "HTTP/1.1" and headers.get("Connection", "").lower() != "close"
        self._frame(headers)

    def _frame(self, headers: dict[str, str]) -> None:
        encoding, length = headers.get("Transfer-Encoding"), headers.get("Content-Length")
        if self._status in BODILESS:
            return
        if encoding is not None:
            if encoding.lower() != "chunked" or length is not None:
                raise ValueError("the answer does not say clearly where it ends")
            self._chunked = True
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise ValueError(f"the answer has a length of {length[:80]!r}")
            self._left = int(length)
        else:
            self._left = None

    def _take_chunks(self) -> bool:
        """True when the last has come."""
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = _size(self._buffer[:end])
            if not size:
                return self._take_trailers(end + 2)
            if len(self._buffer) < end + 2 + size + 2:
                return False
            self._parts.append(bytes(self._buffer[end + 2 : end + 2 + size]))
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise ValueError("a part of the answer is longer than it said")
            del self._buffer[: end + 4 + size]
        if len(self._buffer) > LONGEST_HEAD:
            raise ValueError("a part of the answer does not begin")
        return False

    def _take_trailers(self, begin: int) -> bool:
        while (end := self._buffer.find(b"\r\n", begin)) >= 0:
            if end == begin:
                del self._buffer[: end + 2]
                return True
            begin = end + 2
        if len(self._buffer) > LONGEST_HEAD:
            raise ValueError("the end of the answer does not end")
        return False


def _size(line: bytearray) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise ValueError(f"a part of the answer has a size of {bytes(line[:80])!r}")
    return int(digits, 16)
