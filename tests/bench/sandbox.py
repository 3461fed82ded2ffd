"""What the sandbox adds to an evaluation: the same small stack, by warm pools, in turns.

Each round evaluates once without a sandbox, once at level B and once at level A, beginning with another one each time;
a difference is between two evaluations of the same round. An evaluation here is two workers: one reads the clusters,
one runs the stack.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from fleet.evaluate import Pool, evaluate
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.repository import Repository
from tests.bench.figure import Figure, at_most, in_turns

ROUNDS = 101
LIMIT = 30.0  # ms added, as the median
FILES = {
    "fleet.toml": "",
    "clusters/all.py": "import fleet\nfleet.Cluster('eu-1')\n",
    "stacks/a.py": "import fleet\nfrom fleet.apps import Etcd\n@fleet.stack(clusters='eu-1')\n"
    "def a(cluster: fleet.Cluster) -> None:\n    Etcd('registry', version='3.6', members=3, storage='8Gi')\n",
}


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        for name, text in FILES.items():
            path = Path(directory, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        repository = Repository.at(Path(directory))
        pools = {level: stack.enter_context(Pool(sandbox=Sandbox(level))) for level in (Level.NONE, Level.B, Level.A)}
        given = {level: pool for level, pool in pools.items() if pool.sandbox_report().level is level}
        sides = [_timed(repository, pool) for pool in given.values()]
        in_turns(5, *sides)  # warm
        times = dict(zip(given, in_turns(ROUNDS, *sides), strict=True))
    for level, values in times.items():
        yield Figure(f"an evaluation, level {level}", tuple(values), "ms")
    for level in [one for one in times if one is not Level.NONE]:
        added = [with_it - without for with_it, without in zip(times[level], times[Level.NONE], strict=True)]
        yield at_most(f"added by level {level}", added, "ms", LIMIT, note="pairs of one round")


def _timed(repository: Repository, pool: Pool) -> Callable[[], float]:
    def side() -> float:
        begin = time.monotonic()
        evaluate(repository, pool=pool).check()
        return 1000 * (time.monotonic() - begin)

    return side
