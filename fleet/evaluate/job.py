"""What a worker is asked to do, as data: evaluate these files of that repository, within these limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.repository.settings import Limits

# A worker that is out of time is ended by the first of three that can: its own alarm, which knows the line; a watchdog
# in its process that needs no Python to run; the zygote. Seconds after the limit.
WATCHDOG, KILL = 0.5, 1.5
UNCONFINED = b"Unconfined: "  # in the place of an answer: no code was run, and why


class Task(StrEnum):
    CLUSTERS = "clusters"  # all files of clusters, in one worker
    STACKS = "stacks"  # one file of stacks, for all its clusters, in one worker


@dataclass(frozen=True, slots=True)
class Job:
    task: Task
    root: str
    files: tuple[str, ...]
    limits: Limits
    importable: tuple[str, ...] = ()  # directories beside the root from which siblings are imported
    packages: str = ""  # a directory with what the lockfile names, to import from too
    lock: str = ""  # what that file is called, for people; with a word about where it comes from
    clusters: tuple[dict[str, Any], ...] = ()  # as the clusters' worker answered
    only: tuple[str, ...] | None = None  # names of stacks; None means all
    exports: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # stack → cluster → name → value
    disturbed: bool = False  # the second time, in the other zygote
    without: tuple[str, ...] = ()  # layers to leave out, for the tests of the attacks: see `Sandbox.loose`
