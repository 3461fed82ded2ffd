"""Operators of 2,000 custom resources: ours beside controller-runtime (Go) and Kopf, all on the same API server.

They do the same work: each object gets a child ConfigMap and a status, both by server-side apply; then its three
members are probed every 10 s (a small HTTP server stands in for the engine), which is a status write only if their
health changed. Kopf writes its status its own way, and is spared the watch on children that the other two keep. The
objects are there before the operator starts. 16 passes at once (128 with Kopf, which does best with that; by default it
has no limit and overwhelms the server); no limits on requests; no election; no events.

The rate is from the first object that has its status to the last. CPU is that of the operator's process, from its
start until all objects have their status, and until all members were probed once; `steady` is its share of one core in
30 s of probes afterwards. A probe is the same HTTP request for all three, so the longer the window, the less the
operators differ: the status of a member of etcd. Ours asks for it by the client of the etcd engine that is shipped,
which checks every field of the answer; the others by the HTTP client that their users would take (Kopf's is aiohttp),
and look at one field. The goal for the CPU with the probes is from the time when ours sent them over a faster client of
its own, which the engine does not use. Memory is the most it ever had. `bare` only sends the writes: no list, no watch,
no probes. The server shares the machine's cores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial

from tests.bench.figure import Figure, at_least, at_most, in_turns
from tests.bench.operators import sides
from tests.bench.operators.engine import Engine
from tests.bench.operators.kind import DEFINITION
from tests.bench.operators.run import Took, Work
from tests.bench.place import CLUSTER, api_server

ROUNDS = 5
WITH_STEADY = 3  # of the rounds
STEADY = 30.0
OURS, GO, KOPF, BARE = range(4)


def figures() -> Iterator[Figure]:
    commands = sides.commands()
    names = list(commands)
    took: list[list[Took]] = [[] for _ in names]
    with api_server() as lab, Engine() as engine:
        lab.kubectl(CLUSTER, "apply", "--server-side", "-f", "-", input=json.dumps(DEFINITION))
        lab.kubectl(CLUSTER, "wait", "--for=condition=Established", f"crd/{DEFINITION['metadata']['name']}")
        work = Work(lab.kubeconfig, CLUSTER, engine)
        work.run(names[BARE], commands[names[BARE]])  # warms the server up

        def once(side: int) -> float:
            steady = STEADY if side != BARE and len(took[side]) < WITH_STEADY else 0.0
            took[side].append(work.run(names[side], commands[names[side]], steady=steady))
            print(f"  {names[side]}: {took[side][-1]}", file=sys.stderr)
            return took[side][-1].rate

        in_turns(ROUNDS, *(partial(once, side) for side in range(len(names))))
    yield from _figures(names, took)


def _figures(names: list[str], took: list[list[Took]]) -> Iterator[Figure]:
    ours, go, kopf = took[OURS], took[GO], took[KOPF]

    def of_all(what: str, unit: str, of: Callable[[Took], float], *, steady: bool = False) -> Iterator[Figure]:
        for name, runs in zip(names, took, strict=True):
            values = tuple(of(one) for one in runs if one.probes or not steady)
            if values:
                yield Figure(f"{name}: {what}", values, unit)

    yield from of_all("rate", "objects/s", lambda one: one.rate)
    yield at_least("ours, share of controller-runtime's rate", _shares(ours, go, "rate"), "of it", 1, "by pairs")
    yield from of_all("CPU until all is so", "s", lambda one: one.cpu)
    yield at_most("ours, share of Kopf's CPU", _shares(ours, kopf, "cpu"), "of it", 0.25, "by pairs")
    yield from of_all("CPU until all are probed once", "s", lambda one: one.probed, steady=True)
    probed = _shares(ours, kopf, "probed")
    yield at_most("ours, share of Kopf's CPU, probes included", probed, "of it", 0.25, "by pairs")
    yield from of_all("CPU, steady", "% of a core", lambda one: one.steady, steady=True)
    yield Figure(
        "ours, share of Kopf's CPU, steady",
        tuple(_shares(ours, kopf, "steady")),
        "of it",
        note="by pairs; no goal: see above",
    )
    yield from of_all("probes, steady", "/s", lambda one: one.probes, steady=True)
    yield at_most(f"{names[OURS]}: memory", [one.memory for one in ours], "MB", 120)
    yield from [one for one in of_all("memory", "MB", lambda one: one.memory) if not one.name.startswith(names[OURS])]
    yield from of_all("from the start of the process to the first status", "s", lambda one: one.start)


def _shares(ours: list[Took], theirs: list[Took], what: str) -> list[float]:
    pairs = ((getattr(one, what), getattr(other, what)) for one, other in zip(ours, theirs, strict=True))
    return [one / other for one, other in pairs if other]
