"""One Lease per stack and cluster: only its holder may change the stack there.

Holders are the command line and the service alike.

A Lease that is held is renewed in the background. When it is lost, what runs under it is stopped at once, because
another process may be changing the stack already. Times are the API server's, so clocks of machines may differ.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import time
import uuid
from collections.abc import Callable
from typing import Any, Self

from fleet.errors import ConflictError, FleetError, ResourceError
from fleet.kube import identity
from fleet.kube.client.client import Client, Response
from fleet.kube.objects import delete
from fleet.kube.resources import LEASES, NAMESPACE, make_namespace

SECONDS = 30.0
GRACE = 3.0  # the server's clock is known to a second, and a renewal may be on its way
PROCESS = "fleet.dev/process"


class Lease:
    """`async with Lease(client, "orders", wait=60, on_wait=print):` – inside, the stack is ours in this cluster."""

    def __init__(
        self,
        client: Client,
        stack: str,
        *,
        wait: float = 0.0,
        on_wait: Callable[[str], None] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._client = client
        self._stack = stack
        self._wait = wait
        self._on_wait = on_wait
        self._seconds = seconds
        self._holder = f"{identity.name()} {uuid.uuid4().hex[:8]}"
        self._path = LEASES.path(NAMESPACE, stack)
        self._object: dict[str, Any] = {}
        self._renewal: asyncio.Task[None] | None = None
        self._loss: FleetError | None = None

    async def __aenter__(self) -> Self:
        await self._acquire()
        owner = asyncio.current_task()
        assert owner is not None  # noqa: S101 - a coroutine runs in a task
        self._renewal = asyncio.create_task(self._keep(owner))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewal
        if self._loss is not None:
            task = asyncio.current_task()
            if kind is asyncio.CancelledError and task is not None:
                task.uncancel()
            raise self._loss
        await self._release()

    async def _acquire(self) -> None:
        deadline = time.monotonic() + self._wait
        announced = ""
        while not await self._try():
            holder = holder_of(self._object)
            if time.monotonic() >= deadline:
                raise ConflictError(
                    f"{self._client.place}: stack {self._stack} is being changed by {holder}",
                    hint="wait until it is done; a sync that died gives way after half a minute",
                )
            if self._on_wait and announced != holder:
                announced = holder
                self._on_wait(holder)
            await asyncio.sleep(random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    async def _try(self) -> bool:
        """Take the Lease if it is free and return True; else return False.

        `_object` is then the other holder's Lease.
        """
        answer = await self._create()
        if answer is not None:
            self._object = answer
            return True
        response = await self._client.request("GET", self._path, expect=(404,))
        if response.status == 404:
            return await self._try()
        self._object = response.body
        if self._object["spec"].get("holderIdentity") == self._holder:
            return True  # an earlier try of this process, whose answer was lost
        if not self._is_free():
            return False
        return await self._write(taken=True)

    async def _create(self) -> dict[str, Any] | None:
        metadata = {
            "name": self._stack,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "fleet"},
            "annotations": {PROCESS: identity.identity()},
        }
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._spec({})}
        path = LEASES.collection(NAMESPACE)
        answer = await self._client.request("POST", path, body=body, expect=(404, 409))
        if answer.status == 404:
            await make_namespace(self._client)
            answer = await self._client.request("POST", path, body=body, expect=(409,))
        created: dict[str, Any] | None = answer.body if answer.status == 201 else None
        return created

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = self._client.server_time().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = before.get("holderIdentity") == self._holder
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": int(self._seconds),
            "acquireTime": before["acquireTime"] if ours else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0) + (0 if ours or not before else 1),
        }

    def _is_free(self) -> bool:
        spec = self._object["spec"]
        if not spec.get("holderIdentity") or not spec.get("renewTime"):
            return True
        if identity.is_dead(self._object["metadata"].get("annotations", {}).get(PROCESS, "")):
            return True
        renewed = datetime.datetime.fromisoformat(spec["renewTime"].replace("Z", "+00:00"))
        until = renewed + datetime.timedelta(seconds=spec.get("leaseDurationSeconds", SECONDS) + GRACE)
        return self._client.server_time() > until

    async def _write(self, *, taken: bool = False) -> bool:
        """Renew or take over the Lease that was last read. Return False if another process holds it.

        If the Lease has changed since and is still ours, this process renewed it and the answer came too late or never.
        """
        for _ in range(2):
            answer = await self._put(taken=taken)
            if answer.status == 200:
                self._object = answer.body
                return True
            response = await self._client.request("GET", self._path, expect=(404,), urgent=True)
            if response.status == 404 or response.body["spec"].get("holderIdentity") != self._holder:
                return False
            self._object = response.body
        return False

    async def _put(self, *, taken: bool) -> Response:
        metadata = dict(self._object["metadata"])
        metadata.pop("managedFields", None)
        if taken:
            metadata["annotations"] = {**metadata.get("annotations", {}), PROCESS: identity.identity()}
        body = {**self._object, "metadata": metadata, "spec": self._spec(self._object["spec"])}
        return await self._client.request("PUT", self._path, body=body, expect=(404, 409), urgent=True)

    async def _keep(self, owner: asyncio.Task[Any]) -> None:
        """Renew the Lease until cancelled; stop the owner when it was lost or could not be renewed in time."""
        renewed, pause = time.monotonic(), self._seconds / 3
        while True:
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(self._seconds / 6):
                    is_ours = await self._write()
            except (FleetError, TimeoutError) as problem:
                pause = self._seconds / 30  # try again soon: a third of the Lease's time is left for that
                if time.monotonic() - renewed < self._seconds * 2 / 3:
                    continue
                reason = str(problem) or "no answer in time"
                cause = f"it could not be renewed for {time.monotonic() - renewed:.0f} s: {reason}"
            else:
                renewed, pause = time.monotonic(), self._seconds / 3
                if is_ours:
                    continue
                cause = "somebody else took it"
            self._loss = ResourceError(
                f"{self._client.place}: the Lease of stack {self._stack} was lost, so the work was stopped: {cause}",
                hint="sync again: what was done is recorded, and the rest is planned anew",
            )
            owner.cancel()
            return

    async def _release(self) -> None:
        """Delete the Lease. A failure is no error: the Lease ends by itself."""
        metadata = self._object["metadata"]
        with contextlib.suppress(FleetError, TimeoutError):
            async with asyncio.timeout(5.0):
                await delete(
                    self._client,
                    LEASES,
                    NAMESPACE,
                    self._stack,
                    uid=metadata["uid"],
                    resource_version=metadata["resourceVersion"],
                )


def holder_of(lease: dict[str, Any]) -> str:
    """Return who holds the Lease since when, without the random part that tells two holds of one process apart."""
    spec = lease.get("spec", {})
    holder = str(spec.get("holderIdentity") or "nobody").rpartition(" ")[0] or spec.get("holderIdentity", "nobody")
    since = str(spec.get("acquireTime", "")).partition(".")[0].replace("T", " ")
    return f"{holder} since {since} UTC" if since else holder
