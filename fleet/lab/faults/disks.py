"""Faults of volumes: full, with wrong bytes in a file, or empty. Done from the machine, below what a pod could see.

What was lost is lost. What was filled is free again, and bytes that are still wrong become right again.
"""

from __future__ import annotations

import base64
import errno
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

import psutil

from fleet.errors import ConfigurationError, NotFoundError
from fleet.lab.faults import claims, find, signals
from fleet.lab.faults.fault import Active, Fault
from fleet.lab.faults.kind import Facts, Kind

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

BLOCK = 4096


class FillVolume(Kind):
    """By a file that takes all that is free; whoever writes then gets ENOSPC."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return claims.facts(claims.volume(lab, fault)[0])

    def begin(self, lab: Lab, active: Active) -> None:
        with claims.opened(lab, active) as place:
            if place:
                fill(place / self._name(active), int(active.fault.options.get("leave", 0)))

    def end(self, lab: Lab, active: Active) -> None:
        with claims.opened(lab, active) as place:
            if place:
                (place / self._name(active)).unlink(missing_ok=True)

    @staticmethod
    def _name(active: Active) -> str:
        return f".fleet-fault-{active.id}"


def fill(file: Path, leave: int) -> None:
    """Make a file of all that is free but for `leave` bytes: in large pieces first, to the last block in the end."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        size, piece = 0, max(BLOCK, _free(file) - leave)
        while piece >= BLOCK:
            try:
                if leave and _free(file) - piece < leave:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.posix_fallocate(handle, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
    finally:
        os.close(handle)


def _free(file: Path) -> int:
    found = os.statvfs(file)
    return found.f_bfree * found.f_frsize


class CorruptVolume(Kind):
    """Some bytes of a file are turned around. The old ones are in the record, so that they can be put back."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        volume, root = claims.volume(lab, fault)
        file = choose(root, fault.options["file"])
        places = places_in(file.stat().st_size, fault.options["places"], fault.options["seed"])
        if not places:
            raise ConfigurationError(f"{file.name} is empty: there is nothing in it to corrupt", field="--file")
        with file.open("rb") as content:
            before = bytes(_byte(content.fileno(), place)[0] for place in places)
        facts = {"file": str(file.relative_to(root)), "places": places}
        return {**claims.facts(volume), **facts, "before": base64.b64encode(before).decode()}

    def begin(self, lab: Lab, active: Active) -> None:
        self._replace(lab, active, lambda before, now: before ^ 0xFF)

    def end(self, lab: Lab, active: Active) -> None:
        self._replace(lab, active, lambda before, now: before if now == before ^ 0xFF else now)

    def _replace(self, lab: Lab, active: Active, new: Callable[[int, int], int]) -> None:
        with claims.opened(lab, active) as root:
            file = root / active.facts["file"] if root else None
            if file and file.is_file():
                rewrite(file, active.facts["places"], base64.b64decode(active.facts["before"]), new)


def rewrite(file: Path, places: Sequence[int], before: bytes, new: Callable[[int, int], int]) -> None:
    """Write bytes that are made from what was there before and what is there now; a file that is shorter stays so."""
    with file.open("r+b") as content:
        for place, old in zip(places, before, strict=True):
            if now := _byte(content.fileno(), place):
                os.pwrite(content.fileno(), bytes([new(old, now[0])]), place)
        os.fsync(content.fileno())


def choose(root: Path, name: str) -> Path:
    """The file that was named, or the largest."""
    files = {path: path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
    if name:
        if root / name not in files:
            known = ", ".join(sorted(str(path.relative_to(root)) for path in files)[:10]) or "none"
            raise NotFoundError(f"there is no file {name!r} on the volume", field="--file", hint=f"its files: {known}")
        return root / name
    if not files:
        raise ConfigurationError("there is no file on the volume", hint="an empty one cannot be corrupted")
    return min(files, key=lambda path: (-files[path], str(path)))


def places_in(size: int, count: int, seed: int) -> list[int]:
    """Where bytes are changed: the same for the same seed, spread over the file."""
    return sorted(Random(seed).sample(range(size), min(count, size)))  # noqa: S311 - nothing secret about it


def _byte(handle: int, place: int) -> bytes:
    return os.pread(handle, 1, place)


class LoseVolume(Kind):
    """The pods that use it stand still while all files go, and are killed then: none can save anything.

    If that is cut short, what stands still is killed all the same. The files are not asked for again: a pod that was
    started since may have written new ones.
    """

    lasts: ClassVar[bool] = False

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        pods = claims.users(lab, fault)
        groups = [str(group) for pod in pods for group in pod.groups.values()]
        return {**claims.facts(claims.volume(lab, fault)[0]), "groups": groups}

    def begin(self, lab: Lab, active: Active) -> None:
        signals.freeze(lambda: self._processes(active))
        with claims.opened(lab, active) as place:
            if place:
                empty(place)

    def end(self, lab: Lab, active: Active) -> None:
        signals.send([one for one in self._processes(active) if signals.is_still(one)], signal.SIGKILL)

    @staticmethod
    def _processes(active: Active) -> list[psutil.Process]:
        return [one for group in active.facts["groups"] for one in find.members(Path(group))]


def empty(root: Path) -> None:
    """Remove all that is in a directory, but not the directory, nor what a new file system has."""
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path.name != "lost+found":
                shutil.rmtree(path)
        else:
            path.unlink()
