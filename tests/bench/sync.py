"""`fleet sync` of 1,000 apps with 4 small objects each to a real API server, beside a bare loop that only applies them.

Whole commands on both sides, from the start of Python to the exit code. `fleet sync --no-wait` reads the commit,
evaluates and renders the stack, looks at what is there, plans, takes the Lease, records what it is about to do,
applies, records what it did, looks at everything's health and writes it into git. The bare loop (`bare.py`, no code
of fleet's) reads rendered objects from a file and applies them. Client and server share the machine's cores. A sync
that changes nothing stands beside a bare look (each kind listed and parsed), a sync of one change beside a bare PATCH
of one object: whole commands, too, in the same rounds.

CPU is that of the command and of its children, not of the server. What a commit means is remembered on the machine: a
first sync finds nothing remembered here, an unchanged one does. In a process that goes on, as a service does, what is
left of that is to look and to compare (`again.py`): that is what the goal of a twentieth is about. The whole command
starts Python, loads its modules and asks git besides, which a person waits for and which does not grow with the
fleet; the bare look, which only lists and reads, takes more than a twentieth of a first sync that is this cheap.

The goal of a sync of one change is 2.5 times the bare PATCH and one evaluation of the stack (warm: no process is
started for it) together, measured in the same round; the sync evaluates twice. Whether it grows with what the
repository has besides is measured by `python -m tests.bench beside`.

Two workloads: `apps` (an Etcd, a ConfigMap, a ServiceAccount and a Role each) and `plain` (four ConfigMaps each: the
cheapest for a server and so the hardest comparison). After each side everything is removed, and the sides take turns.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.pool import Pool
from fleet.lab import Lab
from fleet.repository import Repository
from tests.bench import bare, workload
from tests.bench.command import Took, fleet_command, run
from tests.bench.figure import Figure, at_least, at_most, in_turns
from tests.bench.place import CLUSTER, api_server, clear

ROUNDS = 7
CONCURRENCIES = (8, 16, 32)
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
        self.numbers = count()
        workload.change_one(repository, f"change-{next(self.numbers)}")
        self.objects = repository.parent / f"{kind}.json"
        rendered = subprocess.run(
            [self.fleet, "render", "--output=json"], cwd=repository, check=True, capture_output=True
        )
        manifests = [one["manifest"] for one in json.loads(rendered.stdout)[0]["objects"]]
        self.objects.write_text(json.dumps(manifests))
        self.count = len(manifests)
        self.unchanged: list[Took] = []
        self.again: list[float] = []
        self.changed: list[Took] = []
        self.first: list[Took] = []
        self.bare: list[Took] = []
        self.look: list[Took] = []
        self.patch: list[Took] = []
        self.evaluated: list[float] = []
        self.concurrency = 0
        self.memory = repository.parent / f"{kind}-cache"
        self.environment = {"KUBECONFIG": str(lab.kubeconfig), "FLEET_CACHE_DIR": str(self.memory)}

    def figures(self) -> Iterator[Figure]:
        self.concurrency = self.best_concurrency()  # which warms the server up, too
        in_turns(ROUNDS, self.measure_fleet, self.measure_bare)
        pairs = list(zip(self.first, self.bare, strict=True))
        yield self.rate("the bare loop", self.bare, f"the limit; {self.concurrency} requests at once")
        yield self.rate("first sync", self.first)
        yield at_least(
            f"{self.kind}: first sync, share of the bare loop's rate",
            [loop.seconds / sync.seconds for sync, loop in pairs],
            "of it",
            0.7,
            "by pairs",
        )
        yield Figure(f"{self.kind}: first sync, CPU", tuple(one.cpu for one in self.first), "s")
        yield Figure(f"{self.kind}: the bare loop, CPU", tuple(one.cpu for one in self.bare), "s")
        yield from self.limit("bare look: each kind listed and parsed", self.look, "the limit of an unchanged sync")
        yield Figure(f"{self.kind}: unchanged sync", tuple(one.seconds for one in self.unchanged), "s")
        yield Figure(f"{self.kind}: unchanged sync, CPU", tuple(one.cpu for one in self.unchanged), "s")
        for name, took in (("bare look", self.look), ("unchanged sync", self.unchanged)):
            shares = [100 * later.cpu / first.cpu for later, first in zip(took, self.first, strict=True)]
            yield Figure(f"{self.kind}: {name} as a whole command, share of the first's CPU", tuple(shares), "%")
        yield Figure(
            f"{self.kind}: unchanged sync, CPU beside the bare look's",
            tuple(sync.cpu / look.cpu for sync, look in zip(self.unchanged, self.look, strict=True)),
            "times",
            note="by pairs",
        )
        yield Figure(f"{self.kind}: unchanged sync in a process that goes on, CPU", tuple(self.again), "s")
        yield at_most(
            f"{self.kind}: unchanged sync in a process that goes on, share of the first's CPU",
            [100 * later / first.cpu for later, first in zip(self.again, self.first, strict=True)],
            "%",
            5,
        )
        yield from self.limit("bare PATCH of one object", self.patch, "the limit of a sync of one change")
        yield Figure(f"{self.kind}: sync of one change", tuple(one.seconds for one in self.changed), "s")
        yield Figure(f"{self.kind}: sync of one change, CPU", tuple(one.cpu for one in self.changed), "s")
        yield Figure(f"{self.kind}: evaluation of that stack, once", tuple(self.evaluated), "s", note="warm")
        limits = [patch.seconds + alone for patch, alone in zip(self.patch, self.evaluated, strict=True)]
        yield at_most(
            f"{self.kind}: sync of one change, beside bare PATCH and evaluation together",
            [sync.seconds / limit for sync, limit in zip(self.changed, limits, strict=True)],
            "times",
            2.5,
            "by pairs",
        )

    def sync_of_one_change(self) -> Took:
        workload.change_one(self.repository, f"change-{next(self.numbers)}")
        return self.sync()

    def measure_fleet(self) -> float:
        shutil.rmtree(self.memory, ignore_errors=True)
        self.first.append(self.sync())
        self.unchanged.append(self.sync())
        self.again.append(self.look_again())
        self.changed.append(self.sync_of_one_change())
        self.evaluated.append(self.evaluate())
        clear(self.lab, self.kind, NAMESPACE)
        return self.first[-1].seconds

    def measure_bare(self) -> float:
        self.bare.append(self.loop(self.objects, self.concurrency))
        self.look.append(self.without_fleet("list", *(path.format(NAMESPACE) for path in workload.KINDS[self.kind])))
        self.patch.append(self.loop(self.one_changed(), 1))
        clear(self.lab, self.kind, NAMESPACE)
        return self.bare[-1].seconds

    def loop(self, objects: Path, concurrency: int) -> Took:
        return self.without_fleet(objects, str(concurrency))

    def without_fleet(self, *arguments: str | Path) -> Took:
        return run(sys.executable, bare.__file__, self.lab.kubeconfig, CLUSTER, *arguments, cwd=self.repository)

    def one_changed(self) -> Path:
        """The object that a sync of one change is about, with a value that it did not have."""
        found = next(one for one in json.loads(self.objects.read_text()) if one["metadata"]["name"] == "changed")
        file = self.objects.with_suffix(".one.json")
        file.write_text(json.dumps([{**found, "data": {"value": f"change-{next(self.numbers)}"}}]))
        return file

    def best_concurrency(self) -> int:
        """The number of requests at once with which the bare loop is the fastest, tried with every fourth object."""
        some = self.objects.with_suffix(".some.json")
        some.write_text(json.dumps(json.loads(self.objects.read_text())[::4]))  # the namespace is the first

        def one(number: int) -> float:
            took = self.loop(some, number)
            clear(self.lab, self.kind, NAMESPACE)
            return took.seconds

        tried = in_turns(2, *(partial(one, number) for number in CONCURRENCIES))
        return min(zip(CONCURRENCIES, tried, strict=True), key=lambda one: min(one[1]))[0]

    def sync(self) -> Took:
        return run(self.fleet, "sync", "--no-wait", cwd=self.repository, environment=self.environment)

    def evaluate(self) -> float:
        """Return how long the stack takes in a pool that is warm, in seconds."""
        repository = Repository.find(self.repository)
        with Pool() as pool:
            evaluate(repository, stacks=(), pool=pool).check()  # only the clusters: the pool is warm then
            begin = time.monotonic()
            evaluate(repository, pool=pool).check()
            return time.monotonic() - begin

    def look_again(self) -> float:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.again"],
            cwd=self.repository,
            env={**os.environ, **self.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=True,
            capture_output=True,
        )
        return float(done.stdout)

    def rate(self, name: str, took: list[Took], note: str = "") -> Figure:
        values = tuple(self.count / one.seconds for one in took)
        return Figure(f"{self.kind}: {name}", values, "objects/s", note=note)

    def limit(self, name: str, took: list[Took], note: str) -> Iterator[Figure]:
        yield Figure(f"{self.kind}: {name}", tuple(one.seconds for one in took), "s", note=note)
        yield Figure(f"{self.kind}: {name}, CPU", tuple(one.cpu for one in took), "s")
