"""Writes, over connections of their own: half the CPU time of a general client, and certainty about what was sent.

Small requests of other kinds (probes of an engine) may go over it too; none is sent twice by itself.
The guard is asked with nothing between it and the socket, so that a process that was frozen at any point before does
not send. A request that got no answer says whether it may have reached the server (`BrokenError.sent`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from fleet.kube import acting
from fleet.kube.failure import BrokenError
from fleet.kube.kubeconfig import Headers
from fleet.kube.runtime.answer import Answer, Parser

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0  # of silence
PIECE = 64 * 1024
_SAFE = "/?&=%:@!$'()*+,;~"  # names come from users: none may end the line

Check = Callable[[], None]


class Sender:
    """As many connections as there are requests at once; each is kept for the next one."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str | None, headers: Headers) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._tls = tls
        self._server_name = (server_name or self._host) if tls else None
        self._headers = acting.lines({"Host": parts.netloc, **headers})
        self._idle: list[_Wire] = []
        self._closed = False

    async def send(self, method: str, path: str, data: bytes, headers: Headers, check: Check) -> Answer:
        """`check` is asked before each piece goes out. What it raises, this raises; the server has no whole request."""
        target = quote(f"{self._prefix}{path}", safe=_SAFE)
        try:
            lines = acting.lines(headers)
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
        """What is under way comes to its end."""
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
        self._answer: asyncio.Future[Answer] | None = None
        self._room: asyncio.Future[None] | None = None
        self._heard = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self.is_open = False

    async def ask(self, request: bytes, check: Check) -> Answer:
        self._parser = Parser()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._heard = self._loop.time()
        self._watchdog = self._loop.call_at(self._heard + READ_SECONDS, self._watch)
        try:
            for begin in range(0, len(request), PIECE):
                if self._room is not None:
                    await asyncio.wait((self._room, answer), return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    break  # refused before it was whole
                check()
                self._transport.write(request[begin : begin + PIECE])
            got = await answer
            return got if self._room is None else got._replace(reusable=False)
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
            self.drop()  # an answer that nobody asked for
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
        """Silence of the other side, counted from the last byte."""
        if self._answer is None or self._answer.done():
            return
        until = self._heard + READ_SECONDS
        if self._loop.time() < until:
            self._watchdog = self._loop.call_at(until, self._watch)
        else:
            self._answer.set_exception(TimeoutError("no answer in time"))
