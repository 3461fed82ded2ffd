"""How soon the command line answers, beside a Python that only imports click: what no command built on it can beat.

`fleet check` evaluates the example fleet of this repository twice, in processes of its own; with `--once`, once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.command import fleet_command, run
from tests.bench.figure import Figure, at_most, in_turns

EXAMPLE = Path(__file__).parents[2]
ROUNDS = 11


def figures() -> Iterator[Figure]:
    fleet = fleet_command()
    bare, help_, module = in_turns(
        ROUNDS,
        lambda: run(sys.executable, "-c", "import click", cwd=EXAMPLE).seconds,
        lambda: run(fleet, "--help", cwd=EXAMPLE).seconds,
        lambda: run(fleet, "lab", "--help", cwd=EXAMPLE).seconds,
    )
    yield Figure("python -c 'import click'", tuple(bare), "s", note="the limit")
    yield at_most("fleet --help", help_, "s", 0.25)
    yield Figure("fleet lab --help", tuple(module), "s", note="a command with its own module")
    twice, once = in_turns(
        ROUNDS,
        lambda: run(fleet, "check", cwd=EXAMPLE).seconds,
        lambda: run(fleet, "check", "--once", cwd=EXAMPLE).seconds,
    )
    yield at_most("fleet check, the example fleet", twice, "s", 1, "evaluated twice")
    yield Figure("fleet check --once, the example fleet", tuple(once), "s")
