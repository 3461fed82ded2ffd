"""Informers, which keep caches true to the server, and the pool of those that a process shares.

An informer lists, watches, and starts again where that is needed. The list is streamed as the beginning of a watch
where the server can (Kubernetes 1.32 and newer), since then neither side holds the whole of it at once; else it comes
in pages. A broken watch goes on where it was; one whose point the server has forgotten (410) lists again, and the cache
keeps what it has until the new list is complete. Silence is not trusted: bookmarks come each minute, so a connection
that is silent for longer is dead, whatever TCP thinks. An informer ends only when it is cancelled: missing rights and
kinds may come, so it asks again, ever more seldom.

The pool has one informer per kind, namespace and labels, shared by all controllers that need it and ended with the last
of them. Informers run beside everything else. Networks and servers do not end them, so one that ends by itself has a
fault of ours, and that ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from fleet.errors import AccessError, FleetError, ResourceError
from fleet.kube.client import errors, limits
from fleet.kube.client.client import Client, StreamRefusedError
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.limits import Patience
from fleet.kube.discovery import Resource
from fleet.kube.objects import ListExpiredError, Scope, pages
from fleet.kube.runtime.cache import Cache, Name
from fleet.kube.runtime.memory_budget import REST_SECONDS, MemoryBudget, Share, TooMuchError

SILENCE = 100.0
RECONNECT = Patience(first=0.2, most=30.0)
GONE = 410
NOT_UNDERSTOOD = frozenset({400, 422})  # answers of servers that cannot stream lists
END_OF_LIST = "k8s.io/initial-events-end"
LATE = 30.0  # seconds after which a watch that does not go on counts as none
LONG_ENOUGH = 5.0  # a watch that ends sooner and brought nothing was not ended in the usual course
WATCH_SECONDS = (240, 300)  # a server ends a watch after a while; not all of ours at the same moment

log = logging.getLogger(__name__)


class _ForgottenError(Exception):
    """Error for a point to go on from that the server does not know any more."""


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
    _progress: int = 0  # count of reports from watches: a watch without any is retried ever more seldom
    _version: str = ""

    async def run(self) -> None:
        """Keep the cache true to the server until cancelled."""
        failures = 0
        while True:
            progress, began = self._progress, time.monotonic()
            try:
                if self._version or self.streams_lists:
                    await self._watch()
                else:
                    await self._list()
                if self._progress > progress or time.monotonic() - began > LONG_ENOUGH:
                    failures = 0
                    continue  # the server ended the watch, as it does every few minutes
            except (_ForgottenError, ListExpiredError):
                self._version = ""
            except StreamRefusedError as refused:
                await self._refused(refused)
            except (OSError, orjson.JSONDecodeError) as broken:
                self._failed(ResourceError(f"{type(broken).__name__}: {broken}".rstrip(": ")))
            except TooMuchError as much:
                self.cache.clear()
                self._version = ""
                self._failed(much)
                log.warning("%s: %s", self, much.message)
                await asyncio.sleep(REST_SECONDS)
                continue
            except FleetError as error:
                self._failed(error)
            failures = 1 if self._progress > progress else failures + 1
            if self.problem and failures in (1, 10, 100):
                log.warning("%s: %s", self, self.problem.message)
            await asyncio.sleep(limits.retry_delay(min(failures, 20), None, self.patience))

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
    def said(self) -> str:
        """Return the problem in the server's own words, if it gave a reason for a refusal."""
        context = errors.asked("GET", self.cache.resource.collection(self.cache.namespace))
        return (
            self.problem.message.removeprefix(f"{self.client.place}: no right to {context}: ") if self.problem else ""
        )

    @property
    def _scope(self) -> Scope:
        labels = ",".join(f"{name}={value}" for name, value in self.cache.labels.items())
        return Scope(self.cache.resource, self.cache.namespace, labels=labels)

    async def _list(self) -> None:
        self.cache.begin()
        version = ""
        async for page in pages(self.client, self._scope):
            version = page["metadata"]["resourceVersion"]
            for item in page["items"]:
                if self.share.is_limited:
                    self.share.put(Name.of(item), len(orjson.dumps(item)))
                self.cache.put(item)
        self._complete(version)

    def _complete(self, version: str) -> None:
        first = not self.cache.synced
        self.cache.finish(version)
        if self.share.is_limited:
            self.share.keep(set(self.cache.names()))
        self._version = version
        self.lists += 1
        self._well(turned=first)

    async def _watch(self) -> None:
        """Follow one watch to its end. It begins with a list if there was none yet."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self._version}
        query["timeoutSeconds"] = str(random.randint(*WATCH_SECONDS))  # noqa: S311 - jitter
        if not self._version:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            self.cache.begin()
        async with self.client.stream(self._scope.path(**query), silence=self.silence) as body:
            async for line in body.lines():
                self._take(orjson.loads(line), len(line))

    def _take(self, event: dict[str, Any], size: int) -> None:
        item = event["object"]
        match event["type"]:
            case "ADDED" | "MODIFIED":
                self.share.put(Name.of(item), size)
                self.cache.put(item)
            case "DELETED":
                self.share.remove(Name.of(item))
                self.cache.remove(item)
            case "BOOKMARK" if not self._version:
                if item["metadata"].get("annotations", {}).get(END_OF_LIST) == "true":
                    self._complete(item["metadata"]["resourceVersion"])
                return
            case "BOOKMARK":
                self.cache.advance(item["metadata"]["resourceVersion"])
            case "ERROR" if item.get("code") == GONE:
                raise _ForgottenError
            case _:
                raise BrokenError(ValueError(str(item.get("message") or event["type"])))
        if self._version:  # until the list is complete there is nothing to go on from
            self._version = item["metadata"]["resourceVersion"]
            self._well()

    def _well(self, *, turned: bool = False) -> None:
        self._progress += 1
        if self.problem:
            log.info("%s: watching again", self)
        if self.problem or turned:
            self.problem = None
            self._turn()

    def _failed(self, problem: FleetError) -> None:
        if type(self.problem) is not type(problem):
            self.since = time.monotonic()
        self.problem = problem
        self._turn()

    def _turn(self) -> None:
        for turn in list(self.turns):
            turn()

    async def _refused(self, refused: StreamRefusedError) -> None:
        if refused.status == GONE:
            self._version = ""
        elif refused.status in NOT_UNDERSTOOD and not self._version and self.streams_lists:
            self.streams_lists = False
        else:
            self._failed(refused.error)


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
            shared.task.add_done_callback(self._ended)
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

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and not self.failed.done():
            self.failed.set_exception(problem)
