"""Guarded writes over connections of their own, and the parser of their answers.

The connections take half the CPU time of a general client, and give certainty about what was sent. Small requests of
other kinds (probes of an engine) may use them too; none is sent twice automatically. The guard is asked with nothing
between it and the socket, so that a process that was frozen at any point before does not send. A request without an
answer says whether it may have reached the server (`BrokenError.sent`).

The parser puts an answer over HTTP/1.1 together from the pieces in which it comes. It is pure, and strict because the
next answer comes over the same connection: any deviation from the protocol is an error, and then the connection is not
used again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from fleet.kube.client import client
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.kubeconfig import Headers

LONGEST_HEAD = 1 << 18
BODILESS = frozenset({204, 304})


class SenderResponse(NamedTuple):
    """An answer, and whether its connection can be used again."""

    status: int
    headers: dict[str, str]  # names as `Retry-After`
    body: bytes
    reusable: bool  # whether the connection can take another request


class Parser:
    """Parser of one answer. ValueError if it is none."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keeps = False
        self._left: int | None = 0  # bytes of the body; None: until the connection ends
        self._chunked = False
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> SenderResponse | None:
        """Take in a piece. Return the answer if it is complete, else None; raise ValueError if it is none."""
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

    def end(self) -> SenderResponse:
        """Return the answer that ends with its connection; raise ValueError if it is not complete."""
        if not self._status or self._chunked or self._left is not None:
            raise ValueError("the connection ended in the middle of the answer")
        self._parts, self._keeps = [bytes(self._buffer)], False
        self._buffer.clear()
        return self._whole()

    def _whole(self) -> SenderResponse:
        # No further request was sent yet, so bytes beyond this answer belong to no request.
        return SenderResponse(self._status, self._headers, b"".join(self._parts), self._keeps and not self._buffer)

    def _take_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        status = int(rest[:3]) if rest[:3].isdigit() else 0
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
        """Take in the chunks that have come; return whether the last one has."""
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = _chunk_size(self._buffer[:end])
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


def _chunk_size(line: bytearray) -> int:
    """Return the size of a chunk; raise ValueError if the line has none."""
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise ValueError(f"a part of the answer has a size of {bytes(line[:80])!r}")
    return int(digits, 16)


CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0  # of silence
PIECE = 64 * 1024
_SAFE = "/?&=%:@!$'()*+,;~"  # names come from users, and none may end the line

Check = Callable[[], None]


class Sender:
    """Sender of requests. It has as many connections as there are requests at once; each is kept for the next one."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str | None, headers: Headers) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._tls = tls
        self._server_name = (server_name or self._host) if tls else None
        self._headers = client.header_lines({"Host": parts.netloc, **headers})
        self._idle: list[_Wire] = []
        self._closed = False

    async def send(self, method: str, path: str, data: bytes, headers: Headers, check: Check) -> SenderResponse:
        """Send a request and return its answer; `check` is called before each piece goes out.

        If `check` raises, this raises the same, and the server has no complete request. Raise BrokenError if there is
        no answer.
        """
        target = quote(f"{self._prefix}{path}", safe=_SAFE)
        try:
            lines = client.header_lines(headers)
        except ValueError as problem:
            raise BrokenError(problem, sent=False) from problem
        head = f"{method} {target} HTTP/1.1\r\n{self._headers}{lines}Content-Length: {len(data)}\r\n\r\n"
        wire = self._kept() or await self._connect()
        try:
            answer = await wire.ask(head.encode() + data, check)
        except ValueError as problem:
            wire.drop()
            raise BrokenError(problem) from problem
        except BaseException:
            wire.drop()
            raise
        if answer.reusable and not self._closed:
            self._idle.append(wire)
        else:
            wire.drop()
        return answer

    def close(self) -> None:
        """Close the idle connections. Requests under way may end."""
        self._closed = True
        while self._idle:
            self._idle.pop().drop()

    def _kept(self) -> _Wire | None:
        while self._idle:
            wire = self._idle.pop()
            if wire.is_open:
                return wire
            wire.drop()
        return None

    async def _connect(self) -> _Wire:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, wire = await loop.create_connection(
                    lambda: _Wire(loop),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError as problem:
            raise BrokenError(TimeoutError("no connection in time"), sent=False) from problem
        except ssl.SSLError as problem:
            raise BrokenError(problem, sent=False, trusted=False) from problem
        except OSError as problem:
            raise BrokenError(problem, sent=False) from problem
        return wire


class _Wire(asyncio.Protocol):
    """One connection, with one request at a time."""

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser = Parser()
        self._answer: asyncio.Future[SenderResponse] | None = None
        self._room: asyncio.Future[None] | None = None
        self._heard = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self.is_open = False

    async def ask(self, request: bytes, check: Check) -> SenderResponse:
        """Send a request and return its answer."""
        self._parser = Parser()
        answer: asyncio.Future[SenderResponse] = self._loop.create_future()
        self._answer = answer
        self._heard = self._loop.time()
        self._watchdog = self._loop.call_at(self._heard + READ_SECONDS, self._watch)
        try:
            for begin in range(0, len(request), PIECE):
                if self._room is not None:
                    await asyncio.wait((self._room, answer), return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    break  # the server refused before the request was complete
                check()
                self._transport.write(request[begin : begin + PIECE])
            response = await answer
            return response if self._room is None else response._replace(reusable=False)
        finally:
            self._answer = None
            self._watchdog.cancel()

    def drop(self) -> None:
        self.is_open = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of create_connection
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._answer is None or self._answer.done():
            self.drop()  # an answer without a request
            return
        try:
            answer = self._parser.feed(data)
        except ValueError as problem:
            self._answer.set_exception(problem)
            return
        if answer is not None:
            self._answer.set_result(answer)

    def eof_received(self) -> None:
        self.is_open = False
        self._end(ValueError("the connection was closed without an answer"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._end(BrokenError(exc) if exc else ValueError("the connection was lost"))
        self.resume_writing()

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._room is not None:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None

    def _end(self, problem: Exception) -> None:
        if self._answer is None or self._answer.done():
            return
        try:
            self._answer.set_result(self._parser.end())
        except ValueError:
            self._answer.set_exception(problem)

    def _watch(self) -> None:
        """Fail the request after `READ_SECONDS` of silence of the server, counted from the last byte."""
        if self._answer is None or self._answer.done():
            return
        until = self._heard + READ_SECONDS
        if self._loop.time() < until:
            self._watchdog = self._loop.call_at(until, self._watch)
        else:
            self._answer.set_exception(TimeoutError("no answer in time"))
