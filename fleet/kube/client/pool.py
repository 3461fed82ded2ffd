"""The connections to one API server: each request of every client goes over them, reads, writes and watches.

There are as many connections as there are requests at once; each is kept for the next request. HTTP/1.1 is spoken here
because that takes less than half the CPU time of a general client, loads in no time, and gives certainty about what was
sent: `BrokenError.sent` says whether a request without an answer may have reached the server. A write is never sent
twice by itself. A read is, if a kept connection turns out to be closed already: the server closes idle ones after a
while.

The `check` of a write is called with nothing between it and the socket, so that a process that was frozen at any point
before does not send.

A proxy is asked for a tunnel to the server, so that it learns nothing of who asks there; without TLS it gets the
requests themselves. A connection whose request was given up, or whose answer is not as it should be, is closed and
never used again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote, unquote, urlsplit

from fleet.kube.client.connection import (
    CONNECT_SECONDS,
    READ_SECONDS,
    Check,
    HttpConnection,
    StaleError,
    StreamedResponse,
)
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.kubeconfig import Headers
from fleet.kube.client.response import RawResponse, ResponseParser

_SAFE = "/?&=%:@!$'()*+,;~"  # names come from users, and none may end the line


def allow() -> None:
    """Allow every write."""


def header_pairs(headers: Mapping[str, str | tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return a name and a value for each header line of a request."""
    return [
        (name, value)
        for name, values in headers.items()
        for value in ((values,) if isinstance(values, str) else values)
    ]


def header_lines(headers: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return the header lines of a request. Raise ValueError if a value has a line break."""
    every = header_pairs(headers)
    text = "".join([f"{name}: {value}\r\n" for name, value in every])
    if not text.count("\n") == text.count("\r") == len(every):
        raise ValueError("a header has a line break")
    return text


class ConnectionPool:
    """Connections to one server, made with one set of credentials.

    Each request has the pool's headers, besides its own, which take the place of those with the same name. `compressed`
    says whether the server may compress its answers to reads.
    """

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        headers: Headers,
        proxy: str | None = None,
        *,
        compressed: bool = True,
    ) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._tls = tls
        self._server_name = (server_name or self._host) if tls else None
        self._headers: Headers = {"Host": parts.netloc, **headers}
        self._read_headers: Headers = {"Accept-Encoding": "gzip"} if compressed else {}
        self._proxy = proxy
        self._origin = ""
        if proxy and tls is None:  # the proxy gets the requests themselves, so each says where it is to go
            self._origin = f"http://{parts.netloc}"
            self._headers |= _proxy_authorization(proxy)
        self._idle: list[HttpConnection] = []
        self._closed = False

    async def read(self, path: str, headers: Headers) -> RawResponse:
        """Send a GET and return its answer, which may come compressed. Raise BrokenError if there is none."""
        request = self._request("GET", path, {**self._read_headers, **headers})
        while True:
            idle = self._take_idle()
            connection = idle or await self._connect()
            try:
                await connection.send(request, ResponseParser(takes_gzip=True), READ_SECONDS)
                return await connection.read_answer()
            except StaleError:
                if idle is None:
                    raise
            finally:
                self._release(connection)

    async def write(self, method: str, path: str, data: bytes, headers: Headers, check: Check = allow) -> RawResponse:
        """Send a request and return its answer; `check` is called before each piece goes out.

        If `check` raises, this raises the same, and the server has no complete request. Raise BrokenError if there is
        no answer.
        """
        request = self._request(method, path, {**headers, "Content-Length": str(len(data))}) + data
        connection = self._take_idle() or await self._connect()
        try:
            await connection.send(request, ResponseParser(), READ_SECONDS, check)
            return await connection.read_answer()
        finally:
            self._release(connection)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, headers: Headers, silence: float) -> AsyncIterator[StreamedResponse]:
        """Send a GET and yield its answer, whose body is read as it comes.

        Raise BrokenError if there is none, TimeoutError if the server is silent for that many seconds.
        """
        connection = await self._open_stream(self._request("GET", path, headers), silence)
        try:
            yield StreamedResponse(connection)
        finally:
            self._release(connection)

    def close(self) -> None:
        """Close the idle connections. Requests under way may end."""
        self._closed = True
        while self._idle:
            self._idle.pop().drop()

    async def _open_stream(self, request: bytes, silence: float) -> HttpConnection:
        while True:
            idle = self._take_idle()
            connection = idle or await self._connect()
            try:
                await connection.send(request, ResponseParser(), silence)
                await connection.read_head()
            except StaleError:
                self._release(connection)
                if idle is None:
                    raise
            except BaseException:
                self._release(connection)
                raise
            else:
                return connection

    def _request(self, method: str, path: str, headers: Headers) -> bytes:
        target = self._origin + quote(f"{self._prefix}{path}", safe=_SAFE)
        try:
            lines = header_lines({**self._headers, **headers})
        except ValueError as problem:
            raise BrokenError(problem, sent=False) from problem
        return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode()

    def _release(self, connection: HttpConnection) -> None:
        """Keep a connection for the next request if it can take one; close it in every other case."""
        if connection.finish() and not self._closed:
            self._idle.append(connection)
        else:
            connection.drop()

    def _take_idle(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            connection.drop()
        return None

    async def _connect(self) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._proxy:
                    return await self._connect_through(self._proxy)
                return await _dial(self._host, self._port, self._tls, self._server_name)
        except TimeoutError as problem:
            raise BrokenError(TimeoutError("no connection in time"), sent=False) from problem
        except ssl.SSLError as problem:
            raise BrokenError(problem, sent=False, trusted=False) from problem
        except OSError as problem:
            raise BrokenError(problem, sent=False) from problem

    async def _connect_through(self, proxy: str) -> HttpConnection:
        """Return a connection to the server through a tunnel of the proxy's; to the proxy itself if there is no TLS."""
        parts = urlsplit(proxy)
        host, is_private = parts.hostname or "", parts.scheme == "https"
        tls = (self._tls or ssl.create_default_context()) if is_private else None
        port = parts.port or (443 if is_private else 80)
        connection = await _dial(host, port, tls, host if is_private else None)
        if self._tls is None:
            return connection
        server = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        try:
            lines = header_lines({"Host": server, **_proxy_authorization(proxy)})
            request = f"CONNECT {server} HTTP/1.1\r\n{lines}\r\n".encode()
            await connection.send(request, ResponseParser(opens_tunnel=True), CONNECT_SECONDS)
            answer = await connection.read_answer()
            if answer.status != 200 or not connection.finish():
                raise ConnectionError(f"the proxy at {host}:{port} makes no tunnel to {server}: HTTP {answer.status}")
            await connection.start_tls(self._tls, self._server_name)
        except BaseException:
            connection.finish()
            connection.drop()
            raise
        return connection


async def _dial(host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None) -> HttpConnection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: HttpConnection(loop), host, port, ssl=tls, server_hostname=server_name, happy_eyeballs_delay=0.25
    )
    return connection


def _proxy_authorization(proxy: str) -> Headers:
    """Return the header that says to a proxy who asks; none if its URL names no user."""
    parts = urlsplit(proxy)
    if not parts.username:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
