"""One connection to an API server, over HTTP/1.1 and with one request at a time.

An answer is read whole, or as it comes. The server is not waited for without end: silence ends a request, counted from
the last byte that came. A connection whose request was given up, or whose answer is not as it should be, can take no
other request, and `finish` says so.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable

from fleet.kube.client.errors import BrokenError
from fleet.kube.client.response import LONGEST_LINE, RawResponse, ResponseParser, read_lines

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0  # of silence
PIECE = 64 * 1024
UNREAD = 1 << 20  # bytes of a watch that wait for their reader; the server waits with what is beyond

Check = Callable[[], None]


class StaleError(BrokenError):
    """Error for a connection that was closed before anything of an answer came."""


class HttpConnection(asyncio.Protocol):
    """One connection, with one request at a time: `send`, then what is read of the answer, then `finish`."""

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser: ResponseParser | None = None  # None if no request is under way
        self._answer: RawResponse | None = None
        self._problem: Exception | None = None
        self._news: asyncio.Future[None] | None = None  # what the request waits for
        self._is_read = False
        self._is_stream = False
        self._is_full = False  # the network has not taken yet what was written
        self._is_sent = False
        self._is_paused = False
        self._silence = 0.0
        self._heard = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self.is_open = False

    async def send(self, request: bytes, parser: ResponseParser, silence: float, check: Check | None = None) -> None:
        """Send a request, a read if it has no `check`. The server may be silent for `silence` seconds at most."""
        self._parser, self._answer, self._problem = parser, None, None
        self._is_read, self._is_stream, self._is_sent = check is None, False, False
        self._silence, self._heard = silence, self._loop.time()
        self._watchdog = self._loop.call_at(self._heard + silence, self._watch)
        for begin in range(0, len(request), PIECE):
            while self._is_full and not self._is_over:
                await self._wait()
            if self._is_over:
                return  # the server refused before the request was complete
            if check is not None:
                check()
            self._transport.write(request[begin : begin + PIECE])
        self._is_sent = True

    async def read_answer(self) -> RawResponse:
        """Return the answer. Raise BrokenError if there is none, TimeoutError if it does not go on."""
        while self._answer is None:
            if self._problem is not None:
                raise self._problem
            await self._wait()
        return self._answer

    async def read_head(self) -> None:
        """Wait until the head of the answer is complete; what follows is read in pieces."""
        self._is_stream = True
        while not self.parser.status:
            if self._problem is not None:
                raise self._problem
            await self._wait()

    async def read_piece(self) -> bytes:
        """Return what has come of the body since; b"" after its end."""
        while not (piece := self.parser.take_body()):
            if self._answer is not None:
                return b""
            if self._problem is not None:
                raise self._problem
            await self._wait()
        if self._is_paused:
            self._is_paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()
        return piece

    async def start_tls(self, tls: ssl.SSLContext, server_name: str | None) -> None:
        """Encrypt what follows, after a proxy has made a tunnel."""
        transport = await self._loop.start_tls(self._transport, self, tls, server_hostname=server_name)
        if transport is None:
            raise ConnectionResetError("the connection was lost")
        self._transport = transport

    def finish(self) -> bool:
        """End the request. Return whether the connection can take another one."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._parser, answer = None, self._answer
        is_whole = answer is not None and answer.reusable and self._is_sent
        return is_whole and self.is_open and not self._is_full and not self._is_paused

    def drop(self) -> None:
        self.is_open = False
        self._transport.abort()

    @property
    def parser(self) -> ResponseParser:
        """Return the parser of the request under way."""
        if self._parser is None:
            raise BrokenError(ValueError("the request has ended"))
        return self._parser

    @property
    def _is_over(self) -> bool:
        return self._answer is not None or self._problem is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of create_connection
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._parser is None or self._is_over:
            self.drop()  # an answer without a request
            return
        try:
            self._answer = self._parser.feed(data)
        except ValueError as problem:
            self._fail(BrokenError(problem))
            return
        if self._is_stream:
            if self._parser.unread > UNREAD and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()
            self._wake()
        elif self._answer is not None:
            self._wake()

    def eof_received(self) -> None:
        self.is_open = False
        self._end(ConnectionResetError("the connection was closed without an answer"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._end(exc or ConnectionResetError("the connection was lost"))
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    async def _wait(self) -> None:
        """Wait until something has happened that may let the request go on."""
        self._news = self._loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _end(self, problem: Exception) -> None:
        """Take in the end of the connection: the end of the answer too, or what keeps it from coming."""
        if self._parser is None or self._is_over:
            return
        if self._parser.is_empty:
            # A write that broke may have been carried out, whatever broke it; so it must not look like a refusal.
            is_trusted = not (self._is_read and isinstance(problem, ssl.SSLError))
            self._fail(StaleError(problem, trusted=is_trusted))
            return
        try:
            self._answer = self._parser.end()
            self._wake()
        except ValueError as unfinished:
            self._fail(BrokenError(unfinished))

    def _fail(self, problem: Exception) -> None:
        self._problem = problem
        self._wake()

    def _watch(self) -> None:
        """Fail the request after its seconds of silence, counted from the last byte that came.

        While the answer waits for its reader, the server cannot be heard.
        """
        if self._parser is None or self._is_over:
            return
        if self._is_paused:
            self._heard = self._loop.time()
        until = self._heard + self._silence
        if self._loop.time() < until:
            self._watchdog = self._loop.call_at(until, self._watch)
        else:
            self._fail(TimeoutError("no answer in time"))


class StreamedResponse:
    """An answer whose body is read as it comes, until the request ends."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self.status = connection.parser.status
        self.headers = connection.parser.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what comes. Raise BrokenError if it ends early, TimeoutError after too much silence."""
        while piece := await self._connection.read_piece():
            yield piece

    def lines(self) -> AsyncIterator[bytes]:
        """Return the lines as they come, see `read_lines`."""
        return read_lines(self.pieces())

    async def read(self) -> bytes:
        """Return the body to its end."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > LONGEST_LINE:
                raise BrokenError(ValueError(f"the answer is longer than {LONGEST_LINE >> 20} MiB"))
        return bytes(body)
