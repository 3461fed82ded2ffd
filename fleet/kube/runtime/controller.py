"""The controller: one kind of object, what else its passes look at, and the function that reconciles it.

Its parts are in the modules beside: a change in a cache passes a predicate, is mapped to a key, waits in the queue and
becomes a pass; `outcome.classify` says what follows. Passes of one key never overlap, those of different keys do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fleet.errors import ConfigurationError, FleetError
from fleet.kube.concurrency import end_tasks
from fleet.kube.runtime.cache import Cache, Change, Index, Name, Object
from fleet.kube.runtime.events import Recorder
from fleet.kube.runtime.guard import GuardedClient
from fleet.kube.runtime.handlers import Predicate, generation_changed, itself, owner
from fleet.kube.runtime.informer import Informer, InformerPool
from fleet.kube.runtime.outcome import Instruments, Requeue, Result, TerminalError, classify
from fleet.kube.runtime.queue import LOW, NORMAL, Backoff, Item, Queue
from fleet.kube.runtime.reconcile_limits import REST_SECONDS, HeldError, in_pass
from fleet.kube.runtime.views import LINGER, View, Views, Watch
from fleet.kube.runtime.writer import Writer
from fleet.objects.resource import Resource

log = logging.getLogger(__name__)
Reconcile = Callable[["Request"], Awaitable[Result | None]]


class Request:
    """One pass: which object, what the caches know, and the means to write. Nothing of it outlives the pass.

    `blocked` is None, or why not all watched objects can be seen: say so in the object's status and change nothing
    else. The caches concerned raise it, so a pass that ignores it fails. When the reason is gone, there is another
    pass.
    """

    def __init__(self, controller: Controller, name: Name, attempt: int, view: View) -> None:
        self.name = name
        self.attempt = attempt  # 1, and more after failures in a row
        self.blocked: FleetError | None = view.blocked()  # a NoRightsError or NotSeenError
        self.write = Writer(controller.client, controller.manager, view.caches)
        self._controller = controller
        self._view = view

    @property
    def object(self) -> Object | None:
        """Return the object as last seen; None if it does not exist any more."""
        return self._controller.cache.get(*self.name)

    def owned(self, resource: Resource) -> list[Object]:
        """Return the cached objects of a watched kind that are mapped to this key."""
        return self._view.cache(resource).by(self._controller.keys, str(self.name))

    def cache(self, resource: Resource) -> Cache:
        """Return the cache of a watched kind or the controller's own.

        With `per_namespace`, that of another kind has the objects in the key's namespace.
        """
        return self._view.cache(resource)

    @property
    def client(self) -> GuardedClient:
        """Return the client, for everything else.

        The guard checks its writes too, but the caches learn of them from the server only.
        """
        return self._controller.client

    def event(self, reason: str, note: str, *, action: str = "Reconcile", warning: bool = False) -> None:
        """Record an event about the object, for `kubectl describe`."""
        if (live := self.object) is not None:
            self._controller.recorder.record(live, reason, note, action=action, warning=warning)


class Controller:
    """One kind and its reconcile function, for an `Operator`.

    `owns` are kinds whose objects have the controller's object as their owner.

    With `per_namespace`, its own kind is followed in all namespaces (or in `namespace`), those of `owns` and `watches`
    only in namespaces that have objects of its own, until `linger` seconds after the last is gone. So rights on them
    are needed in those namespaces only. Kinds that have no namespaces (Nodes) are followed as ever.
    """

    client: GuardedClient
    recorder: Recorder
    manager: str
    cache: Cache
    _views: Views

    def __init__(
        self,
        name: str,
        resource: Resource,
        reconcile: Reconcile,
        *,
        owns: tuple[Resource, ...] = (),
        watches: tuple[Watch, ...] = (),
        when: Predicate = generation_changed,
        labels: Mapping[str, str] | None = None,
        indexes: Mapping[str, Index] | None = None,
        namespace: str = "",
        per_namespace: bool = False,
        linger: float = LINGER,
        workers: int = 16,
        seconds: float = 120.0,
        grace: float = 20.0,
        resync: float | None = 36_000.0,
        backoff: Backoff | None = None,
        at_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.keys = f"keys of {name}"  # name of the index from objects to keys
        self.resource = resource
        self.reconcile = reconcile
        self.at_end = at_end  # closes what `reconcile` keeps open between passes
        self.namespace = namespace
        self.per_namespace = per_namespace
        self.linger = linger
        self.seconds = seconds  # that one pass may take
        self.grace = grace  # that passes under way have to end
        self.workers = workers
        self.queue: Queue[Name] = Queue(backoff)
        self.watches = (
            Watch(resource, itself, when, labels or {}, indexes or {}),
            *(Watch(child, owner(resource)) for child in owns),
            *watches,
        )
        kinds = [watch.resource for watch in self.watches]
        if len(set(kinds)) < len(kinds):
            raise ConfigurationError(f"controller {name} watches a kind twice: give it one mapping that covers both")
        if per_namespace and not resource.namespaced:
            raise ConfigurationError(f"controller {name} cannot go by namespaces: {resource.kind} has none")
        self._resync = resync
        self._instruments: Instruments | None = None
        self._takes = False
        self._resting: dict[Name, float] = {}  # until when the keys rest whose pass held the process
        self._meanwhile: dict[Name, set[int]] = {}  # versions that came while a key was with a worker
        self._idle = asyncio.Event()

    def connect(
        self, client: GuardedClient, recorder: Recorder, following: InformerPool, instruments: Instruments, manager: str
    ) -> None:
        """Take what the operator gives the controller to work with, and listen to the caches."""
        self.client, self.recorder, self._instruments, self.manager = client, recorder, instruments, manager
        self._views = Views(
            self.watches,
            following,
            namespace=self.namespace,
            per_namespace=self.per_namespace,
            linger=self.linger,
            attach=self._attach,
            wake=self._wake,
        )
        self.cache = self._views.wide[self.resource].cache

    async def disconnect(self) -> None:
        """End the views, and close what `reconcile` keeps open between passes."""
        self._views.close()
        if self.at_end is not None:
            await self.at_end()

    @property
    def unwatched_informers(self) -> list[Informer]:
        """Return the informers that should watch all namespaces (or the controller's own) and do not."""
        return [informer for informer in self._views.wide.values() if not informer.is_watching]

    def may_begin(self, *, late: bool) -> bool:
        """Return whether the lists of what is watched everywhere are complete.

        Passes that begin before would create children again that they have not seen yet. If it is `late`, only the list
        of the controller's own kind has to be complete: passes are then told that they are blocked.
        """
        return self.cache.synced and (late or all(informer.cache.synced for informer in self._views.wide.values()))

    def _attach(self, watch: Watch, cache: Cache) -> Callable[[], None]:
        """Listen to a cache, and return the function that ends it."""

        def notice(change: Change) -> None:
            self._notice(watch, change)

        def detach() -> None:
            cache.listeners.remove(notice)
            cache.unindex(self.keys)

        cache.index(self.keys, lambda live: map(str, watch.of(live)))
        for name, index in watch.indexes.items():
            cache.index(name, index)
        cache.listeners.append(notice)
        return detach

    def _wake(self, namespace: str) -> None:
        """Queue the keys of a namespace, because what can be seen there changed."""
        if self._takes:
            for name in self.cache.names():
                if not namespace or name.namespace == namespace:
                    self.queue.add(name, LOW)

    def _notice(self, watch: Watch, change: Change) -> None:
        """Queue the keys that a change of a watched object concerns.

        On stand-by nothing is queued: the first process to lead looks at everything.
        """
        if not self._takes or not watch.when(change):
            return
        names = set(watch.of(change.object))
        if change.before is not None:
            names |= set(watch.of(change.before))  # the key that it belonged to before misses it now
        for name in names:
            if name in self._meanwhile:
                self._meanwhile[name].add(change.version)
            else:
                self.queue.add(name, NORMAL)

    async def run(self, stop: asyncio.Event) -> None:
        """Look at everything once, then at what changes, until `stop`.

        At `stop`, passes under way may end; when the Lease is lost, this is cancelled, and they are too.
        """
        self.queue.clear()
        self._takes = True
        self._look_at_all()
        workers = [asyncio.create_task(self._work(stop)) for _ in range(self.workers)]
        resync = asyncio.create_task(self._look_again())
        ending = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({ending, resync, *workers}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                await self._finish()
        finally:
            self._takes = False
            await end_tasks(ending, resync, *workers)
            self.queue.clear()

    async def _finish(self) -> None:
        """Let the passes under way end, for at most `grace` seconds."""
        self._takes = False
        self.queue.clear()
        self._idle.clear()
        if self.queue.running():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), self.grace)

    def _look_at_all(self) -> None:
        for name in self.cache.names():
            self.queue.add(name, LOW)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(self._resync * random.uniform(0.9, 1.1) if self._resync else 1e9)  # noqa: S311 - jitter
            self._look_at_all()

    async def _work(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            item = await self.queue.get()
            try:
                with self._views.use(item.key.namespace) as view:
                    if wait := max(view.ready_in(), self._rests_for(item.key)):
                        self.queue.add_after(item.key, wait, item.priority)  # sooner if it is ready sooner
                    else:
                        await self._pass(item, view)
            finally:
                self.queue.done(item.key)
                if not self.queue.running():
                    self._idle.set()

    def _rests_for(self, key: Name) -> float:
        """Return the seconds until the next pass of a key may begin.

        A key whose pass held the process rests: with each change it would hold the process again.
        """
        rest = self._resting.get(key, 0.0) - time.monotonic()
        if rest <= 0:
            self._resting.pop(key, None)
        return max(rest, 0.0)

    async def _pass(self, item: Item[Name], view: View) -> None:
        began = time.monotonic()
        ended: Result | BaseException | None
        request = Request(self, item.key, self.queue.failures(item.key) + 1, view)
        view.last_blocked = str(request.blocked or "")
        versions = self._meanwhile[item.key] = set()
        token = in_pass.set(True)
        try:
            async with asyncio.timeout(self.seconds):
                ended = await self.reconcile(request)
        except asyncio.CancelledError as problem:
            if _is_cancelled():
                raise
            ended = problem  # a task that the pass waited for was cancelled, not this worker
        except Exception as problem:  # classified below, like every end of a pass
            ended = problem
        finally:
            in_pass.reset(token)
            del self._meanwhile[item.key]
        if isinstance(ended, HeldError):
            self._resting[item.key] = time.monotonic() + REST_SECONDS
        if versions - request.write.written:  # a pass knows its own writes; any other change needs another pass
            self.queue.add(item.key, NORMAL)
        verdict = classify(ended, self.seconds)
        match verdict.then:
            case Requeue.WAIT:
                self.queue.forgive(item.key)
            case Requeue.AFTER:
                self.queue.forgive(item.key)
                self.queue.add_after(item.key, verdict.after, item.priority)
            case Requeue.BACK_OFF:
                self.queue.retry(item.key, item.priority)
            case Requeue.DROP:
                pass
        if verdict.says:
            log.warning("%s %s: %s", self.name, item.key, verdict.says, exc_info=_unexpected_error(ended))
        if self._instruments is not None:
            self._instruments.saw(self.name, item, ended, verdict, time.monotonic() - began)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _unexpected_error(ended: Any) -> BaseException | None:
    """Return an error of the programmer, whose traceback is logged; None for errors that are raised on purpose."""
    expected = (FleetError, TerminalError, TimeoutError)
    return ended if isinstance(ended, Exception) and not isinstance(ended, expected) else None
