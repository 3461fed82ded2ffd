"""`fleet sync` of 1,000 apps with 4 small objects each to a real API server, beside a bare loop that only applies them.

Whole commands on both sides, from the start of Python to the exit code. `fleet sync --no-wait` reads the commit,
evaluates and renders the stack, looks at what is there, plans, takes the Lease, records what it is about to do,
applies, records what it did, looks at everything's health and writes it into git. The bare loop (`bare.py`, no code
of fleet's) reads rendered objects from a file and applies them. Client and server share the machine's cores.

Two workloads: `apps` (an Etcd, a ConfigMap, a ServiceAccount and a Role each) and `plain` (four ConfigMaps each: the
cheapest for a server and so the hardest comparison). After each side everything is removed, and the sides take turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from fleet.lab import Lab
from tests.bench import bare, workload
from tests.bench.command import Took, fleet_command, run
from tests.bench.figure import Figure, at_least, at_most, in_turns
from tests.bench.place import CLUSTER, api_server, clear
from tests.bench.workload import OBJECTS

ROUNDS = 7
NAMESPACE = "thousand"


def figures() -> Iterator[Figure]:
    fleet_command()
    with api_server() as lab, tempfile.TemporaryDirectory() as directory:
        for kind in ("apps", "plain"):
            bench = Bench(lab, kind, workload.write(Path(directory) / kind, kind))
            yield from bench.figures()


class Bench:
    def __init__(self, lab: Lab, kind: str, repository: Path) -> None:
        self.lab = lab
        self.kind = kind
        self.repository = repository
        self.fleet = fleet_command()
        self.objects = repository.parent / f"{kind}.json"
        rendered = subprocess.run(
            [self.fleet, "render", "--output=json"], cwd=repository, check=True, capture_output=True
        )
        manifests = [one["manifest"] for one in json.loads(rendered.stdout)[0]["objects"]]
        self.objects.write_text(json.dumps(manifests))
        self.unchanged: list[Took] = []
        self.changed: list[Took] = []
        self.first: list[Took] = []
        self.bare: list[Took] = []
        self.numbers = count()

    def figures(self) -> Iterator[Figure]:
        in_turns(ROUNDS + 1, self.measure_fleet, self.measure_bare)
        for took in (self.first, self.bare, self.unchanged, self.changed):
            del took[0]  # the first round warms the server and the disk's caches
        pairs = list(zip(self.first, self.bare, strict=True))
        yield rate(f"{self.kind}: the bare loop", self.bare, f"the limit; {bare.CONCURRENCY} requests at once")
        yield rate(f"{self.kind}: first sync", self.first)
        yield at_least(
            f"{self.kind}: first sync, share of the bare loop's rate",
            [loop.seconds / sync.seconds for sync, loop in pairs],
            "of it",
            0.7,
            "by pairs",
        )
        yield Figure(f"{self.kind}: first sync, CPU", tuple(one.cpu for one in self.first), "s")
        yield Figure(f"{self.kind}: the bare loop, CPU", tuple(one.cpu for one in self.bare), "s")
        yield Figure(f"{self.kind}: unchanged sync", tuple(one.seconds for one in self.unchanged), "s")
        yield Figure(f"{self.kind}: unchanged sync, CPU", tuple(one.cpu for one in self.unchanged), "s")
        yield at_most(
            f"{self.kind}: unchanged sync, share of the first's CPU",
            [100 * later.cpu / first.cpu for later, first in zip(self.unchanged, self.first, strict=True)],
            "%",
            5,
        )
        yield Figure(f"{self.kind}: sync of one change", tuple(one.seconds for one in self.changed), "s")
        yield Figure(f"{self.kind}: sync of one change, CPU", tuple(one.cpu for one in self.changed), "s")

    def measure_fleet(self) -> float:
        self.first.append(self.sync())
        self.unchanged.append(self.sync())
        workload.change_one(self.repository, f"change-{next(self.numbers)}")
        self.changed.append(self.sync())
        clear(self.lab, self.kind, NAMESPACE)
        return self.first[-1].seconds

    def measure_bare(self) -> float:
        command = (sys.executable, bare.__file__, self.lab.kubeconfig, CLUSTER, self.objects)
        self.bare.append(run(*command, cwd=self.repository))
        clear(self.lab, self.kind, NAMESPACE)
        return self.bare[-1].seconds

    def sync(self) -> Took:
        return run(
            self.fleet, "sync", "--no-wait", cwd=self.repository, environment={"KUBECONFIG": str(self.lab.kubeconfig)}
        )


def rate(name: str, took: list[Took], note: str = "") -> Figure:
    return Figure(name, tuple(OBJECTS / one.seconds for one in took), "objects/s", note=note)
