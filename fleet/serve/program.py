"""The process: several repositories, one leader of its replicas, endpoints to ask it at, and an orderly end.

Replicas share a Lease in the management cluster. Whoever does not hold it stands by, answers the endpoints and does
nothing else. Without a Lease there is one process, and the Lease of each stack keeps it and the command line apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aiohttp import web

from fleet.forge.model import Event
from fleet.kube.runtime.ending import end
from fleet.kube.runtime.frugal import keep_buffers_small
from fleet.kube.runtime.guard import GuardedClient
from fleet.kube.runtime.leader import Election, Lease
from fleet.kube.runtime.metrics import Gauge, Labels, exposition
from fleet.kube.runtime.serving import serving
from fleet.serve.happenings import Metrics
from fleet.serve.hooks import Bodies, Hooks, meant
from fleet.serve.manner import Manner
from fleet.serve.origin import Origin
from fleet.serve.pages import PREFIX, answered
from fleet.serve.reading import Evaluating, Reading
from fleet.serve.scope import SHARED, Scope
from fleet.serve.service import Service

NAME = "fleet-serve"
LAST_WORDS = 10.0  # seconds for what is not written into git yet, at the end

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Program:
    """`asyncio.run(Program(origins, manner).run())`: until SIGTERM or SIGINT, or `stop()`."""

    origins: Sequence[Origin]
    manner: Manner
    listen: tuple[str, int] | None = None
    management: GuardedClient | None = None  # the cluster with the Lease and with kubeconfigs in Secrets
    lease: Lease | None = None
    webhook_secret: str = field(default="", repr=False)
    reading: Callable[[], Reading] = Evaluating  # of each repository
    metrics: Metrics = field(default_factory=Metrics)
    scopes: Mapping[str, Scope] = field(default_factory=dict)  # by address; empty: all share everything
    services: list[Service] = field(default_factory=list)
    address: tuple[str, int] | None = None  # where it listens, once it does
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _leads: bool = False
    _bodies: Bodies = field(default_factory=Bodies)

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        keep_buffers_small()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._measure()
        async with contextlib.AsyncExitStack() as stack:
            if self.listen is not None:
                self.address = await stack.enter_async_context(serving(self.listen, self._answer))
                log.info("listening at %s:%d", *self.address)
            manner = self.manner
            if self.management is not None:
                client = await stack.enter_async_context(self.management)
                manner = replace(manner, management=client)
                if self.lease is not None:
                    await Election(client, self.lease).run(lambda: self._lead(manner), self._stop)
                    return
            await self._lead(manner)

    async def _lead(self, manner: Manner) -> None:
        scoped = [(one, replace(manner, scope=self.scopes.get(one.address, SHARED))) for one in self.origins]
        self.services = [Service(origin, its, self.metrics, self.reading()) for origin, its in scoped]
        self._leads = True
        running = [asyncio.create_task(service.run()) for service in self.services]
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leads = False
            await end(*running, stopping)
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
                return web.Response(text=exposition(self.metrics.all()))
        if request.path.startswith(PREFIX):
            found = (one.page(request.path) for one in self.services)
            return answered(next((page for page in found if page), None), leads=self._leads)
        return await Hooks(self.webhook_secret, self._heard, self.metrics.hooks, self._bodies).answer(request)

    def _heard(self, event: Event) -> None:
        """What a forge says is a reason to look; a process that stands by leaves that to the leader's next poll."""
        origins = meant(event.repository, self.origins)
        for service in self.services if self._leads else ():
            if service.origin in origins:
                service.hear(event)

    def _waiting(self) -> str:
        """For what, in words; a process that stands by is ready to take over."""
        return ", ".join(str(one.origin) for one in self.services if not one.ready) if self._leads else ""

    def _measure(self) -> None:
        def health() -> Iterable[tuple[Labels, float]]:
            return [each for one in self.services for each in one.health()]

        def revision() -> Iterable[tuple[Labels, float]]:
            return [((str(one.origin), one.current.revision), 1.0) for one in self.services if one.current]

        def broken() -> Iterable[tuple[Labels, float]]:
            return [((str(one.origin),), 1.0 if one.problem else 0.0) for one in self.services]

        def leads() -> Iterable[tuple[Labels, float]]:
            return [((), 1.0 if self._leads else 0.0)]

        stack = ("repository", "stack", "cluster", "health")
        self.metrics.gauges = [
            Gauge("fleet_stack_health", "1 for the health that a stack has in a cluster.", stack, health),
            Gauge("fleet_revision_info", "The newest good commit.", ("repository", "revision"), revision),
            Gauge("fleet_repository_broken", "1 if the newest commit cannot be read.", ("repository",), broken),
            Gauge("leader_election_master_status", "1 while this process leads.", (), leads),
        ]
