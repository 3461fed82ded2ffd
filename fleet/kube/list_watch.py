"""The list-and-watch loop, on which everything rests that follows objects of a cluster.

It lists, watches from there, goes on where a broken watch left off, and lists again when the server has forgotten that
point (410). The list comes in pages, or streamed as the beginning of the watch where that is asked for and the server
can (Kubernetes 1.32 and newer), since then neither side holds the whole of it at once. Silence is not trusted:
bookmarks come each minute, so a connection that is silent for longer is dead, whatever TCP thinks.

The loop ends only with its reader. What interrupts it is one of its events, and the reader decides what may pass.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import orjson

from fleet.errors import FleetError, ResourceError
from fleet.kube.client import limits
from fleet.kube.client.client import Client, StreamRefusedError
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.limits import Patience
from fleet.kube.objects import ListExpiredError, ObjectScope, pages

GONE = 410
END_OF_LIST = "k8s.io/initial-events-end"
LONG_ENOUGH = 5.0  # a watch that ends sooner and brought nothing was not ended in the usual course
WATCH_SECONDS = (240, 300)  # a server ends a watch after a while; not all of ours at the same moment


class EventKind(Enum):
    LISTING = auto()  # a list begins; one that had begun before is void
    LISTED = auto()
    COMPLETE = auto()  # the list has all objects
    CHANGED = auto()
    DELETED = auto()
    BOOKMARK = auto()  # nothing changed until this version


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What happened to an object, or to the list."""

    kind: EventKind
    object: dict[str, Any] = field(default_factory=dict)
    size: int = 0  # bytes of the object, if they are known
    version: str = ""  # from which a watch goes on, of a complete list and a bookmark


@dataclass(frozen=True, slots=True)
class Interruption:
    """What keeps the loop from going on; another try follows, ever later.

    `problem` is None if the list has to begin again; with `lasts`, the server refused for a reason that seldom passes.
    """

    failures: int  # in succession
    problem: FleetError | None
    lasts: bool = False


class _ForgottenError(Exception):
    """Error for a point to go on from that the server does not know any more."""


_BREAKS = (_ForgottenError, ListExpiredError, StreamRefusedError, FleetError, OSError, orjson.JSONDecodeError)


@dataclass(slots=True)
class ListWatch:
    """The loop over the objects of a scope, and the point that it has reached ("": the list has to begin)."""

    client: Client
    scope: ObjectScope
    silence: float
    patience: Patience = limits.DEFAULT
    streams_lists: bool = False
    version: str = ""
    _has_advanced: bool = False  # whether this try brought anything to go on from

    async def events(self) -> AsyncGenerator[WatchEvent | Interruption, None]:
        """Yield the objects, then their changes, without end."""
        failures = 0
        while True:
            self._has_advanced, began = False, time.monotonic()
            broken: Exception | None = None
            try:
                if not self.version:
                    yield WatchEvent(EventKind.LISTING)
                if self.version or self.streams_lists:
                    async with self.client.stream(self._watch_path(), silence=self.silence) as answer:
                        async for line in answer.lines():
                            if event := self._read_event(line):
                                yield event
                else:
                    version = ""
                    async for page in pages(self.client, self.scope):
                        version = page["metadata"]["resourceVersion"]
                        for item in page["items"]:
                            yield WatchEvent(EventKind.LISTED, item)
                    yield self._complete(version)
                if self._has_advanced or time.monotonic() - began > LONG_ENOUGH:
                    failures = 0
                    continue  # the server ended the watch, as it does every few minutes
            except _BREAKS as problem:
                broken = problem
            failures = 1 if self._has_advanced else failures + 1
            yield self._interruption(failures, broken)
            retry_after = broken.retry_after if isinstance(broken, StreamRefusedError) else None
            await asyncio.sleep(limits.retry_delay(min(failures, 20), retry_after, self.patience))

    def _interruption(self, failures: int, broken: Exception | None) -> Interruption:
        """Return what a try that broke means for the reader, and take in what it means for the next try."""
        problem, lasts = None, False
        match broken:
            case None:
                pass  # it ended at once, and brought nothing
            case _ForgottenError() | ListExpiredError() | StreamRefusedError(status=410):
                self.version = ""
            case StreamRefusedError(status=400 | 422) if self.streams_lists and not self.version:
                self.streams_lists = False  # the server cannot
            case StreamRefusedError():
                problem = broken.error
                lasts = broken.status != limits.OVERLOADED and broken.status not in limits.UNSETTLED
            case FleetError():
                problem, lasts = broken, True
            case BrokenError():
                problem = ResourceError(str(broken))
            case _:
                problem = ResourceError(f"{type(broken).__name__}: {broken}".rstrip(": "))
        return Interruption(failures, problem, lasts)

    def _watch_path(self) -> str:
        """Return the path of a watch from the point that was reached; if there is none, it begins with a list."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self.version}
        query["timeoutSeconds"] = str(random.randint(*WATCH_SECONDS))  # noqa: S311 - jitter
        if not self.version:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return self.scope.path(**query)

    def _read_event(self, line: bytes) -> WatchEvent | None:
        """Return the event of a line, None if it means nothing; go on from its version if the list is complete."""
        event = orjson.loads(line)
        try:
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                if item.get("code") == GONE:
                    raise _ForgottenError
                raise BrokenError(ValueError(str(item.get("message") or kind)))
            version, annotations = item["metadata"]["resourceVersion"], item["metadata"].get("annotations") or {}
        except (KeyError, TypeError, AttributeError) as problem:
            raise BrokenError(ValueError(f"the watch has an event that is none: {line[:80]!r}")) from problem
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise BrokenError(ValueError(f"the watch has an event of type {kind}"))
        is_listed = not self.version
        if kind == "BOOKMARK" and is_listed:
            return self._complete(version) if annotations.get(END_OF_LIST) == "true" else None
        if not is_listed:
            self.version, self._has_advanced = version, True
        if kind == "BOOKMARK":
            return WatchEvent(EventKind.BOOKMARK, version=version)
        if kind == "DELETED":
            return WatchEvent(EventKind.DELETED, item)
        return WatchEvent(EventKind.LISTED if is_listed else EventKind.CHANGED, item, len(line))

    def _complete(self, version: str) -> WatchEvent:
        self.version, self._has_advanced = version, True
        return WatchEvent(EventKind.COMPLETE, version=version)
