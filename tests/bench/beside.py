"""`fleet sync` of one change in a stack of 1,000 apps beside few and beside many objects in ten other stacks.

A sync looks at all that it applied, for drift, and so at every object of the other stacks. Two fleets that differ in
their number alone take turns, each in a cluster of its own on the same machine, so that a busy machine disturbs both
alike. Whole commands; CPU is that of the command and of its children, not of the server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from fleet.lab import Lab
from tests.bench import workload
from tests.bench.command import Took, fleet_command, run
from tests.bench.figure import Figure, at_most, in_turns
from tests.bench.place import api_server

ROUNDS = 7
OTHERS = {"few": 100, "many": 10_000}  # by cluster
MOST_GROWTH = 1.2


def figures() -> Iterator[Figure]:
    fleet_command()
    with api_server(*OTHERS) as lab, tempfile.TemporaryDirectory() as directory:
        few, many = (OneFleet(lab, Path(directory) / name, name, number) for name, number in OTHERS.items())
        for one in (few, many):
            one.sync()
            one.change()
        in_turns(ROUNDS, few.measure, many.measure)
    for one in (few, many):
        name = f"apps: sync of one change beside {one.others} objects in other stacks"
        yield Figure(name, tuple(took.seconds for took in one.took), "s", note="in turns")
        yield Figure(f"{name}, CPU", tuple(took.cpu for took in one.took), "s")
    name = f"apps: the same beside {many.others}, share of that beside {few.others}"
    pairs = list(zip(few.took, many.took, strict=True))
    yield at_most(name, [more.seconds / less.seconds for less, more in pairs], "of it", MOST_GROWTH, "by pairs")
    yield Figure(f"{name}, CPU", tuple(more.cpu / less.cpu for less, more in pairs), "of it", note="by pairs")


class OneFleet:
    def __init__(self, lab: Lab, root: Path, context: str, others: int) -> None:
        self.others = others
        self.took: list[Took] = []
        self.numbers = count()
        self.fleet = fleet_command()
        self.repository = workload.write(root / "repository", "apps")
        cluster = f'import fleet\n\nc1 = fleet.Cluster("c1", context="{context}")\n'
        (self.repository / "clusters" / "lab.py").write_text(cluster)
        workload.write_others(self.repository, others)
        self.environment = {"KUBECONFIG": str(lab.kubeconfig), "FLEET_CACHE_DIR": str(root / "cache")}

    def measure(self) -> float:
        self.took.append(self.change())
        return self.took[-1].seconds

    def change(self) -> Took:
        workload.change_one(self.repository, f"change-{next(self.numbers)}")
        return self.sync()

    def sync(self) -> Took:
        return run(self.fleet, "sync", "--no-wait", cwd=self.repository, environment=self.environment)
