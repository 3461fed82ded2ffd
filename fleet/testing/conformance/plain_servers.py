"""Servers that know nothing of each other, in memory: for types whose members the operator asks nothing.

Each tick a client writes one number to every member that is ready; it is acknowledged when it is on the volume.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.kit.simulate.cluster import Container, Disk

LOG = "log"


@dataclass(slots=True)
class PlainServers:
    """The servers of a trial, by pod."""

    running: dict[str, Disk | None] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)  # by volume: how many numbers were
    silent: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    isolated: set[str] = field(default_factory=set)  # they know nothing of each other, so that changes nothing
    elections: int = 0
    _ready: set[str] = field(default_factory=set)

    def start(self, container: Container) -> str:
        if container.image in self.broken:
            return "exec format error"
        words = (*container.arguments, *container.prepared)
        named = [word for word in words if any(word.endswith(f"/{file}") for file in container.files)]
        if container.files and not named:
            return f"open {container.arguments[-1] if container.arguments else ''}: no such file or directory"
        self.running[container.pod] = container.volume
        return ""

    def stop(self, pod: str) -> None:
        self.running.pop(pod, None)
        self._ready.discard(pod)

    def is_ready(self, pod: str) -> bool:
        return pod in self._ready

    def tick(self) -> None:
        for pod, disk in self.running.items():
            if pod in self._ready and disk is not None:
                disk.content[LOG] = self.acknowledged[disk.uid] = disk.content.get(LOG, 0) + 1
        self._ready = set(self.running)

    def is_served(self) -> bool:
        """Return whether a client finds any member."""
        return bool(self._ready)

    def lost_writes(self) -> int:
        disks = {disk.uid: disk for disk in self.running.values() if disk is not None}
        return sum(
            max(0, self.acknowledged[uid] - disk.content.get(LOG, 0))
            for uid, disk in disks.items()
            if uid in self.acknowledged
        )

    def membership(self) -> Mapping[str, str]:
        return dict.fromkeys(sorted(self.running), "member")
