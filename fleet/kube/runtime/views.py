"""Which views a controller has: opened with the first object of its kind in a namespace, closed after the last.

What is closed is opened again when it is needed. Closing waits a while, since whoever deletes an object often makes
the next one, and passes that clean up come after the object.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from fleet.kube.discovery import Resource
from fleet.kube.runtime.budget import Budget
from fleet.kube.runtime.cache import Cache, Change, Name
from fleet.kube.runtime.follow import Follower
from fleet.kube.runtime.following import Following
from fleet.kube.runtime.view import View, Watch

NAMESPACE = "namespace"
LINGER = 60.0


class Views:
    """`use(namespace)` during a pass. The first watch is that of the controller's own kind."""

    def __init__(
        self,
        watches: Sequence[Watch],
        following: Following,
        *,
        namespace: str,
        per_namespace: bool,
        linger: float,
        attach: Callable[[Watch, Cache], Callable[[], None]],
        wake: Callable[[str], None],
    ) -> None:
        """`attach` listens to a cache and returns how to end that; `wake` queues the keys of a namespace ("": all)."""
        self._following = following
        self._linger = linger
        self._attach = attach
        self._wake = wake
        self._local = [one for one in watches[1:] if per_namespace and one.resource.namespaced]
        self._undo: dict[str, list[Callable[[], None]]] = {}
        self._views: dict[str, View] = {}
        self._closing: dict[str, asyncio.TimerHandle] = {}
        self.wide: dict[Resource, Follower] = {}
        for watch in watches:
            if watch not in self._local:
                follower = self.wide[watch.resource] = following.use(watch.resource, namespace, watch.labels)
                attach(watch, follower.cache)
        self._all = View("", self.wide)
        self._own = self.wide[watches[0].resource].cache
        if self._local:
            self._own.index(NAMESPACE, lambda found: (Name.of(found).namespace,))
            self._own.listeners.append(self._moved)
        else:
            for follower in self.wide.values():
                follower.turns.append(lambda: self._turned(self._all))

    @contextlib.contextmanager
    def use(self, namespace: str) -> Iterator[View]:
        view = self._open(namespace)
        view.passes += 1
        try:
            yield view
        finally:
            view.passes -= 1

    def close(self) -> None:
        for timer in self._closing.values():
            timer.cancel()

    def _moved(self, change: Change) -> None:
        """An object of the controller's kind came, changed or went."""
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
        budget = Budget(lambda: len(self._own.by(NAMESPACE, namespace)))
        for watch in self._local:
            follower = followers[watch.resource] = self._following.use(watch.resource, namespace, watch.labels, budget)
            undo.append(self._attach(watch, follower.cache))
        view = self._views[namespace] = View(namespace, followers)

        def turn() -> None:
            self._turned(view)

        for follower in followers.values():
            follower.turns.append(turn)
            undo.append(lambda follower=follower: follower.turns.remove(turn))  # type: ignore[misc]
        if not self._own.has(NAMESPACE, namespace):
            self._close_later(namespace)
        return view

    def _turned(self, view: View) -> None:
        """Passes that were blocked run again, as do those that did not know yet that they are."""
        if view.ready_in():
            return
        state = str(view.blocked() or "")
        if state != view.told:
            view.told = state
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
