"""The proxy: it passes requests on to one API server and does to each what the plan says. It decides nothing itself.

A client that closes its connection ends its watches, as with a real server; its other requests are completed.
Connections that become something else after a request, as those for commands in pods do, are passed on as bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from aiohttp.client import _RequestContextManager
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from fleet.kube.client.response import read_lines
from fleet.lab.proxy.actions import Act, Answer, Break, Delay, EmptyList, Kill, Lose, OnAnswer, SkewLeases
from fleet.lab.proxy.plan import Plan, State, decide
from fleet.lab.proxy.request import Call, Recorded
from fleet.lab.proxy.response import CutError, LeaseClock, ResponseShape, status_object

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
_CHUNK = 1 << 16


def is_identity_header(name: str) -> bool:
    """Return whether a header, in lower case, says who the user is.

    That is for the proxy to say to the server, not for the client.
    """
    return name == "authorization" or name.startswith("x-remote-")


class _ClientData:
    """A parser, as aiohttp calls it: it gets the client's bytes, and passes them on to the server."""

    def __init__(self, server: asyncio.StreamWriter) -> None:
        self._server = server

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._server.write(data)
        return False, b""

    def feed_eof(self) -> None:
        self._server.close()


async def tunnel(
    request: web.BaseRequest, connect: Connect, identity: Sequence[tuple[str, str]], note: Callable[[int], None]
) -> web.StreamResponse:
    """Ask the server for another protocol; if it agrees, pass on the bytes of both sides until one of them ends."""
    reader, writer = await connect()
    try:
        writer.write(_request_head(request, identity))
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        status = int(first.split()[1])
        note(status)
        if status != 101:
            headers = BytesParser().parsebytes(rest, headersonly=True)
            body = await reader.readexactly(int(headers.get("Content-Length") or 0))
            return web.Response(status=status, body=body, headers={"Content-Type": headers.get_content_type()})
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        request.protocol.set_parser(_ClientData(writer))  # type: ignore[arg-type]  # all that it is asked for
        transport.write(head)
        while data := await reader.read(_CHUNK):
            transport.write(data)
            await request.protocol._drain_helper()
        transport.close()
        return web.Response()  # the connection is gone
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError from error
    finally:
        with contextlib.suppress(OSError):
            writer.close()


def _request_head(request: web.BaseRequest, identity: Sequence[tuple[str, str]]) -> bytes:
    headers = [(name, value) for name, value in request.headers.items() if not is_identity_header(name.lower())]
    lines = [f"{request.method} {request.raw_path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (*headers, *identity)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


_HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "te"})
# aiohttp would add these by itself: where the client did not send one, the proxy does not either.
_AUTOMATIC_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_STREAMED_RESOURCES = frozenset({"pods/log", "pods/proxy", "services/proxy", "nodes/proxy"})


@dataclass(frozen=True, slots=True)
class Route:
    """The way of a client's requests: the connections to the server, and the headers that name the user there."""

    session: aiohttp.ClientSession
    server: str
    identity: Sequence[tuple[str, str]]  # headers
    connect: Connect  # to the server, for what is no request and answer


@dataclass(frozen=True, slots=True)
class _ServerResponse:
    """A response of the server, whole or still being read."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes | aiohttp.StreamReader


class ProxyService:
    """The handler of requests, for an aiohttp server. All but the plan is used in that server's loop only."""

    def __init__(self, route: Callable[[web.BaseRequest], Route], kill: Callable[[], None] | None = None) -> None:
        self.requests: list[Recorded] = []
        self._route = route
        self._kill = kill
        self._clock = LeaseClock()
        self._open_requests = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._plan_lock = threading.Lock()
        self._plan, self._state = Plan(), State()
        self._plan_changed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self._open_requests or self._tasks)

    def set_plan(self, plan: Plan) -> None:
        """Set the plan, from any thread. What the last one holds goes on after `release_held` in the loop."""
        with self._plan_lock:
            self._plan, self._state = plan, State()

    def release_held(self) -> None:
        """Let the requests and responses go on that the last plan holds."""
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()

    def _decide(self, call: Call) -> tuple[Act, ...]:
        with self._plan_lock:
            acts, self._state = decide(self._plan, self._state, call)
            return acts

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._open_requests += 1
        try:
            body = await request.content.read()
            call = Call.of(request.method, request.raw_path, request.headers.get("User-Agent", ""), body)
            return await _Exchange(self, request, body, call, self._decide(call)).run()
        except (aiohttp.ClientError, CutError, OSError):
            return _abort_connection(request)
        finally:
            self._open_requests -= 1

    async def _run_to_end(self, work: Coroutine[Any, Any, _ServerResponse]) -> _ServerResponse:
        """Complete a request, also when the client closes its connection before that."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return await asyncio.shield(task)

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the client may be gone, and then the error is of no use

    async def _hold(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._plan_changed.wait()


class _Exchange:
    """One request and its response."""

    def __init__(
        self, service: ProxyService, request: web.BaseRequest, body: bytes, call: Call, acts: tuple[Act, ...]
    ) -> None:
        self._service = service
        self._request = request
        self._body = body
        self._call = call
        self._acts = acts
        self._shapes = any(isinstance(act, OnAnswer) for act in acts)
        self._skew = sum(act.seconds for act in acts if isinstance(act, SkewLeases) and call.resource == "leases")
        self._empty = call.verb == "list" and any(isinstance(act, EmptyList) for act in acts)
        self._began = time.monotonic()

    async def run(self) -> web.StreamResponse:
        for act in self._acts:
            match act:
                case Delay(seconds=seconds):
                    await self._service._hold(seconds)
                case Answer():
                    return self._respond(act)
                case Break():
                    self._record(0)
                    return _abort_connection(self._request)
                case Kill(before=True):
                    self._record(0)
                    return self._kill_client()
                case _:  # for what comes after
                    pass
        route = self._service._route(self._request)
        if "upgrade" in self._request.headers.get("Connection", "").lower():
            return await tunnel(self._request, route.connect, route.identity, self._record)
        if self._call.verb == "watch" or self._call.resource in _STREAMED_RESOURCES:
            async with self._request_server(route) as response:
                return await self._forward(_ServerResponse(response.status, response.headers, response.content))
        return await self._forward(await self._service._run_to_end(self._read_whole(route)))

    def _request_server(self, route: Route) -> _RequestContextManager:
        content, headers = self._body, forwarded_headers(self._request.headers)
        headers.extend(route.identity)
        if self._shapes or self._skew or self._empty:  # what is to be changed has to be read: as JSON, not compressed
            headers["Accept"] = json_accept(headers.get("Accept", ""))
            headers["Accept-Encoding"] = "identity"
        if content and self._skew:
            content = self._service._clock.store(content)
            headers.pop("Content-Length", None)
        url = URL(route.server + self._request.raw_path, encoded=True)
        return route.session.request(
            self._request.method, url, headers=headers, data=content or None, skip_auto_headers=_AUTOMATIC_HEADERS
        )

    async def _read_whole(self, route: Route) -> _ServerResponse:
        async with self._request_server(route) as response:
            return _ServerResponse(response.status, response.headers, await response.read())

    async def _forward(self, received: _ServerResponse) -> web.StreamResponse:
        self._record(received.status)
        for act in self._acts:
            if isinstance(act, Kill):
                return self._kill_client()
            if isinstance(act, Lose):
                return _abort_connection(self._request)
        headers = forwarded_headers(received.headers)
        if isinstance(received.body, bytes):
            is_emptied = self._empty and received.status == 200
            body = self._skew_leases(_empty_list(received.body) if is_emptied else received.body)
            headers["Content-Length"] = str(len(body))
            if not self._shapes:
                return web.Response(status=received.status, headers=headers, body=body)
            pieces = _single_piece(body)
        elif self._call.verb == "watch" and (self._shapes or self._skew):
            pieces = self._events(received.body)
        else:
            pieces = received.body.iter_any()
        response = web.StreamResponse(status=received.status, headers=headers)
        await response.prepare(self._request)
        if self._shapes:
            pieces = ResponseShape(self._acts, self._call.verb == "watch", self._service._hold).apply(pieces)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    async def _events(self, content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        async for line in read_lines(content.iter_any()):
            yield self._skew_leases(line) + b"\n"

    def _skew_leases(self, document: bytes) -> bytes:
        return self._service._clock.show(document, self._skew) if self._skew else document

    def _respond(self, act: Answer) -> web.Response:
        self._record(act.status)
        headers = {} if act.retry_after is None else {"Retry-After": str(act.retry_after)}
        body = orjson.dumps(status_object(act.status, act.message, act.retry_after))
        return web.Response(status=act.status, headers=headers, body=body, content_type="application/json")

    def _kill_client(self) -> web.Response:
        if self._service._kill is not None:
            self._service._kill()
        return _abort_connection(self._request)

    def _record(self, code: int) -> None:
        seconds = time.monotonic() - self._began
        acts = tuple(act.kind for act in self._acts)
        self._service.requests.append(Recorded(self._call, code, seconds, acts))


def forwarded_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers without those of a connection, and without those that name the user: they are the route's."""
    return CIMultiDict((name, value) for name, value in headers.items() if not _is_left_out_header(name.lower()))


def _is_left_out_header(name: str) -> bool:
    return name in _HOP_HEADERS or is_identity_header(name)


def json_accept(accept: str) -> str:
    """Return the kinds of JSON that a client accepts; clients of Kubernetes go by what they get."""
    kinds = [kind.strip() for kind in accept.split(",") if kind.strip().startswith("application/json")]
    return ",".join(kinds) or "application/json"


def _abort_connection(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)  # the connection is gone


async def _single_piece(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _empty_list(document: bytes) -> bytes:
    """Return a list with its items removed, and without a link to further ones."""
    listing = orjson.loads(document)
    metadata = {name: value for name, value in listing.get("metadata", {}).items() if name == "resourceVersion"}
    return orjson.dumps({**listing, "metadata": metadata, "items": []})
