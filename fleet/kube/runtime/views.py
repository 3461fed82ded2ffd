"""Views: the caches of all kinds that a controller's passes see, and whether they are reliable.

There is one view of everything, or (`per_namespace`) one of each namespace that has objects of the controller's kind.
The latter needs no rights on other kinds beyond those namespaces, so rights can be missing in one of them: passes there
are told what is missing (`blocked`), all others go on.

`Views` opens a view with the first object of the controller's kind in a namespace, and closes it after the last. A
closed view is opened again when it is needed. Closing waits a while, since a user who deletes an object often makes the
next one, and passes that clean up come after the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.errors import AccessError, FleetError, ResourceError
from fleet.kube.runtime.cache import Cache, Change, Index, Name
from fleet.kube.runtime.handlers import Mapping as Mapped
from fleet.kube.runtime.handlers import Predicate, always
from fleet.kube.runtime.informer import Informer, InformerPool
from fleet.kube.runtime.memory_budget import MemoryBudget
from fleet.objects.resource import Resource

GRACE = 3.0  # seconds: rights often come a moment after the object that needs them
PATIENCE = 15.0  # seconds for lists that neither end nor fail


@dataclass(frozen=True, slots=True)
class Watch:
    """Objects of another kind whose changes matter: `of` maps one to the keys of the controller's kind."""

    resource: Resource
    of: Mapped
    when: Predicate = always
    labels: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, Index] = field(default_factory=dict)  # for `request.cache(resource).by(name, value)`
    optional: bool = False  # of what is in a namespace: passes go on without it, and its cache raises meanwhile


class NoRightsError(AccessError):
    """Error for kinds (plurals) that the server does not let us see in a namespace ("": in all).

    `reason` is the server's answer.
    """

    def __init__(self, namespace: str, kinds: tuple[str, ...], reason: str, hint: str | None) -> None:
        where = f"in namespace {namespace}" if namespace else "in the cluster"
        super().__init__(f"no right to list and watch {', '.join(kinds)} {where}: {reason}", hint=hint)
        self.namespace = namespace
        self.kinds = kinds
        self.reason = reason


class NotSeenError(ResourceError):
    """Error for kinds (plurals) that could not be listed in a namespace, for another reason than rights."""

    def __init__(self, namespace: str, kinds: tuple[str, ...], reason: str) -> None:
        where = f"in namespace {namespace}" if namespace else "in the cluster"
        super().__init__(f"cannot see {', '.join(kinds)} {where}: {reason}")
        self.namespace = namespace
        self.kinds = kinds
        self.reason = reason


class View:
    """Caches for the passes of one namespace, or of all."""

    def __init__(
        self,
        namespace: str,
        followers: Mapping[Resource, Informer],
        opened: float | None = None,
        optional: frozenset[Resource] = frozenset(),
    ) -> None:
        self.namespace = namespace
        self.followers = followers
        self.optional = optional  # kinds that nothing waits for
        self.caches = [follower.cache for follower in followers.values()]
        self.passes = 0  # under way
        self.last_blocked: str | None = None  # the last `blocked` that passes knew; None before the first
        self._opened = time.monotonic() if opened is None else opened

    def cache(self, resource: Resource) -> Cache:
        """Return the cache of a kind; raise rather than return one that is empty because nothing could be seen."""
        follower = self.followers[resource]
        if _reliable(follower, time.monotonic()):
            return follower.cache
        raise self._problem([follower])

    def ready_in(self, now: float | None = None) -> float:
        """Return the seconds until a pass makes sense, at most: 0 if all is seen, or clearly will not be soon."""
        now = time.monotonic() if now is None else now
        missing = self._missing(now)
        if not missing:
            return 0.0
        failing = any(follower.problem for follower in missing)
        return max(0.0, self._opened + (GRACE if failing else PATIENCE) - now)

    def blocked(self, now: float | None = None) -> FleetError | None:
        """Return the error that keeps passes from seeing the present state; None if nothing does."""
        missing = self._missing(time.monotonic() if now is None else now)
        return self._problem(missing) if missing else None

    def _missing(self, now: float) -> list[Informer]:
        needed = (follower for resource, follower in self.followers.items() if resource not in self.optional)
        return [follower for follower in needed if not _reliable(follower, now)]

    def _problem(self, missing: list[Informer]) -> FleetError:
        denied = [follower for follower in missing if isinstance(follower.problem, AccessError)]
        kinds = tuple(follower.cache.resource.plural for follower in denied or missing)
        if denied and denied[0].problem:
            return NoRightsError(self.namespace, kinds, denied[0].reason, denied[0].problem.hint)
        reason = next((follower.reason for follower in missing if follower.problem), "the lists are not complete yet")
        return NotSeenError(self.namespace, kinds, reason)


def _reliable(follower: Informer, now: float) -> bool:
    """Return whether a cache was complete once and is kept so.

    A broken connection comes back and loses nothing; a refusal lasts.
    """
    return follower.cache.synced and follower.denied_for(now) < GRACE


NAMESPACE = "namespace"
LINGER = 60.0


class Views:
    """Views of one controller: `use(namespace)` during a pass. The first watch is that of the controller's own kind."""

    def __init__(
        self,
        watches: Sequence[Watch],
        following: InformerPool,
        *,
        namespace: str,
        per_namespace: bool,
        linger: float,
        attach: Callable[[Watch, Cache], Callable[[], None]],
        wake: Callable[[str], None],
    ) -> None:
        """Open the view of everything that is watched in all namespaces.

        `attach` listens to a cache and returns the function that ends it; `wake` queues the keys of a namespace ("":
        all).
        """
        self._following = following
        self._linger = linger
        self._attach = attach
        self._wake = wake
        self._local = [local for local in watches[1:] if per_namespace and local.resource.namespaced]
        self._undo: dict[str, list[Callable[[], None]]] = {}
        self._views: dict[str, View] = {}
        self._closing: dict[str, asyncio.TimerHandle] = {}
        self.wide: dict[Resource, Informer] = {}
        for watch in watches:
            if watch not in self._local:
                follower = self.wide[watch.resource] = following.use(watch.resource, namespace, watch.labels)
                attach(watch, follower.cache)
        self._all = View("", self.wide)
        self._own = self.wide[watches[0].resource].cache
        if self._local:
            self._own.index(NAMESPACE, lambda live: (Name.of(live).namespace,))
            self._own.listeners.append(self._follow_namespace)
        else:
            for follower in self.wide.values():
                follower.turns.append(lambda: self._wake_if_changed(self._all))

    @contextlib.contextmanager
    def use(self, namespace: str) -> Iterator[View]:
        """Give a pass the view of its namespace, which stays open meanwhile."""
        view = self._open(namespace)
        view.passes += 1
        try:
            yield view
        finally:
            view.passes -= 1

    def close(self) -> None:
        """Cancel the closing of views that waits."""
        for timer in self._closing.values():
            timer.cancel()

    def _follow_namespace(self, change: Change) -> None:
        """Open or close the view of a namespace after an object of the controller's kind came, changed or went."""
        namespace = Name.of(change.object).namespace
        if self._own.has(NAMESPACE, namespace):
            if timer := self._closing.pop(namespace, None):
                timer.cancel()
            self._open(namespace)
        elif namespace in self._views:
            self._close_later(namespace)

    def _open(self, namespace: str) -> View:
        if not self._local:
            return self._all
        if view := self._views.get(namespace):
            return view
        followers = dict(self.wide)
        undo = self._undo[namespace] = []
        budget = MemoryBudget(lambda: len(self._own.by(NAMESPACE, namespace)))
        for watch in self._local:
            # What others may make any number of takes nothing of what is needed
            share = MemoryBudget(lambda: 0) if watch.optional else budget
            follower = followers[watch.resource] = self._following.use(watch.resource, namespace, watch.labels, share)
            undo.append(self._attach(watch, follower.cache))
        optional = frozenset(watch.resource for watch in self._local if watch.optional)
        view = self._views[namespace] = View(namespace, followers, optional=optional)

        def turn() -> None:
            self._wake_if_changed(view)

        for follower in followers.values():
            follower.turns.append(turn)
            undo.append(lambda follower=follower: follower.turns.remove(turn))  # type: ignore[misc]
        if not self._own.has(NAMESPACE, namespace):
            self._close_later(namespace)
        return view

    def _wake_if_changed(self, view: View) -> None:
        """Queue the passes of a view whose `blocked` is not what they last knew."""
        if view.ready_in():
            return
        state = str(view.blocked() or "")
        if state != view.last_blocked:
            view.last_blocked = state
            self._wake(view.namespace)

    def _close_later(self, namespace: str) -> None:
        if namespace not in self._closing:
            loop = asyncio.get_running_loop()
            self._closing[namespace] = loop.call_later(self._linger, self._close, namespace)

    def _close(self, namespace: str) -> None:
        del self._closing[namespace]
        view = self._views[namespace]
        if view.passes:
            self._close_later(namespace)
            return
        del self._views[namespace]
        for undo in self._undo.pop(namespace):
            undo()
        for watch in self._local:
            self._following.leave(view.followers[watch.resource])
