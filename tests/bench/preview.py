"""A preview of a merge that changes 10 of 1,000 apps on each of 3 clusters: the whole command, and where its time goes.

`git against git` asks no cluster; `--live` reads all 3,000 apps and tries the 30 changes in dry runs. The shares are
those of the same work done stage by stage in one process that is running. The audit logs are read afterwards: a write
would be an error and no figure.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from fleet.evaluate import Pool, evaluate
from fleet.kube.client.client import Client
from fleet.lab import Lab
from fleet.lab.programs.process import identify
from fleet.plan.budget import DeletionBudget
from fleet.plan.ownership import RepositoryOwnership
from fleet.preview.compare import compare_evaluations
from fleet.preview.merge import clusters_to_ask, open_sides
from fleet.sync.apply import dry_run
from fleet.sync.options import SyncOptions
from fleet.sync.progress import LineProgress
from fleet.sync.result import Result
from fleet.sync.run import plan_fleet
from fleet.testing.audit import AuditLog
from tests.bench.command import Took, fleet_command, run
from tests.bench.figure import Figure
from tests.bench.workload import git

APPS, CHANGED, ROUNDS = 1000, 10, 5
CLUSTERS = ("c1", "c2", "c3")
STACK = f"""
import fleet
from fleet.apps import Etcd


@fleet.stack(clusters={list(CLUSTERS)!r})
def thousand(cluster: fleet.Cluster) -> None:
    for number in range({APPS}):
        Etcd(f"app-{{number:04}}", version="3.5", members=3 if number >= CHANGED else 5, storage="1Gi")
"""


def figures() -> Iterator[Figure]:
    fleet = fleet_command()
    lab = Lab.up(f"bench{os.getpid()}", list(CLUSTERS), nodes="simulated", owner=identify(os.getpid()))
    try:
        definitions = subprocess.run(
            [sys.executable, "-m", "fleet", "crds"], check=True, capture_output=True, text=True
        )
        for name in CLUSTERS:
            lab.kubectl(name, "apply", "--server-side", "-f", "-", input=definitions.stdout)
            lab.kubectl(name, "wait", "--for=condition=Established", "crd", "--all")
        with tempfile.TemporaryDirectory() as directory:
            root = _repository(Path(directory) / "repository")
            environment = {"KUBECONFIG": str(lab.kubeconfig), "FLEET_CACHE_DIR": str(Path(directory) / "cache")}
            run(fleet, "sync", "--no-wait", "--no-status", "--revision=main", cwd=root, environment=environment)
            yield from _figures(fleet, root, lab, environment)
    finally:
        lab.down()


def _repository(root: Path) -> Path:
    for name in ("stacks", "clusters"):
        (root / name).mkdir(parents=True)
    (root / "fleet.toml").write_text('[fleet]\nname = "bench"\n')
    clusters = "\n".join(f"fleet.Cluster({name!r})" for name in CLUSTERS)
    (root / "clusters" / "lab.py").write_text(f"import fleet\n\n{clusters}\n")
    for branch, changed in (("main", 0), ("change", CHANGED)):
        (root / "stacks" / "thousand.py").write_text(STACK.replace("CHANGED", str(changed)))
        if branch == "main":
            git(root, "init", "--quiet", "--initial-branch=main")
            git(root, "config", "user.name", "Bench")
            git(root, "config", "user.email", "bench@example.com")
        else:
            git(root, "checkout", "--quiet", "-b", branch)
        git(root, "add", ".")
        git(root, "commit", "--quiet", f"--message={branch}")
    return root


def _figures(fleet: Path, root: Path, lab: Lab, environment: dict[str, str]) -> Iterator[Figure]:
    logs = {name: AuditLog(lab.plane(lab.spec.cluster(name)).audit_log) for name in CLUSTERS}
    marks = {name: log.mark() for name, log in logs.items()}
    desired: list[Took] = []
    live: list[Took] = []
    stages: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        desired.append(run(fleet, "preview", "--base=main", "--output=json", cwd=root, environment=environment))
        live.append(run(fleet, "preview", "--base=main", "--live", "--output=json", cwd=root, environment=environment))
        for name, seconds in _stages(root, lab.kubeconfig).items():
            stages.setdefault(name, []).append(seconds)
    for name, log in logs.items():
        asked = log.requests(marks[name], agent="fleet/")
        written = [request for request in asked if request.is_write]
        tried = sum(request.dry_run for request in asked)
        if written or tried != 2 * ROUNDS * CHANGED:
            raise RuntimeError(f"previews of {name}: {tried} dry runs, and these writes: {written[:3]}")
    yield Figure("git against git, the whole command", tuple(one.seconds for one in desired), "s")
    yield Figure("git against git, CPU", tuple(one.cpu for one in desired), "s")
    yield Figure(
        "--live, the whole command",
        tuple(one.seconds for one in live),
        "s",
        note="30 dry runs each, no write in 3 audit logs",
    )
    yield Figure("--live, CPU", tuple(one.cpu for one in live), "s")
    totals = [sum(values) for values in zip(*stages.values(), strict=True)]
    for name, values in stages.items():
        share = 100 * sum(values) / sum(totals)
        yield Figure(f"stage: {name}", tuple(values), "s", note=f"{share:.0f} % of all stages")


def _stages(root: Path, kubeconfig: Path) -> dict[str, float]:
    took: dict[str, float] = {}
    begin = time.monotonic()
    with open_sides("main", "change", root) as both, Pool() as pool:
        took["git: two trees, merged"] = time.monotonic() - begin
        begin = time.monotonic()
        before = evaluate(both.base.repository, pool=pool).check()
        after = evaluate(both.merged, pool=pool).check()
        took["evaluate both sides"] = time.monotonic() - begin
    begin = time.monotonic()
    compare_evaluations(before, after, budget=DeletionBudget())
    took["diff, git against git"] = time.monotonic() - begin
    asked, _ = clusters_to_ask(before, after, stacks=(), clusters=())
    begin = time.monotonic()
    claim = RepositoryOwnership(both.base.identity)
    found = asyncio.run(plan_fleet(asked, SyncOptions(kubeconfig, claim=claim), LineProgress(prints_phases=False)))
    took["read 3 clusters and diff"] = time.monotonic() - begin
    took["dry runs"] = asyncio.run(_rehearsal(kubeconfig, found.results))
    return took


async def _rehearsal(kubeconfig: Path, results: Sequence[Result]) -> float:
    """Of all clusters at once, through connections that are there already, as those are that have just looked."""
    async with AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(Client.of(kubeconfig, name)) for name in CLUSTERS}
        for client in clients.values():
            await client.discovery()
        begin = time.monotonic()
        done = await asyncio.gather(
            *(dry_run(client, [one for one in results if one.cluster == name], {}) for name, client in clients.items())
        )
        seconds = time.monotonic() - begin
    problems = [one.problem for each in done for one in each.results if one.problem]
    if problems:
        raise RuntimeError(f"dry runs: {problems[:3]}")
    return seconds
