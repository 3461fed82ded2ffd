"""An hour of everything at once, by a seed that is printed; with --write, what came of it is kept in docs/soak.md.

Three quarters of the time the service is killed again and again, in some episodes as two replicas; in the last quarter
one process lives through all the rest, and its memory is looked at.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from fleet.lab.lab import Lab
from fleet.lab.programs.process import identify
from tests.soak.actions import Step
from tests.soak.model import Drawn, Manner, first
from tests.soak.page import Told, page
from tests.soak.soak import Soak

CLUSTERS = ("eu", "us")
STACKS = ("soak-a", "soak-b", "soak-c")
KILLING = Manner(pause=0.4, longest=4.0, episode=50, replicas=4)
LASTING = Manner(pause=0.6, longest=4.0, episode=50, kills=False)
PAGE = Path(__file__).parents[2] / "docs" / "soak.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, in all [default: 60]")
    parser.add_argument("--seed", type=int, help="what to draw from [default: by chance]")
    parser.add_argument(
        "--episodes", metavar="KILLING,LASTING", help="so many of each, in place of --minutes: a replay"
    )
    parser.add_argument("--write", action="store_true", help="keep the outcome in docs/soak.md")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    counts = [int(one) for one in options.episodes.split(",")] if options.episodes else []
    schedule = Schedule(seed, options.minutes * 60, counts)
    print(f"seed {seed}", flush=True)
    lab = Lab.up(f"soak{os.getpid()}", CLUSTERS, nodes="simulated", owner=identify(os.getpid()))
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as directory:
            soak = Soak(Path(directory), lab, STACKS, "soak-app", CLUSTERS, lambda line: print(line, flush=True))
            with soak.world.running():
                soak.begin()
                soak.go(schedule.steps())
                soak.agrees_with_render()
            left = soak.left_over()
    except AssertionError:
        print(f"seed {seed}: python -m tests.soak --seed {seed} --episodes {schedule.done}", file=sys.stderr)
        raise
    finally:
        lab.down()
    machine = (
        f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, Python {platform.python_version()}"
    )
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    text = page(Told(soak, seed, schedule.done, time.monotonic() - began, day, machine, len(left)))
    print(text)
    if options.write:
        PAGE.write_text(text)
    if left:
        sys.exit(f"processes are left over: {left}")
    if soak.lives and not soak.lives[-1].is_flat:
        sys.exit(f"memory grows: {soak.lives[-1]}")


class Schedule:
    """How many episodes in which manner: as many as there is time for, or as a replay says."""

    def __init__(self, seed: int, seconds: float, counts: list[int]) -> None:
        self._drawn = Drawn(seed, CLUSTERS, first(STACKS))
        self._seconds = seconds
        self._counts = counts
        self._done = [0, 0]

    @property
    def done(self) -> str:
        return ",".join(map(str, self._done))

    def steps(self) -> Iterator[Step]:
        began = time.monotonic()
        for index, (manner, share) in enumerate(((KILLING, 0.75), (LASTING, 1.0))):
            while (
                self._done[index] < self._counts[index]
                if self._counts
                else time.monotonic() - began < share * self._seconds
            ):
                self._done[index] += 1
                yield from self._drawn.episode(manner)


if __name__ == "__main__":
    main()
