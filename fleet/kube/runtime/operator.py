"""The operator: a process of controllers, with shared caches, election, events, metrics, and an orderly end.

`serving` is the address at which a process answers how it is; one handler serves every path. Any client that reaches
the address may open connections and send nothing, or very much. So a connection that sends no complete header, or no
request, is closed after a while; of very many the oldest is closed for the newest, so that a probe of a kubelet is
always answered; and of a body that was not asked for, little is read.

`limit_tls_buffers` is for a process with hundreds of quiet connections: each watch has one, and it mostly waits.
asyncio gives every TLS connection a buffer of 256 KiB, zeroed and so really allocated, and asks OpenSSL for as much
with each read. A record of TLS has 16 KiB at most. Measured with 400 watches: 90 kB a connection instead of 335, and a
third less CPU time to open them. It holds for the whole process, which is why only `Operator.main` does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from asyncio import Transport, sslproto
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from fleet.errors import ConfigurationError
from fleet.kube.concurrency import end_tasks, gather
from fleet.kube.resources import LEASES
from fleet.kube.runtime.controller import Controller
from fleet.kube.runtime.events import Recorder
from fleet.kube.runtime.guard import GuardedClient
from fleet.kube.runtime.informer import SILENCE, Informer, InformerPool
from fleet.kube.runtime.leader import Election, Lease
from fleet.kube.runtime.metrics import exposition
from fleet.kube.runtime.outcome import Instruments
from fleet.kube.runtime.reconcile_limits import interrupting, limit_memory

Handle = Callable[[web.BaseRequest], Awaitable[web.Response]]
MOST_CONNECTIONS = 128
IDLE = 20.0  # seconds until a header is complete, and between two requests
LINGERING = 2.0  # seconds in which the rest of a refused body is read and dropped, so that the answer arrives
HEADERS, HEADER_BYTES = 48, 8190
BUFFER = 16 * 1024  # bytes of a body that are read ahead


class _Server(web.Server):
    """Server that keeps `MOST_CONNECTIONS` connections, the newest."""

    def connection_made(self, handler: RequestHandler, transport: Transport) -> None:
        super().connection_made(handler, transport)
        for oldest in self.connections[:-MOST_CONNECTIONS]:
            oldest.force_close()


@contextlib.asynccontextmanager
async def serving(address: tuple[str, int], handle: Handle) -> AsyncIterator[tuple[str, int]]:
    """Serve requests at an address while the block lasts, and yield the address that it really has (port 0 is any).

    Raise ConfigurationError if it cannot listen there.
    """
    server = _Server(
        handle,
        access_log=None,  # probes and scrapes never end, and their log would say nothing
        keepalive_timeout=IDLE,
        lingering_time=LINGERING,
        max_headers=HEADERS,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
        read_bufsize=BUFFER,
        auto_decompress=False,  # a small body could become a large one
    )
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, *address).start()
        except OSError as problem:
            raise ConfigurationError(f"cannot listen at {address[0]}:{address[1]}: {problem}") from problem
        host, port = runner.addresses[0][:2]
        yield host, port
    finally:
        await runner.cleanup()


TLS_RECORD = 16 * 1024


def limit_tls_buffers() -> None:
    """Limit asyncio's TLS buffers to one record, for the whole process."""
    sslproto.SSLProtocol.max_size = TLS_RECORD


log = logging.getLogger(__name__)
FLUSH_SECONDS = 5.0


class Operator:
    """A process of controllers: `await Operator("greeter", [controller]).run(client)`, or `.main()`; once.

    `name` is its field manager, its name in events and (with `main`) its user agent. With a `lease`, one of several
    processes works and the others stand by.
    """

    def __init__(
        self,
        name: str,
        controllers: Sequence[Controller],
        *,
        lease: Lease | None = None,
        metrics: tuple[str, int] | None = None,
        silence: float = SILENCE,
        sync_seconds: float = 120.0,
    ) -> None:
        self.name = name
        self.controllers = controllers
        self.followers: list[Informer] = []  # of the kinds that are watched from the beginning
        self.address: tuple[str, int] | None = None  # where the metrics are served; None before that
        self._lease = lease
        self._metrics = metrics
        self._silence = silence
        self._sync_seconds = sync_seconds
        self._election: Election | None = None
        self._stop = asyncio.Event()
        self._began = 0.0
        self._instruments = Instruments(
            {controller.name: controller.queue for controller in controllers},
            {controller.name: controller.workers for controller in controllers},
            self._leads,
            self._list_watched_kinds,
        )

    def stop(self) -> None:
        """Let passes under way end, give the Lease back, and return from `run`."""
        self._stop.set()

    async def run(self, client: GuardedClient) -> None:
        """Run the controllers until `stop`, or until an error that waiting cannot mend."""
        instance = self._lease.identity if self._lease else f"{socket.gethostname()}_{os.getpid()}"
        recorder = Recorder(client, self.name, instance)
        self._election = Election(client, self._lease) if self._lease else None  # from here on the guard is shut
        following = InformerPool(client, self.name, self._silence)
        for controller in self.controllers:
            controller.connect(client, recorder, following, self._instruments, self.name)
        self.followers = list(following)
        recording = asyncio.create_task(recorder.run())
        work = asyncio.create_task(self._work(client, recorder))
        try:
            await asyncio.wait({work, recording, following.failed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                await end_tasks(work, recording, following.failed)
            finally:
                for controller in self.controllers:
                    await controller.disconnect()
                await following.close()

    def main(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        """Run as a program, which ends at SIGTERM or SIGINT.

        It uses the pod's service account in a pod, elsewhere a kubeconfig.
        """

        async def program() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            in_cluster = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
            options = {"kubeconfig": kubeconfig, "context": context, "in_cluster": in_cluster, "agent": self.name}
            with interrupting(loop):
                async with GuardedClient(**options) as client:
                    await self.run(client)

        limit_tls_buffers()
        limit_memory()
        asyncio.run(program())

    async def _work(self, client: GuardedClient, recorder: Recorder) -> None:
        async with self._serving(client):
            self._began = time.monotonic()
            if not await self._can_begin(self.controllers, recorder):
                return

            async def lead() -> None:
                await gather(self._control(controller, recorder) for controller in self.controllers)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_SECONDS):
                        await recorder.flush()

            await (self._election.run(lead, self._stop) if self._election else lead())

    def _list_watched_kinds(self) -> dict[str, bool]:
        """Return, for each kind that is watched in all namespaces, by kubectl's name, whether it is being watched."""
        return {informer.cache.resource.title: informer.is_watching for informer in self.followers}

    def _leads(self) -> bool:
        return self._election.leads if self._election else self._lease is None

    async def _control(self, controller: Controller, recorder: Recorder) -> None:
        """Run a controller as soon as its caches are complete.

        One whose caches are not complete holds up no other, and reports that.
        """
        if await self._can_begin([controller], recorder):
            self._tell(controller, recorder)  # it may begin although a part of what it watches is missing
            await controller.run(self._stop)

    async def _can_begin(self, controllers: Sequence[Controller], recorder: Recorder) -> bool:
        """Wait until one of them may begin; return False if the process was told to stop before."""
        reported = self._began
        while not self._stop.is_set():
            now = time.monotonic()
            late = now > self._began + self._sync_seconds
            if any(controller.may_begin(late=late) for controller in controllers):
                return True
            if now > reported + self._sync_seconds:
                reported = now
                for controller in controllers:
                    self._tell(controller, recorder)
            await asyncio.sleep(0.5 if late else 0.02)
        return False

    def _tell(self, controller: Controller, recorder: Recorder) -> None:
        """Log what a controller cannot watch, and record an event about the Lease."""
        for informer in controller.unwatched_informers:
            why = informer.problem.message if informer.problem else "the list is not complete"
            note = f"{informer} cannot be watched: {why}; what {controller.name} does waits for that, all else goes on"
            log.warning("%s", note)
            if self._lease is not None:
                metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
                lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
                recorder.record(lease, "NotWatched", note, action="Watch", warning=True)

    @contextlib.asynccontextmanager
    async def _serving(self, client: GuardedClient) -> AsyncIterator[None]:
        """Serve /metrics, /healthz (the process runs) and /readyz (its caches are filled)."""
        if self._metrics is None:
            yield
            return

        async def handle(request: web.BaseRequest) -> web.Response:
            if request.path == "/metrics":
                return web.Response(
                    body=exposition([*self._instruments.all(), client.sent]), content_type="text/plain", charset="utf-8"
                )
            if request.path == "/readyz":
                waiting = [str(informer) for informer in self.followers if not informer.is_watching]
                return web.Response(status=503 if waiting else 200, text=f"waiting for {waiting}" if waiting else "ok")
            return web.Response(status=200 if request.path == "/healthz" else 404, text="ok")

        async with serving(self._metrics, handle) as self.address:
            yield
