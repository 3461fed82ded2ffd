"""One cluster under watch: a client that stays open, and one watch per kind that is deployed there.

Only what carries our label is watched, over all namespaces. A change that matters (see `notice`) calls for a pass over
its stack; the pass looks for itself, so nothing that is seen here has to be believed. A watch that may not be, or
breaks, is no error of a stack: it is tried again, and meanwhile the regular look finds what it would have told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from fleet.errors import FleetError
from fleet.kube.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.live import OURS
from fleet.kube.objects import Scope
from fleet.kube.watch import Listed, changes
from fleet.model.desired import Desired, Key
from fleet.model.group import GROUP
from fleet.serve.notice import Notice, notice

Kind = tuple[str, str, str]  # group, version, kind
AGAIN = 30.0  # seconds until a watch that was refused is asked for again

log = logging.getLogger(__name__)


def kinds_of(desired: Iterable[Desired]) -> frozenset[Kind]:
    found: set[Kind] = set()
    for one in desired:
        for each in one.objects:
            group, _, version = each.manifest["apiVersion"].rpartition("/")
            found.add((group, version, each.manifest["kind"]))
    return frozenset(found)


class Watching:
    """`call(stack)` is called when something of it changed. `follow` says which kinds count from now on.

    `turned` is called when the cluster stops answering and when it answers again.
    """

    def __init__(self, client: Client, call: Callable[[str], None], turned: Callable[[], None]) -> None:
        self.client = client
        self._call = call
        self._turned = turned
        self._tasks: dict[Kind, asyncio.Task[None]] = {}

    @property
    def kinds(self) -> int:
        return len(self._tasks)

    def follow(self, kinds: frozenset[Kind]) -> None:
        for kind in self._tasks.keys() - kinds:
            self._tasks.pop(kind).cancel()
        for kind in kinds - self._tasks.keys():
            self._tasks[kind] = asyncio.create_task(self._watch(kind))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self.follow(frozenset())
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, kind: Kind) -> None:
        told = ""
        while True:
            try:
                resource = await self._resource(kind)
                if resource is not None:
                    await self._see(resource)
            except FleetError as problem:
                if problem.message != told:
                    told = problem.message
                    log.warning("cannot watch %s: %s", kind[2], told, extra={"cluster": self.client.cluster})
            except Exception as problem:  # of one object that nobody foresaw; other kinds go on
                told = type(problem).__name__
                log.exception("cannot watch %s", kind[2], extra={"cluster": self.client.cluster})
            await asyncio.sleep(AGAIN if told else 1.0)

    async def _resource(self, kind: Kind) -> Resource | None:
        """None while it is not served: its definition may come with the first sync."""
        found = (await self.client.discovery()).find(kind[0], kind[2], kind[1])
        if found is None:
            self.client.forget_discovery()
        return found

    async def _see(self, resource: Resource) -> None:
        known: dict[Key, Notice] = {}
        stacks: dict[Key, str] = {}
        async for event in changes(self.client, Scope(resource, labels=OURS), on_turn=lambda works: self._turned()):
            found = event.objects if isinstance(event, Listed) else [event.object]
            there = {Key.of(one): one for one in found}
            gone = known.keys() - there.keys() if isinstance(event, Listed) else set[Key]()
            if not isinstance(event, Listed) and event.deleted:
                gone, there = set(there), {}
            moved = {stacks.pop(key, "") for key in gone if known.pop(key, None)}
            for key, one in there.items():
                seen = notice(key, one, is_app=key.group == GROUP)
                if known.get(key) != seen:
                    known[key] = seen
                    stacks[key] = (one["metadata"].get("labels") or {}).get(OURS, "")
                    moved.add(stacks[key])
            for stack in moved - {""}:
                self._call(stack)
