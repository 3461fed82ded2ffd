"""A client of an engine whose members speak HTTP: connections that are kept, certificates by name, bounded answers.

It observes and commands; it decides nothing. Every request goes to the member that is named and to no other, and ends
in time with an answer or with `Unreachable`. What an answer means is the engine's to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from yarl import URL

from fleet.kit.protocol.endpoint import Endpoint, Unreachable

IDLE_SECONDS = 60.0  # for which a connection is kept for the next probe
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class MemberReply:
    """What a member sent, of whatever status."""

    status: int
    content: bytes


class GuardedBody(BytesPayload):
    """Body of a request by aiohttp. Calls `check` when it goes out; what that raises breaks the connection."""

    def __init__(self, data: bytes, check: Callable[[], None]) -> None:
        super().__init__(data)
        self._check = check

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


class HttpMembers:
    """A pool of connections to the members of one app, for an engine's client to derive from."""

    engine: ClassVar[str] = "the member"  # for people
    most_bytes: ClassVar[int] = 256 << 10  # of an answer; a list of members has a few hundred

    def __init__(self, tls: ssl.SSLContext | None, seconds: float = 2.0) -> None:
        self._tls = tls
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None
        self._allowed: Callable[[], None] = _allow_always

    def guarded(self, allowed: Callable[[], None]) -> Self:
        """Return the same connections, where each request asks `allowed` first and again when its body goes out.

        It is not sent if that raises. A process that was frozen meanwhile would send what it has no right to any more.
        """
        other = copy.copy(self)
        other._allowed = allowed
        return other

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls or False, limit=0, keepalive_timeout=IDLE_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # what is compressed has no size
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, endpoint: Endpoint, path: str, body: bytes | None = None) -> MemberReply:
        """Ask, and once more on a new connection if the one that was kept turned out to be closed. Only for questions:
        whether a command was carried out before the connection closed, nobody knows.

        A question with a body is a POST, one without is a GET. Raises Unreachable.
        """
        try:
            return await self.send(endpoint, path, body)
        except Unreachable as error:
            cause = error.__cause__
            closed = isinstance(cause, OSError) and cause.errno in (errno.ECONNRESET, errno.EPIPE)
            if closed or isinstance(cause, aiohttp.ServerDisconnectedError):
                return await self.send(endpoint, path, body)
            raise

    async def send(
        self, endpoint: Endpoint, path: str, body: bytes | None, seconds: float | None = None
    ) -> MemberReply:
        """Send one request, once; return what the member answered. Raises Unreachable, and what `allowed` raises."""
        if self._session is None:
            name = type(self).__name__
            raise RuntimeError(f"use {name} as a context manager: async with {name}(…) as members")
        scheme = "https" if self._tls is not None else "http"
        limit = self._seconds if seconds is None else seconds
        self._allowed()
        try:
            async with (
                asyncio.timeout(limit),
                self._session.request(
                    "GET" if body is None else "POST",
                    URL.build(scheme=scheme, host=endpoint.address, port=endpoint.port, path=path),
                    data=None if body is None else GuardedBody(body, self._allowed),
                    headers={"Content-Type": "application/json"} if body is not None else None,
                    server_hostname=endpoint.name if self._tls is not None else None,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                return MemberReply(response.status, await self._read_bounded(response))
        except TimeoutError as error:
            self._allowed()  # what it held back was not sent, and that is another matter than no answer
            raise self.unreachable(endpoint, f"no answer in {limit:g} s") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            self._allowed()
            raise self.unreachable(endpoint, _describe(error)) from error

    def unreachable(self, endpoint: Endpoint, why: str) -> Unreachable:
        """Return the error of a member of which nothing is known."""
        return Unreachable(endpoint, why, self.engine)

    @contextlib.contextmanager
    def understood(self, endpoint: Endpoint) -> Iterator[None]:
        """Read an answer. One with what the engine would not say tells nothing, as if there had been none: Unreachable
        is raised."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            why = f"an answer that is not {self.engine}'s: {str(error)[:200]}"
            raise self.unreachable(endpoint, why) from error

    async def _read_bounded(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            content += chunk
            if len(content) > self.most_bytes:
                raise ValueError(f"its answer is longer than {self.most_bytes >> 10} KiB")
        return bytes(content)


def _allow_always() -> None:
    """Do nothing: nobody else is there."""


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
