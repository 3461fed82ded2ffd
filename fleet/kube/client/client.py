"""The client of one cluster, and the account that it acts as.

A client has one pool of connections (`client.pool`) for its reads, writes and watches, bounded concurrency, patience
with a busy server, and errors that say where. Requests and answers are bytes and plain dicts; nothing here knows kinds.
aiohttp (`client.session`) is loaded for commands in pods only.

Requests are sent as the kubeconfig's `as` says, or as a service account of its own for each stack (`impersonate`). The
account holds for a block of code and the tasks started in it, so that a stack's objects are read, written and watched
with the rights of that account, and inventories and Leases, which are fleet's, with fleet's own. A server takes one
name per request, and the account's replaces all that the kubeconfig says.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from fleet.errors import FleetError
from fleet.kube.client import errors, limits
from fleet.kube.client.connection import Check, StreamedResponse
from fleet.kube.client.credentials import Credentials
from fleet.kube.client.errors import BrokenError, RequestTarget, find_complaints, may_pass
from fleet.kube.client.kubeconfig import Headers
from fleet.kube.client.limits import ConcurrencyLimit, Patience
from fleet.kube.client.pool import ConnectionPool, allow
from fleet.kube.client.response import RawResponse
from fleet.version import __version__

if TYPE_CHECKING:
    import aiohttp

    from fleet.kube.client.session import Session
    from fleet.kube.discovery import Discovery

_ACCOUNT: ContextVar[str] = ContextVar("account", default="")


@contextmanager
def impersonate(account: str) -> Iterator[None]:
    """Send the requests of this block as `account`, "namespace/name"; as ourselves if it is ""."""
    token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


def impersonation_headers(own: Headers) -> Headers:
    """Return the headers that name the account; `own`, those of the kubeconfig, if there is none.

    The server adds the groups of a service account itself.
    """
    namespace, _, name = _ACCOUNT.get().partition("/")
    return {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"} if name else own


UNAUTHORIZED = 401
USER_AGENT = f"fleet/{__version__}"
CONCURRENCY = 32  # of a small API server's 400 or 600 seats; more gains nothing there, measured
FIRST_CONTACT = Patience(seconds=3.0)  # for a cluster that was never reached, so that the user learns it soon


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: status and decoded body.

    With `repeated`, an earlier try got no answer, so the effect may be the one of that try.
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    repeated: bool = False


class Client:
    """Connection to one cluster: `async with Client.of(kubeconfig, context) as client:`."""

    def __init__(
        self,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        cluster: str = "",
        in_cluster: bool = False,
        concurrency: int = CONCURRENCY,
        patience: Patience = limits.DEFAULT,
        agent: str = USER_AGENT,
    ) -> None:
        self.cluster = cluster or context or ""
        self._kubeconfig = kubeconfig
        self._context = context
        self._in_cluster = in_cluster
        self._patience = patience
        self._agent = agent
        self._gate = ConcurrencyLimit(concurrency)
        self.concurrency = concurrency
        self._credentials: Credentials | None = None
        self._pool: ConnectionPool | None = None
        self._session: Session | None = None
        self._outdated: list[Session] = []
        self._renewal = asyncio.Lock()
        self._reached = False
        self._dated: tuple[str | None, float] = (None, 0.0)
        self._discovery: Discovery | None = None
        self.place = RequestTarget(self.cluster, "", context or "")

    @classmethod
    def of(cls, kubeconfig: Path | str | None = None, context: str | None = None, **rest: Any) -> Client:
        """Make a client from a kubeconfig (None: as kubectl finds it) and a context (None: its current one)."""
        return cls(kubeconfig=Path(kubeconfig) if kubeconfig else None, context=context, **rest)

    async def __aenter__(self) -> Self:
        self._credentials = await (
            Credentials.in_cluster()
            if self._in_cluster
            else Credentials.from_kubeconfig(self._kubeconfig, self._context)
        )
        self.cluster = self.cluster or self._credentials.context
        self.place = RequestTarget(self.cluster, self._credentials.server, self._credentials.context)
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._shut()
        self._credentials = None
        while self._outdated:
            await self._outdated.pop().close()

    def _open(self) -> None:
        """Make connections with the present credentials. Requests under way end on the old ones."""
        self._shut()
        credentials = self._open_credentials
        self._pool = ConnectionPool(
            credentials.server,
            credentials.tls,
            credentials.server_name,
            self._headers,
            credentials.proxy,
            compressed=not credentials.is_compression_disabled,
        )

    def _shut(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = None
        if self._session is not None:
            self._outdated.append(self._session)
        self._session = None

    @property
    def _connections(self) -> ConnectionPool:
        if self._pool is None:
            raise RuntimeError("the client is not open: use it as `async with Client.of(…) as client`")
        return self._pool

    @property
    def _headers(self) -> Headers:
        return {"User-Agent": self._agent, "Accept": "application/json"}

    def _aiohttp(self) -> Session:
        from fleet.kube.client.session import Session  # noqa: PLC0415 - slow to load, see there

        if self._session is None:
            self._session = Session(self._open_credentials, self._headers)
        return self._session

    async def discovery(self) -> Discovery:
        """Return the kinds that this server serves, which are read once."""
        from fleet.kube.discovery import discover  # noqa: PLC0415 - it uses the client

        if self._discovery is None:
            self._discovery = await discover(self)
        return self._discovery

    def forget_discovery(self) -> None:
        """Let the next `discovery` ask the server again."""
        self._discovery = None

    def server_time(self) -> datetime.datetime:
        """Return the time of the server's clock, to a second or so.

        Leases are judged by it, whatever the clocks of the machines say.
        """
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - for Leases only

        date, received = self._dated
        if date is None:
            return datetime.datetime.now(tz=datetime.UTC)
        return parsedate_to_datetime(date) + datetime.timedelta(seconds=time.monotonic() - received)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        accept: str | None = None,
        expect: Collection[int] = (),
        urgent: bool = False,
    ) -> Response:
        """Send a request, again while that may help, and return an answer that is a success or in `expect`.

        Raise a FleetError for every other status and if no answer came in time. An `urgent` request (renewing a Lease)
        does not wait for the concurrency limit.
        """
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        headers: Headers = {}
        if data is not None:
            headers["Content-Type"] = content_type
        if accept is not None:
            headers["Accept"] = accept
        began = time.monotonic()
        attempt, renewed, repeated = 0, False, False
        while True:
            attempt += 1
            try:
                async with contextlib.nullcontext() if urgent else self._gate:
                    status, answer_headers, raw, _ = await self._once(method, path, data, headers)
            except OSError as problem:  # TimeoutError is one
                wait = limits.retry_delay(attempt, None, self._patience)
                if not may_pass(problem) or self._out_of_patience(began, wait):
                    raise errors.error_of_connection(
                        self.place, errors.request_context(method, path), problem
                    ) from problem
                repeated = repeated or not isinstance(problem, BrokenError) or problem.sent
                await asyncio.sleep(wait)
                continue
            self._reached = True
            self._dated = (answer_headers.get("Date"), time.monotonic())
            if status < 300:
                self._gate.widen()
                return Response(status, _decode(raw), answer_headers, repeated)
            if status == UNAUTHORIZED and not renewed:
                renewed = True
                await self._renew(headers)
                continue
            if 300 <= status < 400:
                location = answer_headers.get("Location") or ""
                raise errors.error_of_redirect(self.place, errors.request_context(method, path), status, location)
            if status in expect:
                return Response(status, _decode(raw), answer_headers, repeated)
            if status == limits.OVERLOADED:
                self._gate.narrow()
            wait = limits.retry_delay(attempt, limits.retry_after(answer_headers.get("Retry-After")), self._patience)
            if status == 500 and find_complaints(status, errors.error_text(_decode(raw))):
                raise errors.error_of_response(self.place, errors.request_context(method, path), status, _decode(raw))
            if not limits.is_worth_retrying(status, attempt, self._patience) or self._out_of_patience(began, wait):
                raise errors.error_of_response(self.place, errors.request_context(method, path), status, _decode(raw))
            repeated = repeated or status in limits.UNSETTLED
            await asyncio.sleep(wait)

    async def _once(
        self, method: str, path: str, data: bytes | None, headers: Headers, check: Check = allow
    ) -> RawResponse:
        """Send a request once; before each piece of a write goes out, `check` is called."""
        headers = await self._add_credentials(headers)
        if method == "GET":
            return await self._connections.read(path, headers)
        return await self._connections.write(method, path, data or b"", headers, check)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, *, silence: float) -> AsyncIterator[StreamedResponse]:
        """Yield the answer to a watch, whose body is read as it comes; a silence of that many seconds ends it.

        A watch does not count towards the concurrency limit. Raise StreamRefusedError if the server answers with an
        error, BrokenError or TimeoutError if there is no answer.
        """
        async with contextlib.AsyncExitStack() as stack:
            headers = await self._add_credentials({})
            response = await stack.enter_async_context(self._connections.stream(path, headers, silence))
            if response.status == UNAUTHORIZED:
                await self._renew(headers)
                headers = await self._add_credentials({})
                response = await stack.enter_async_context(self._connections.stream(path, headers, silence))
            if response.status >= 300:
                context, body = errors.request_context("GET", path), _decode(await response.read())
                if response.status < 400:
                    location = response.headers.get("Location") or ""
                    raise errors.error_of_redirect(self.place, context, response.status, location)
                error = errors.error_of_response(self.place, context, response.status, body)
                raise StreamRefusedError(
                    response.status, error, limits.retry_after(response.headers.get("Retry-After"))
                )
            yield response

    @contextlib.asynccontextmanager
    async def websocket(self, path: str, protocols: Sequence[str]) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Yield a connection both ways, for commands in pods. It does not count towards the concurrency limit."""
        import aiohttp  # noqa: PLC0415 - slow to load, see session

        context, renewed = errors.request_context("GET", path), False
        async with contextlib.AsyncExitStack() as stack:
            while True:
                headers = await self._add_credentials({"Accept": "*/*"})  # a request for JSON is refused
                try:
                    socket = await stack.enter_async_context(self._aiohttp().websocket(path, headers, protocols))
                    break
                except aiohttp.WSServerHandshakeError as refused:
                    if refused.status == UNAUTHORIZED and not renewed:
                        renewed = True
                        await self._renew(headers)
                        continue
                    # This answer has no body. To a plain request the server gives the reason, and runs nothing.
                    answer = await self.request("GET", path, accept="*/*", expect=(refused.status,))
                    raise errors.error_of_response(self.place, context, refused.status, answer.body) from refused
                except OSError as problem:
                    raise errors.error_of_connection(self.place, context, problem) from problem
            yield socket

    async def _add_credentials(self, headers: Headers) -> Headers:
        """Return the headers with the credentials and the account, which every request has, however it is sent."""
        credentials = self._open_credentials
        if credentials.is_expired:
            await self._renew(self._proof(credentials))
        headers.update(impersonation_headers(credentials.impersonation))
        headers.update(self._proof(credentials))
        return headers

    @staticmethod
    def _proof(credentials: Credentials) -> Headers:
        token = credentials.authorization
        return {"Authorization": token} if token else {}

    async def _renew(self, used: Headers) -> None:
        """Renew the credentials, once for all requests that were refused with the old ones."""
        credentials = self._open_credentials
        async with self._renewal:
            if credentials.authorization != used.get("Authorization") and not credentials.is_expired:
                return
            if await credentials.renew():
                self._open()

    def _out_of_patience(self, begun: float, wait: float) -> bool:
        patience = self._patience if self._reached else min(self._patience, FIRST_CONTACT, key=lambda p: p.seconds)
        return time.monotonic() - begun + wait > patience.seconds

    @property
    def _open_credentials(self) -> Credentials:
        if self._credentials is None:
            raise RuntimeError("the client is not open: use it as `async with Client.of(…) as client`")
        return self._credentials


class StreamRefusedError(Exception):
    """Error for a watch that was answered with a status instead of events; 410 means: list again."""

    def __init__(self, status: int, error: FleetError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.retry_after = retry_after  # seconds that the server asks for


def _decode(raw: bytes) -> Any:
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError:
        return raw  # plain text, from the server's outer layers or from a proxy
