"""GET over HTTP/1.1, and nothing else: what looking at a cluster needs, without loading a whole HTTP client.

Most commands only look (`status`, `preview`, a `sync` that finds no change), and aiohttp takes longer to load than they
take to look. A GET may always be sent again, so what makes clients hard is not needed here; writes, watches and
whatever goes through a proxy use aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from fleet.kube.client import client
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.kubeconfig import Headers
from fleet.text import count_noun

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0  # of silence
_HEAD_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
_SAFE = "/?&=%:@!$'()*+,;~"


class ReaderResponse(NamedTuple):
    status: int
    headers: dict[str, str]  # names as `Retry-After`
    body: bytes


class _StaleError(Exception):
    """A kept connection that the server had closed already, as it does after a while."""


class _Connection(NamedTuple):
    incoming: asyncio.StreamReader
    outgoing: asyncio.StreamWriter

    @property
    def is_open(self) -> bool:
        return not (self.incoming.at_eof() or self.outgoing.is_closing())

    def drop(self) -> None:
        self.outgoing.transport.abort()


class Reader:
    """As many connections as there are requests at once; each is kept for the next request. Raises OSError."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str | None, headers: Headers) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._tls = tls
        self._server_name = (server_name or self._host) if tls else None
        self._headers: Headers = {"Host": parts.netloc, **headers}
        self._idle: list[_Connection] = []

    async def get(self, path: str, headers: Headers) -> ReaderResponse:
        target = quote(f"{self._prefix}{path}", safe=_SAFE)  # names come from users: none may end the line
        try:
            request = f"GET {target} HTTP/1.1\r\n{client.header_lines({**self._headers, **headers})}\r\n".encode()
        except ValueError as problem:
            raise BrokenError(problem, sent=False) from problem
        while True:
            kept = self._kept()
            connection = kept or await self._connect()
            try:
                connection.outgoing.write(request)
                got, reusable = await _answer(connection.incoming)
            except _StaleError:
                connection.drop()
                if not kept:
                    raise ConnectionResetError("the connection was closed without an answer") from None
                continue
            except (EOFError, asyncio.LimitOverrunError, ValueError, zlib.error) as problem:
                connection.drop()
                raise ConnectionError(f"an answer that is not whole: {problem}") from problem
            except BaseException:
                connection.drop()
                raise
            if reusable:
                self._idle.append(connection)
            else:
                connection.drop()
            return got

    def close(self) -> None:
        while self._idle:
            self._idle.pop().drop()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            connection.drop()
        return None

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(CONNECT_SECONDS):
            return _Connection(
                *await asyncio.open_connection(
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                    happy_eyeballs_delay=0.25,
                    limit=_HEAD_BYTES,
                )
            )


async def _answer(incoming: asyncio.StreamReader) -> tuple[ReaderResponse, bool]:
    """One answer, and whether the connection can take another request."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(READ_SECONDS) as limit:
        status, version, headers = await _head(incoming)
        while status < 200:  # 1xx announce the answer
            status, version, headers = await _head(incoming)
        reusable = version == "HTTP/1.1" and headers.get("Connection", "").lower() != "close"
        parts = []
        if "chunked" in headers.get("Transfer-Encoding", "").lower():
            while size := int((await incoming.readuntil(b"\r\n")).partition(b";")[0], 16):
                parts.append((await incoming.readexactly(size + 2))[:-2])
                limit.reschedule(loop.time() + READ_SECONDS)
            while (await incoming.readuntil(b"\r\n")) != b"\r\n":
                pass  # trailers
        elif "Content-Length" in headers:
            left = int(headers["Content-Length"])
            while left > 0:
                part = await incoming.read(min(left, 1 << 18))
                if not part:
                    raise EOFError(f"{count_noun(left, 'byte')} missing")
                parts.append(part)
                left -= len(part)
                limit.reschedule(loop.time() + READ_SECONDS)
        elif status not in (204, 304):
            reusable = False
            while part := await incoming.read(1 << 18):
                parts.append(part)
                limit.reschedule(loop.time() + READ_SECONDS)
    body = b"".join(parts)
    if body and headers.get("Content-Encoding", "").lower() == "gzip":
        body = _unpacked(body)
    return ReaderResponse(status, headers, body), reusable


async def _head(incoming: asyncio.StreamReader) -> tuple[int, str, dict[str, str]]:
    try:
        head = await incoming.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        if ended.partial:
            raise
        raise _StaleError from None
    except ConnectionResetError:
        raise _StaleError from None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    version, status = first.split(" ", 2)[:2]
    pairs = (line.partition(":") for line in lines)
    return int(status), version, {name.strip().title(): value.strip() for name, _, value in pairs}


def _unpacked(body: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP)
    unpacked = stream.decompress(body)
    if not stream.eof:
        raise EOFError("the compressed body ends early")
    return unpacked
