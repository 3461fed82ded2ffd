"""The followers of a process: one per kind, namespace and labels, shared by all who need it and ended with the last.

They run beside everything else. Networks and servers do not end them, so one that ends by itself has a fault of ours,
and that ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.kube.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.runtime.budget import Budget, Share
from fleet.kube.runtime.cache import Cache
from fleet.kube.runtime.follow import SILENCE, Follower

_What = tuple[Resource, str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Shared:
    follower: Follower
    task: asyncio.Task[None]
    users: int = 0


class Following:
    """`use` and `leave`, as often as one another; `failed` is done when one of them broke."""

    def __init__(self, client: Client, manager: str, silence: float = SILENCE) -> None:
        self._client = client
        self._manager = manager
        self._silence = silence
        self._shared: dict[_What, _Shared] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __iter__(self) -> Iterator[Follower]:
        return iter([shared.follower for shared in self._shared.values()])

    def use(
        self, resource: Resource, namespace: str, labels: Mapping[str, str], budget: Budget | None = None
    ) -> Follower:
        """`budget` is of a follower that is new; who shares it later takes it as it is."""
        what = (resource, namespace, tuple(sorted(labels.items())))
        shared = self._shared.get(what)
        if shared is None:
            cache = Cache(resource, namespace=namespace, labels=labels, manager=self._manager)
            follower = Follower(self._client, cache, self._silence, share=Share(budget))
            shared = self._shared[what] = _Shared(follower, asyncio.create_task(follower.run()))
            shared.task.add_done_callback(self._ended)
        shared.users += 1
        return shared.follower

    def leave(self, follower: Follower) -> None:
        """Whoever is the last to leave ends the watch, and the cache is gone with it."""
        what, shared = next((w, s) for w, s in self._shared.items() if s.follower is follower)
        shared.users -= 1
        if not shared.users:
            del self._shared[what]
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
