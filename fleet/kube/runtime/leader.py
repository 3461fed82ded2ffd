"""Leader election: one of several processes leads, the holder of a Lease, as in all Kubernetes controllers.

The others stand by with warm caches. How long a holder has been silent is measured by each candidate with its own
clock, from when it saw the last renewal, so clocks of machines may differ. The holder's guard shuts a good while
before: at a third of the Lease's time before another may take it, counted from when the renewal was *sent*.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import random
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import FleetError
from fleet.kube.concurrency import end_tasks
from fleet.kube.resources import LEASES
from fleet.kube.runtime.guard import GuardedClient, now

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """Name and times of a Lease: the times are controller-runtime's unless given otherwise."""

    namespace: str
    name: str
    seconds: float = 15.0  # of silence after which another process may take it
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}")
    annotations: Mapping[str, str] = field(default_factory=dict)  # of the Lease, while this process holds it

    @property
    def shut_after(self) -> float:
        return self.seconds * 2 / 3

    @property
    def renew_every(self) -> float:
        return self.seconds * 2 / 15


class Election:
    """Election by a Lease: `await Election(client, lease).run(lead, stop)`.

    Runs `lead()` while this process leads, until `stop`.

    `lead` ends by itself soon after `stop`; it is cancelled when the Lease is lost, and started anew when it is won
    again.
    """

    def __init__(self, client: GuardedClient, lease: Lease) -> None:
        self._client = client
        self._lease = lease
        self._path = LEASES.path(lease.namespace, lease.name)
        self._object: dict[str, Any] | None = None
        self._seen: tuple[Any, float] = (None, 0.0)  # the last renewal that this process read, and when
        self.leads = False
        client.guard.exempt = frozenset({self._path, LEASES.collection(lease.namespace)})
        client.guard.shut()

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
        """Stand by and lead in turn, until `stop`."""
        while await self._stand_by(stop):
            log.info("leading as %s", self._lease.identity)
            if await self._lead(lead):
                return

    async def _lead(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run `lead` while the Lease is ours. Return True if it ended by itself, False if the Lease was lost."""
        self.leads = True
        leading, renewing = asyncio.create_task(lead()), asyncio.create_task(self._renew())
        try:
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done() and not leading.done():
                self._client.guard.shut()  # before the rest: tasks that are being cancelled may still write
                log.warning("no longer leading: %s", renewing.result())
                return False
            return True
        finally:
            self.leads = False
            lost = renewing.done()
            try:
                await end_tasks(leading, renewing)
            finally:
                self._client.guard.shut()
                if not lost:
                    await self._release()

    async def _stand_by(self, stop: asyncio.Event) -> bool:
        """Wait until this process leads and return True; return False if it was asked to stop before."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(self._lease.seconds):
                    if await self._try():
                        return True
            except (FleetError, TimeoutError) as problem:
                log.warning("cannot take part in the election: %s", str(problem) or "no answer in time")
            pause = self._lease.renew_every * random.uniform(1.0, 1.2)  # noqa: S311 - jitter
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)
        return False

    async def _try(self) -> bool:
        """Take the Lease if it is free or its holder has been silent for too long; return whether it is ours."""
        response = await self._client.request("GET", self._path, expect=(404,), urgent=True)
        if response.status == 404:
            sent = now()
            body: dict[str, Any] = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "spec": self._spec({})}
            body["metadata"] = {"name": self._lease.name, "namespace": self._lease.namespace}
            if self._lease.annotations:
                body["metadata"]["annotations"] = dict(self._lease.annotations)
            path = LEASES.collection(self._lease.namespace)
            answer = await self._client.request("POST", path, body=body, expect=(409,), urgent=True)
            return answer.status == 201 and self._took(answer.body, sent)
        self._object = response.body
        spec = response.body.get("spec") or {}
        renewal = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if renewal != self._seen[0]:
            self._seen = (renewal, now())
        silence = max(self._lease.seconds, float(spec.get("leaseDurationSeconds") or 0))
        if spec.get("holderIdentity") in (None, "", self._lease.identity):
            return await self._write()
        return now() - self._seen[1] >= silence and await self._write()

    async def _write(self, *, holder: str | None = None) -> bool:
        """Take, renew or give back the Lease that was last read; return False if another process holds it.

        If the Lease has changed since and is still ours, this process renewed it, and the answer came too late. It is
        written once more: how long a renewal holds is counted from when it was sent, and for that renewal the time is
        unknown.
        """
        for _ in range(2):
            assert self._object is not None  # noqa: S101 - it was read before
            sent = now()
            metadata = {name: value for name, value in self._object["metadata"].items() if name != "managedFields"}
            if self._lease.annotations:
                metadata["annotations"] = {**(metadata.get("annotations") or {}), **self._lease.annotations}
            body = {**self._object, "metadata": metadata, "spec": self._spec(self._object.get("spec") or {}, holder)}
            answer = await self._client.request("PUT", self._path, body=body, expect=(404, 409), urgent=True)
            if answer.status == 200:
                return self._took(answer.body, sent)
            response = await self._client.request("GET", self._path, expect=(404,), urgent=True)
            if response.status == 404 or response.body["spec"].get("holderIdentity") != self._lease.identity:
                return False
            self._object = response.body
        return False

    def _took(self, lease: dict[str, Any], sent: float) -> bool:
        self._object = lease
        if lease["spec"].get("holderIdentity"):
            self._client.guard.open_until(sent + self._lease.shut_after)
        return True

    def _spec(self, before: dict[str, Any], holder: str | None = None) -> dict[str, Any]:
        moment = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = before.get("holderIdentity") == self._lease.identity
        return {
            "holderIdentity": self._lease.identity if holder is None else holder,
            "leaseDurationSeconds": max(1, round(self._lease.seconds)),
            "acquireTime": before.get("acquireTime", moment) if ours else moment,
            "renewTime": moment,
            "leaseTransitions": before.get("leaseTransitions", 0) + (0 if ours or not before else 1),
        }

    async def _renew(self) -> str:
        """Renew the Lease until it is lost, and return why."""
        while True:
            await asyncio.sleep(self._lease.renew_every)
            try:
                async with asyncio.timeout(min(self._lease.seconds / 3, self._client.guard.remaining)):
                    if not await self._write():
                        return "another process took the Lease"
            except (FleetError, TimeoutError) as problem:
                if not self._client.guard.is_open:
                    return f"the Lease could not be renewed in time: {str(problem) or 'no answer'}"
            if not self._client.guard.is_open:
                return "this process was held up for too long"

    async def _release(self) -> None:
        """Give the Lease back, so that another process need not wait.

        A failure is no error: the Lease ends by itself.
        """
        with contextlib.suppress(FleetError, TimeoutError):
            async with asyncio.timeout(self._lease.seconds / 3):
                await self._write(holder="")
        self._seen = (None, now())
