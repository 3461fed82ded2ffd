"""What an app type says about its backups: how its data is saved, checked and put back. Pure.

What reads files is named by text, and only a Job's command loads it.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from fleet.kit.app_type import DataVolume, Role
from fleet.kit.programs import EngineCommand
from fleet.model.app import App

A = TypeVar("A", bound=App)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read out of a backup."""

    size: int  # bytes of all its files
    checksum: str  # of all of it, as algorithm:digest
    position: str  # how far it reaches, in the engine's words; "" if it does not say
    data_version: str  # the series that wrote the data, from the data itself; "" if it does not say


@dataclass(frozen=True, slots=True)
class PutBack:
    """What one restore is about: the backup, and the member that it is for."""

    version: str  # of the app that will start from it
    snapshot: str  # the path of the backup; its name in the engine's own repository where the plan says "own"
    pod: str  # the member whose volume is filled; the first founder when members run already
    founders: tuple[str, ...]  # all pods of members that the app begins with
    target: str  # the directory to write to, which is not there yet; "" when members run already


def same_series(data: str, version: str) -> str | None:
    """Return why a version cannot start from data of a series: it is of another one. None if it can."""
    if not data or f"{version}.".startswith(f"{data}."):
        return None
    return f"has data of {data}, which {version} cannot start from"


@dataclass(frozen=True)  # slots would forbid `BackupPlan[…](…)`
class BackupPlan(Generic[A]):
    """How apps of one type are backed up and put back."""

    kind: str  # of the apps
    role: Role[A]  # of the pods that have the data, on the first of their volumes
    save: Callable[[A, str], EngineCommand]  # into a path that is not there yet; "own": under a name
    suffix: str = "bin"  # of a backup's name in a store
    verify: str = ""  # "module:function", Path → Facts; it reads all of a backup, and raises ResourceError
    how: Literal["file", "tree", "own"] = "file"  # what `save` makes: a file, a directory, or a backup in the
    #   engine's own repository, which fleet neither reads nor counts
    where: Literal["remote", "beside"] = "remote"  # beside: on a member's node, with its volume
    unreadable: Callable[[str, str], str | None] = same_series  # why a version cannot start from data of a series
    restore: Literal["volumes", "seed", "after"] = "volumes"  # into the volumes of all founders, or of the first,
    #   before anything runs; or through the network into members that run
    put_back: Callable[[A, PutBack], EngineCommand] | None = None  # None: the tree is the data, and is copied
    complete: tuple[str, ...] = ()  # paths without which nothing was restored, below the volume's directory
    directory: str = "data"  # on the volume; members start from what is in it

    def __post_init__(self) -> None:
        """Raise ValueError for a plan that no Job could carry out."""
        if not self.role.volumes:
            raise ValueError("what has no volume has no data to be backed up")
        if not re.fullmatch(r"[a-z0-9]+", self.suffix) or self.suffix in ("json", "part"):
            raise ValueError(f"{self.suffix!r} cannot be the suffix of a backup")
        if self.how == "own" and self.restore != "after":
            raise ValueError("what is in an engine's own repository is put back by the engine, after its start")
        if self.how != "own" and not self.verify:
            raise ValueError("a backup that is not read back is none: `verify` is missing")
        if self.put_back is None and (self.how != "tree" or self.restore == "after"):
            raise ValueError("only a tree can be copied into a volume as it is: `put_back` is missing")

    @property
    def volume(self) -> DataVolume[A]:
        return self.role.volumes[0]

    def verified(self, backup: Path) -> Facts:
        """Return what a backup says after all of it was read; raise ResourceError if it is not whole."""
        verify: Callable[[Path], Facts] = pkgutil.resolve_name(self.verify)
        return verify(backup)
