"""How long the lab takes with warm caches, from the command to clusters that are ready, and how much memory it needs.

Memory is the proportional set size: pages of the one binary that a cluster's programs share are counted once.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fleet.lab import Lab
from fleet.lab import spec as specs
from fleet.lab.lab import take_down
from tests.bench.command import fleet_command, run
from tests.bench.figure import Figure, at_most

NAME = f"bench{os.getpid()}"
ROUNDS = 5


def figures() -> Iterator[Figure]:
    try:
        yield from _figures()
    finally:
        if specs.lab_directory(NAME).exists():
            take_down(NAME)


def _figures() -> Iterator[Figure]:
    _lab("up", "--clusters", "a", "--nodes", "simulated")  # caches of the disk
    _lab("down")
    one, down, memory = [], [], []
    for _ in range(ROUNDS):
        one.append(_lab("up", "--clusters", "a", "--nodes", "simulated"))
        time.sleep(15)  # after the start-up's peak
        memory.append(Lab.open(NAME).status()["clusters"][0]["memory"] / 1e6)
        down.append(_lab("down"))
    yield at_most("one cluster, simulated nodes: up", one, "s", 8)
    yield at_most("one cluster, simulated nodes: memory of the control plane", memory, "MB", 700)
    yield at_most("one cluster, simulated nodes: down", down, "s", 10)
    three, down = [], []
    for _ in range(ROUNDS):
        three.append(_lab("up", "--clusters", "a,b,c", "--nodes", "simulated"))
        down.append(_lab("down"))
    yield at_most("three clusters at once, simulated nodes: up", three, "s", 15)
    yield at_most("three clusters at once, simulated nodes: down", down, "s", 10)
    if os.geteuid() != 0 or sys.platform != "linux":
        return
    real, down = [], []
    for _ in range(ROUNDS):
        real.append(_lab("up", "--clusters", "a", "--nodes", "real", "--workers", "2"))
        down.append(_lab("down"))
    yield at_most("one cluster with two real nodes: up, nodes Ready", real, "s", 20)
    yield at_most("one cluster with two real nodes: down", down, "s", 10)


def _lab(verb: str, *arguments: str) -> float:
    """Seconds that a command takes; one that fails shows what it said."""
    return run(_command(), "lab", verb, "--name", NAME, *arguments, cwd=Path("/")).seconds


_command = cache(fleet_command)
