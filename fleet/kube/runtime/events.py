"""Events for users of `kubectl describe`: one per happening, counted when it repeats.

The first is written at once; repetitions only raise its count, and that at most every half minute: a pass that fails a
thousand times is one line, not a thousand writes. Events are news, not state: writing them never delays or fails a
pass, and an event that cannot be written is lost.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.errors import FleetError
from fleet.kube.client.client import Client
from fleet.kube.runtime.guard import NotLeadingError
from fleet.objects.resource import Resource

EVENTS = Resource("events.k8s.io", "v1", "Event", "events", True)
EVERY = 30.0
FORGET = 360.0  # seconds without repetition after which the next one is a new happening
MOST = 4096
LONGEST_NOTE = 1024  # the API's limit

log = logging.getLogger(__name__)
Happening = tuple[str, str, str, str, str]


@dataclass(slots=True)
class _Series:
    """One happening and its repetitions, as one Event."""

    path: str
    body: dict[str, Any]
    count: int = 1
    written: int = 0
    last: float = 0.0
    due: float = 0.0


class Recorder:
    """Recorder of events: `record(object, "Resized", "3 → 5 members")` takes one, `run()` and `flush()` write them."""

    def __init__(
        self, client: Client, controller: str, instance: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._known: OrderedDict[Happening, _Series] = OrderedDict()
        self._unwritten: dict[str, _Series] = {}  # by path
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()

    def record(
        self, regarding: dict[str, Any], reason: str, note: str, *, action: str = "Reconcile", warning: bool = False
    ) -> None:
        """Count a happening, to be written by `run`."""
        metadata = regarding["metadata"]
        kind = "Warning" if warning else "Normal"
        happening = (metadata.get("uid", ""), kind, reason, action, note)
        now = self._clock()
        series = self._known.get(happening)
        if series is None or now - series.last > FORGET:
            series = self._known[happening] = self._new(regarding, happening, now)
        else:
            series.count += 1
        series.last = now
        self._known.move_to_end(happening)
        self._unwritten[series.path] = series
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        if len(self._unwritten) > MOST:
            del self._unwritten[next(iter(self._unwritten))]
        self._news.set()

    def pending(self, *, all_of_them: bool = False) -> list[_Series]:
        """Return what is to be written now: new events, and those whose count rose half a minute or more ago."""
        now = self._clock()
        return [series for series in self._unwritten.values() if all_of_them or series.due <= now]

    async def run(self) -> None:
        """Write events as they come, until cancelled."""
        while True:
            self._news.clear()
            async with self._writing:
                for series in self.pending():
                    await self._write(series)
            soonest = min((series.due for series in self._unwritten.values()), default=None)
            pause = None if soonest is None else max(0.0, soonest - self._clock())
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def flush(self) -> None:
        """Write all events that are not written yet."""
        async with self._writing:  # also waits for what `run` is writing
            for series in self.pending(all_of_them=True):
                await self._write(series)

    def _new(self, regarding: dict[str, Any], happening: Happening, now: float) -> _Series:
        metadata = regarding["metadata"]
        _, kind, reason, action, note = happening
        namespace = metadata.get("namespace") or "default"
        name = f"{metadata['name'][:230]}.{time.time_ns():x}"
        reference = {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata.get("uid", ""),
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _now(),
            "reportingController": self._controller,
            "reportingInstance": self._instance[:128],
            "action": action[:128],
            "reason": reason[:128],
            "type": kind,
            "note": note[:LONGEST_NOTE],
            "regarding": {field: value for field, value in reference.items() if value},
        }
        return _Series(EVENTS.path(namespace, name), body, due=now)

    async def _write(self, series: _Series) -> None:
        if self._unwritten.pop(series.path, None) is None:
            return  # dropped meanwhile: there were too many
        count, first = series.count, not series.written
        series.written = count
        series.due = self._clock() + EVERY
        if count > 1:
            series.body["series"] = {"count": count, "lastObservedTime": _now()}
        try:
            if not first:
                patch = {"series": series.body["series"]}
                answer = await self._client.request(
                    "PATCH", series.path, body=patch, content_type="application/merge-patch+json", expect=(404,)
                )
                first = answer.status == 404  # the server has dropped it: events live for an hour
            if first:
                await self._client.request(
                    "POST", EVENTS.collection(series.body["metadata"]["namespace"]), body=series.body, expect=(409,)
                )
        except (FleetError, NotLeadingError) as problem:
            log.info("an event was not written: %s", problem)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
