"""A process of controllers: their shared caches, the election, events, metrics, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from aiohttp import web

from fleet.kube.runtime.controller import Controller
from fleet.kube.runtime.ending import end
from fleet.kube.runtime.events import Recorder
from fleet.kube.runtime.follow import SILENCE, Follower
from fleet.kube.runtime.following import Following
from fleet.kube.runtime.frugal import keep_buffers_small
from fleet.kube.runtime.guard import GuardedClient
from fleet.kube.runtime.instruments import Instruments
from fleet.kube.runtime.leader import Election, Lease
from fleet.kube.runtime.limits import interrupting, limit_memory
from fleet.kube.runtime.metrics import exposition
from fleet.kube.runtime.serving import serving
from fleet.kube.system import LEASES
from fleet.kube.together import together

log = logging.getLogger(__name__)
FLUSH_SECONDS = 5.0


class Operator:
    """`await Operator("greeter", [controller]).run(client)`, or `.main()` as a program. Once each.

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
        self.followers: list[Follower] = []  # of what is watched from the beginning
        self.address: tuple[str, int] | None = None  # where the metrics are, once they are
        self._lease = lease
        self._metrics = metrics
        self._silence = silence
        self._sync_seconds = sync_seconds
        self._election: Election | None = None
        self._stop = asyncio.Event()
        self._began = 0.0
        self._instruments = Instruments(
            {one.name: one.queue for one in controllers},
            {one.name: one.workers for one in controllers},
            self._leads,
            self._watched,
        )

    def stop(self) -> None:
        """Let passes under way end, give the Lease back, and return from `run`."""
        self._stop.set()

    async def run(self, client: GuardedClient) -> None:
        """Until `stop`, or an error that no patience helps with."""
        instance = self._lease.identity if self._lease else f"{socket.gethostname()}_{os.getpid()}"
        recorder = Recorder(client, self.name, instance)
        self._election = Election(client, self._lease) if self._lease else None  # from here on the guard is shut
        following = Following(client, self.name, self._silence)
        for controller in self.controllers:
            controller.connect(client, recorder, following, self._instruments, self.name)
        self.followers = list(following)
        recording = asyncio.create_task(recorder.run())
        work = asyncio.create_task(self._work(client, recorder))
        try:
            await asyncio.wait({work, recording, following.failed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                await end(work, recording, following.failed)
            finally:
                for controller in self.controllers:
                    await controller.disconnect()
                await following.close()

    def main(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        """As a program: in a pod with its service account, elsewhere with a kubeconfig; ends at SIGTERM or SIGINT."""

        async def program() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            in_cluster = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
            options = {"kubeconfig": kubeconfig, "context": context, "in_cluster": in_cluster, "agent": self.name}
            with interrupting(loop):
                async with GuardedClient(**options) as client:
                    await self.run(client)

        keep_buffers_small()
        limit_memory()
        asyncio.run(program())

    async def _work(self, client: GuardedClient, recorder: Recorder) -> None:
        async with self._serving(client):
            self._began = time.monotonic()
            if not await self._can_begin(self.controllers, recorder):
                return

            async def lead() -> None:
                await together(self._control(controller, recorder) for controller in self.controllers)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_SECONDS):
                        await recorder.flush()

            await (self._election.run(lead, self._stop) if self._election else lead())

    def _watched(self) -> dict[str, bool]:
        """Return the names, as kubectl has them, of what is watched in all namespaces."""
        return {one.cache.resource.title: one.is_watching for one in self.followers}

    def _leads(self) -> bool:
        return self._election.leads if self._election else self._lease is None

    async def _control(self, controller: Controller, recorder: Recorder) -> None:
        """Run a controller as soon as it sees its world. One that does not see it holds up no other, and says so."""
        if await self._can_begin([controller], recorder):
            self._tell(controller, recorder)  # begun without a part of what it watches, perhaps
            await controller.run(self._stop)

    async def _can_begin(self, controllers: Sequence[Controller], recorder: Recorder) -> bool:
        """Wait until one of them sees its world; False when the process was told to stop before."""
        told = self._began
        while not self._stop.is_set():
            now = time.monotonic()
            late = now > self._began + self._sync_seconds
            if any(one.may_begin(late=late) for one in controllers):
                return True
            if now > told + self._sync_seconds:
                told = now
                for one in controllers:
                    self._tell(one, recorder)
            await asyncio.sleep(0.5 if late else 0.02)
        return False

    def _tell(self, controller: Controller, recorder: Recorder) -> None:
        for one in controller.unwatched:
            why = one.problem.message if one.problem else "the list is not complete"
            note = f"{one} cannot be watched: {why}; what {controller.name} does waits for that, all else goes on"
            log.warning("%s", note)
            if self._lease is not None:
                metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
                lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
                recorder.record(lease, "NotWatched", note, action="Watch", warning=True)

    @contextlib.asynccontextmanager
    async def _serving(self, client: GuardedClient) -> AsyncIterator[None]:
        """/metrics, /healthz (the process runs) and /readyz (its caches are filled)."""
        if self._metrics is None:
            yield
            return

        async def handle(request: web.BaseRequest) -> web.Response:
            if request.path == "/metrics":
                return web.Response(text=exposition([*self._instruments.all(), client.sent]))
            if request.path == "/readyz":
                waiting = [str(one) for one in self.followers if not one.is_watching]
                return web.Response(status=503 if waiting else 200, text=f"waiting for {waiting}" if waiting else "ok")
            return web.Response(status=200 if request.path == "/healthz" else 404, text="ok")

        async with serving(self._metrics, handle) as self.address:
            yield
