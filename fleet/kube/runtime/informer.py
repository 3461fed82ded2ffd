"""Informers, which keep caches true to the server, and the pool of those that a process shares.

An informer is the list-and-watch loop (`fleet.kube.list_watch`) into a cache, which keeps what it has until a new list
is complete. An informer ends only when it is cancelled: missing rights and kinds may come, so it asks again, ever more
seldom.

The pool has one informer per kind, namespace and labels, shared by all controllers that need it and ended with the last
of them. Informers run beside everything else. Networks and servers do not end them, so one that ends by itself has a
fault of ours, and that ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from fleet.errors import AccessError, FleetError
from fleet.kube.client import errors
from fleet.kube.client.client import Client
from fleet.kube.client.limits import Patience
from fleet.kube.list_watch import EventKind, Interruption, ListWatch, WatchEvent
from fleet.kube.objects import ObjectScope
from fleet.kube.runtime.cache import Cache, Name
from fleet.kube.runtime.memory_budget import REST_SECONDS, MemoryBudget, Share, TooMuchError
from fleet.objects.resource import Resource

SILENCE = 100.0
RECONNECT = Patience(first=0.2, most=30.0)
LATE = 30.0  # seconds after which a watch that does not go on counts as none

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Informer:
    """One cache and the state of its watch. `problem` is what keeps it from going on; None when all is well.

    `turns` are called whenever that may have changed, and when the cache is complete.
    """

    client: Client
    cache: Cache
    silence: float = SILENCE
    patience: Patience = RECONNECT
    streams_lists: bool = True
    share: Share = field(default_factory=Share)  # of the memory for its namespace
    problem: FleetError | None = None
    since: float = 0.0  # when the problem began
    turns: list[Callable[[], None]] = field(default_factory=list)
    lists: int = 0
    loop: ListWatch = field(init=False)

    def __post_init__(self) -> None:
        labels = ",".join(f"{name}={value}" for name, value in self.cache.labels.items())
        scope = ObjectScope(self.cache.resource, self.cache.namespace, labels=labels)
        self.loop = ListWatch(self.client, scope, self.silence, self.patience, self.streams_lists)

    async def run(self) -> None:
        """Keep the cache true to the server until cancelled."""
        while True:
            try:
                async with contextlib.aclosing(self.loop.events()) as events:
                    async for event in events:
                        self._take(event)
            except TooMuchError as much:
                self.cache.clear()
                self.loop.version = ""
                self._set_problem(much)
                log.warning("%s: %s", self, much.message)
                await asyncio.sleep(REST_SECONDS)

    def __str__(self) -> str:
        plural, namespace = self.cache.resource.plural, self.cache.namespace
        return f"{plural} in {namespace}" if namespace else plural

    def denied_for(self, now: float) -> float:
        """Return for how many seconds the server has refused to list or watch; 0 if it does not refuse."""
        return now - self.since if isinstance(self.problem, AccessError) else 0.0

    @property
    def is_watching(self) -> bool:
        """Return whether the cache has all objects, as far as is known. A watch that broke a moment ago counts."""
        return self.cache.synced and (self.problem is None or time.monotonic() - self.since < LATE)

    @property
    def reason(self) -> str:
        """Return the problem in the server's own words, if it gave a reason for a refusal."""
        context = errors.request_context("GET", self.cache.resource.collection(self.cache.namespace))
        return (
            self.problem.message.removeprefix(f"{self.client.place}: no right to {context}: ") if self.problem else ""
        )

    def _take(self, event: WatchEvent | Interruption) -> None:
        if isinstance(event, Interruption):
            if event.problem:
                self._set_problem(event.problem)
            if self.problem and event.failures in (1, 10, 100):
                log.warning("%s: %s", self, self.problem.message)
            return
        match event.kind:
            case EventKind.LISTING:
                self.cache.begin()
            case EventKind.LISTED | EventKind.CHANGED:
                if self.share.is_limited:
                    self.share.put(Name.of(event.object), event.size or len(orjson.dumps(event.object)))
                self.cache.put(event.object)
            case EventKind.DELETED:
                self.share.remove(Name.of(event.object))
                self.cache.remove(event.object)
            case EventKind.BOOKMARK:
                self.cache.advance(event.version)
            case EventKind.COMPLETE:
                self._complete(event.version)
                return
        if self.loop.version:  # until the list is complete nothing is well
            self._well()

    def _complete(self, version: str) -> None:
        first = not self.cache.synced
        self.cache.finish(version)
        if self.share.is_limited:
            self.share.keep(set(self.cache.names()))
        self.lists += 1
        self._well(turned=first)

    def _well(self, *, turned: bool = False) -> None:
        if self.problem:
            log.info("%s: watching again", self)
        if self.problem or turned:
            self.problem = None
            self._turn()

    def _set_problem(self, problem: FleetError) -> None:
        if type(self.problem) is not type(problem):
            self.since = time.monotonic()
        self.problem = problem
        self._turn()

    def _turn(self) -> None:
        for turn in list(self.turns):
            turn()


_What = tuple[Resource, str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Shared:
    """An informer, its task, and how many use it."""

    follower: Informer
    task: asyncio.Task[None]
    users: int = 0


class InformerPool:
    """Informers of a process, shared by their users.

    Each `use` is followed by one `leave`. `failed` is done when one of the informers broke.
    """

    def __init__(self, client: Client, manager: str, silence: float = SILENCE) -> None:
        self._client = client
        self._manager = manager
        self._silence = silence
        self._shared: dict[_What, _Shared] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __iter__(self) -> Iterator[Informer]:
        return iter([shared.follower for shared in self._shared.values()])

    def use(
        self, resource: Resource, namespace: str, labels: Mapping[str, str], budget: MemoryBudget | None = None
    ) -> Informer:
        """Return the informer of these objects, and start it if there is none.

        `budget` is for a new informer; a later user takes an existing one with the budget that it has.
        """
        key = (resource, namespace, tuple(sorted(labels.items())))
        shared = self._shared.get(key)
        if shared is None:
            cache = Cache(resource, namespace=namespace, labels=labels, manager=self._manager)
            informer = Informer(self._client, cache, self._silence, share=Share(budget))
            shared = self._shared[key] = _Shared(informer, asyncio.create_task(informer.run()))
            shared.task.add_done_callback(self._note_end)
        shared.users += 1
        return shared.follower

    def leave(self, follower: Informer) -> None:
        """Give an informer back; the last user to do so ends its watch, and its cache is gone with it."""
        key, shared = next((w, s) for w, s in self._shared.items() if s.follower is follower)
        shared.users -= 1
        if not shared.users:
            del self._shared[key]
            self._ending.add(shared.task)
            shared.task.cancel()

    async def close(self) -> None:
        tasks = [shared.task for shared in self._shared.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._ending, return_exceptions=True)
        self.failed.cancel()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and not self.failed.done():
            self.failed.set_exception(problem)
