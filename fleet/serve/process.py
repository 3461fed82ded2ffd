"""Process of `fleet serve`: services of several repositories, leader election, endpoints, and an orderly end.

Replicas share a Lease in the management cluster. A replica that does not hold it stands by, answers the endpoints and
does nothing else. Without a Lease there is one process, and the Lease of each stack keeps it and the command line
apart.

Webhooks of forges come to /hooks/github, /hooks/gitlab and /hooks/gitea. Each is checked for its signature with the
secret that was given to the forge, and is believed only as far as this: something happened, so the service looks at the
repository now instead of with its next poll. Without a secret no webhook is accepted.

A sender is known only when the whole body has arrived, so a stranger can fill the memory with bodies. A body without a
signature is not read; all others have so many seconds, and so many bytes together. When these bytes are spent, the
largest body is given up: a stranger's, since what forges send is small.

Log lines are text for users at a terminal, and JSON for programs: one object per line with the same message.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from fleet.errors import AccessError, FleetError
from fleet.forge import FORGES
from fleet.forge.forge import Event, ForgeRepository
from fleet.forge.webhook import MOST_BYTES, check_headers, read_event
from fleet.kube.concurrency import end_tasks
from fleet.kube.runtime.guard import GuardedClient
from fleet.kube.runtime.leader import Election, Lease
from fleet.kube.runtime.metrics import Counter, Labels, ReadMetric, exposition
from fleet.kube.runtime.operator import limit_tls_buffers, serving
from fleet.repository.repository import identity_of_url
from fleet.serve.commits import CommitReader, EvaluatingReader, FollowedRepository
from fleet.serve.options import SHARED, RepositoryScope, ServeOptions
from fleet.serve.report.metrics import Metrics
from fleet.serve.report.pages import PAGES_PREFIX, page_response
from fleet.serve.service import Service
from fleet.text import escape_json, printable, without_credentials

HOOKS_PREFIX = "/hooks/"
SECONDS = 15.0  # for a body; forges wait for 10 themselves
IN_FLIGHT = 48 * 1024 * 1024  # bytes of bodies that have not arrived whole

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class WebhookBody:
    """Body of one webhook, as far as it has arrived."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    given_up: bool = False


@dataclass(slots=True)
class WebhookBodies:
    """Bodies of all connections that are being read."""

    most: int = IN_FLIGHT
    size: int = 0
    _read: set[WebhookBody] = field(default_factory=set)

    def add(self, body: WebhookBody, part: bytes) -> None:
        """Keep a part; if all bodies are too much together, give up the largest."""
        if body.given_up:
            return
        self._read.add(body)
        body.parts.append(part)
        body.size += len(part)
        self.size += len(part)
        while self.size > self.most:
            largest = max(self._read, key=lambda other: other.size)
            largest.given_up = True
            self.drop(largest)

    def drop(self, body: WebhookBody) -> None:
        """Forget a body, whether it was read to its end or not."""
        if body in self._read:
            self._read.remove(body)
            self.size -= body.size
        body.size = 0
        body.parts.clear()


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Endpoint for webhooks: `heard` is called with each event that a forge really sent."""

    secret: str
    hear: Callable[[Event], None]
    counted: Counter
    bodies: WebhookBodies = field(default_factory=WebhookBodies)
    seconds: float = SECONDS

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Read, check and answer one request."""
        name = request.path.removeprefix(HOOKS_PREFIX)
        if request.method != "POST" or name not in FORGES or not self.secret:
            *paths, last = (f"{HOOKS_PREFIX}{forge}" for forge in FORGES)
            return self._respond(404, "unknown", f"hooks are POSTs to {', '.join(paths)} and {last}")
        headers = dict(request.headers)
        try:
            check_headers(name, headers, self.secret)
            if (request.content_length or 0) > MOST_BYTES:
                return self._respond(413, "refused", "too long")
            body = await self._body(request)
            if isinstance(body, web.Response):
                return body
            event = read_event(name, headers, body, self.secret)
        except AccessError as problem:
            log.warning("a webhook from %s was refused: %s", request.remote, problem.message)
            return self._respond(403, "refused", problem.message)
        except FleetError as problem:
            return self._respond(400, "unreadable", problem.message)
        if event is None:
            return self._respond(200, "ignored", "nothing to do")
        self.hear(event)
        return self._respond(202, "heard", "thank you")

    async def _body(self, request: web.BaseRequest) -> bytes | web.Response:
        """Return the whole body, or the response to one that is too long, too slow, or the largest of too many."""
        body = WebhookBody()
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.content.iter_any():
                    self.bodies.add(body, part)
                    if body.given_up:
                        return self._respond(503, "refused", "too much at once: send it again later")
                    if body.size > MOST_BYTES:
                        return self._respond(413, "refused", "too long")
            if body.given_up:
                return self._respond(503, "refused", "too much at once: send it again later")
            return b"".join(body.parts)
        except (ConnectionError, web.PayloadAccessError, web.RequestPayloadError):
            return self._respond(400, "refused", "it broke off")
        except TimeoutError:
            return self._respond(408, "refused", f"it did not come within {self.seconds:g} s")
        finally:
            self.bodies.drop(body)

    def _respond(self, status: int, result: str, text: str) -> web.Response:
        """Count a result and return the response; after an error the connection is closed."""
        self.counted.labels(result).inc()
        response = web.Response(status=status, text=text)
        if status >= 400:
            response.force_close()
        return response


def matching_repositories(
    repository: ForgeRepository, origins: Sequence[FollowedRepository]
) -> list[FollowedRepository]:
    """Return the followed repositories that are this repository of a forge.

    When none is, return all of them: the service may know it by another address.
    """
    path = f"/{repository.path}".lower()
    return [origin for origin in origins if identity_of_url(origin.url).lower().endswith(path)] or list(origins)


NAME = "fleet-serve"
LAST_WORDS = 10.0  # seconds to write what is not in git yet, at the end


@dataclass(slots=True)
class ServeProcess:
    """Process that runs one service per repository: `await ServeProcess(origins, options).run()`.

    It runs until SIGTERM or SIGINT, or `stop()`.
    """

    origins: Sequence[FollowedRepository]
    options: ServeOptions
    listen: tuple[str, int] | None = None
    management: GuardedClient | None = None  # the cluster with the Lease and with kubeconfigs in Secrets
    lease: Lease | None = None
    webhook_secret: str = field(default="", repr=False)
    reading: Callable[[], CommitReader] = EvaluatingReader  # of each repository
    metrics: Metrics = field(default_factory=Metrics)
    scopes: Mapping[str, RepositoryScope] = field(
        default_factory=dict
    )  # by address; empty: all repositories share everything
    services: list[Service] = field(default_factory=list)
    address: tuple[str, int] | None = None  # where it listens, once it does
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _leads: bool = False
    _bodies: WebhookBodies = field(default_factory=WebhookBodies)

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        limit_tls_buffers()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._measure()
        async with contextlib.AsyncExitStack() as stack:
            if self.listen is not None:
                self.address = await stack.enter_async_context(serving(self.listen, self._answer))
                log.info("listening at %s:%d", *self.address)
            options = self.options
            if self.management is not None:
                client = await stack.enter_async_context(self.management)
                options = replace(options, management=client)
                if self.lease is not None:
                    await Election(client, self.lease).run(lambda: self._lead(options), self._stop)
                    return
            await self._lead(options)

    async def _lead(self, options: ServeOptions) -> None:
        """Run the services until they end or the process is stopped, then let them write their last reports."""
        scopes = [(origin, self.scopes.get(origin.address, SHARED)) for origin in self.origins]
        self.services = [
            Service(origin, replace(options, scope=scope), self.metrics, self.reading()) for origin, scope in scopes
        ]
        self._leads = True
        running = [asyncio.create_task(service.run()) for service in self.services]
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leads = False
            await end_tasks(*running, stopping)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                for service in self.services:
                    await service.last_words()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        match request.path:
            case "/healthz":
                return web.Response(text="ok")
            case "/readyz":
                waiting = self._waiting()
                return web.Response(status=503 if waiting else 200, text=f"waiting for {waiting}" if waiting else "ok")
            case "/metrics":
                return web.Response(body=exposition(self.metrics.all()), content_type="text/plain", charset="utf-8")
        if request.path.startswith(PAGES_PREFIX):
            pages = (service.page(request.path) for service in self.services)
            return page_response(next((page for page in pages if page), None), leads=self._leads)
        return await Webhooks(self.webhook_secret, self._hear, self.metrics.hooks, self._bodies).answer(request)

    def _hear(self, event: Event) -> None:
        """Pass an event on to its services; a process that stands by leaves that to the leader's next poll."""
        origins = matching_repositories(event.repository, self.origins)
        for service in self.services if self._leads else ():
            if service.origin in origins:
                service.hear(event)

    def _waiting(self) -> str:
        """Return the repositories that are not ready, as text. A process that stands by is ready to take over."""
        return ", ".join(str(service.origin) for service in self.services if not service.ready) if self._leads else ""

    def _measure(self) -> None:
        """Set the metrics that are read from the services when they are asked for."""

        def health() -> Iterable[tuple[Labels, float]]:
            return [sample for service in self.services for sample in service.health()]

        def revision() -> Iterable[tuple[Labels, float]]:
            commits = [(service.origin, service.current.evaluated) for service in self.services]
            return [((str(origin), commit.revision), 1.0) for origin, commit in commits if commit]

        def broken() -> Iterable[tuple[Labels, float]]:
            return [((str(service.origin),), 1.0 if service.current.error else 0.0) for service in self.services]

        def leads() -> Iterable[tuple[Labels, float]]:
            return [((), 1.0 if self._leads else 0.0)]

        stack = ("repository", "stack", "cluster", "health")
        self.metrics.gauges = [
            ReadMetric("fleet_stack_health", "1 for the health that a stack has in a cluster.", stack, health),
            ReadMetric("fleet_revision_info", "The newest good commit.", ("repository", "revision"), revision),
            ReadMetric("fleet_repository_broken", "1 if the newest commit cannot be read.", ("repository",), broken),
            ReadMetric("leader_election_master_status", "1 while this process leads.", (), leads),
        ]


FIELDS = ("repository", "stack", "cluster", "revision", "sync", "health", "evaluated", "pull_request")


class JsonLines(logging.Formatter):
    """Formatter of log lines as JSON; the `extra` fields of a record become fields of the object."""

    def format(self, record: logging.LogRecord) -> str:
        import orjson  # noqa: PLC0415 - with the first line

        moment = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(without_credentials(record.getMessage())),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escape_json(orjson.dumps(line, default=str).decode())


def log_to_stderr(form: str, *, verbose: bool) -> None:
    """Set up the log on standard error.

    `form` is "json", "text", or "auto" for text at a terminal and JSON elsewhere.
    """
    handler = logging.StreamHandler(sys.stderr)
    if form == "json" or (form == "auto" and not sys.stderr.isatty()):
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
