"""Evaluation and rendering of one stack with 1,000 apps of 4 small objects each, beside the least that Python can do.

The limit makes the same objects as plain dictionaries and encodes them as JSON, in a process that is running: no
types, no checks, no sources, no process between user code and ours. `warm` is an evaluation by a pool that is kept
open, as a service does it; `fleet render` is the whole command, with the start of Python and of the pool.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from fleet.evaluate import Pool, evaluate
from fleet.repository import Repository
from tests.bench import workload
from tests.bench.command import Took, fleet_command, run
from tests.bench.figure import Figure, in_turns
from tests.bench.workload import APPS, OBJECTS

ROUNDS = 9


def figures() -> Iterator[Figure]:
    fleet = fleet_command()
    with tempfile.TemporaryDirectory() as directory:
        for kind in ("apps", "plain"):
            root = workload.write(Path(directory) / kind, kind)
            yield from _figures(kind, root, fleet)


def _figures(kind: str, root: Path, fleet: Path) -> Iterator[Figure]:
    repository = Repository.at(root)
    commands: list[Took] = []

    def command() -> float:
        commands.append(run(fleet, "render", "--output=json", cwd=root))
        return commands[-1].seconds

    with Pool() as pool, Pool(twice=True) as pair:

        def warm() -> float:
            begin = time.monotonic()
            evaluation = evaluate(repository, pool=pool).check()
            around = 2 if kind == "apps" else 1  # the namespace, and the operator's rights where there are apps
            assert len(evaluation.stacks[0].desired[0].objects) == OBJECTS + around
            return time.monotonic() - begin

        def twice() -> float:
            begin = time.monotonic()
            evaluate(repository, pool=pair, twice=True).check()
            return time.monotonic() - begin

        warm(), twice()
        least, once, both, whole = in_turns(ROUNDS, lambda: _least(kind), warm, twice, command)
    yield Figure(f"{kind}: the same objects as dictionaries and JSON", tuple(least), "s", note="the limit")
    yield Figure(f"{kind}: evaluate and render, warm", tuple(once), "s", note=f"{OBJECTS} objects")
    yield Figure(f"{kind}: evaluate and render, warm, per object", tuple(1e6 * one / OBJECTS for one in once), "µs")
    yield Figure(f"{kind}: evaluate and render twice, warm", tuple(both), "s", note="proved deterministic")
    yield Figure(f"{kind}: fleet render", tuple(whole), "s", note="the whole command")
    yield Figure(f"{kind}: fleet render, CPU", tuple(one.cpu for one in commands), "s")


def _least(kind: str) -> float:
    begin = time.monotonic()
    made = (one for number in range(APPS) for one in _PLAIN[kind](f"app-{number:04}"))
    about = {
        "namespace": "thousand",
        "labels": {"app.kubernetes.io/managed-by": "fleet", "fleet.dev/stack": "thousand"},
    }
    orjson.dumps([{**one, "metadata": {"name": name, **about}} for name, one in made])
    return time.monotonic() - begin


def _of_an_app(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        name,
        {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Etcd",
            "spec": {"version": "3.5", "members": 3, "volume": {"storage": "1Gi"}},
        },
    )
    endpoint = f"https://{name}.thousand.svc:2379"
    yield name, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"endpoint": endpoint, "level": "info"}}
    yield name, {"apiVersion": "v1", "kind": "ServiceAccount"}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}
    yield name, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [rule]}


def _of_config_maps(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for part in ("client", "server", "log", "limits"):
        data = {"app": name, "part": part, "level": "info"}
        yield f"{name}-{part}", {"apiVersion": "v1", "kind": "ConfigMap", "data": data}


_PLAIN = {"apps": _of_an_app, "plain": _of_config_maps}
