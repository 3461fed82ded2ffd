"""One sync of what was rendered, and the end: for a person, a job, or to say that a rewritten branch is meant."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from fleet.agent.manifests import NAME
from fleet.agent.reading import FromBranch
from fleet.evaluate.result import ClusterData
from fleet.git.reporting import chosen, report
from fleet.kube.client import Client
from fleet.kube.person import program
from fleet.plan import Claim
from fleet.serve.loss import told
from fleet.serve.origin import Origin
from fleet.serve.reading import budget_of
from fleet.serve.wanted import Wanted
from fleet.sync.ordered import Order
from fleet.sync.outcome import Result
from fleet.sync.progress import Progress
from fleet.sync.run import How, connect, sync


def once(
    origin: Origin,
    reading: FromBranch,
    cache: Path,
    how: How,
    progress: Progress,
    *,
    inside: bool,
    status: bool,
    rewritten: bool,
) -> tuple[Wanted, list[Result]]:
    """Fetch, check, apply and report."""
    mirror = origin.mirror(cache)
    tip = mirror.tips(origin.branch)[origin.ref]
    mirror.fetch((origin.refspec,))
    found = reading.read(origin, mirror, tip, None)
    if not rewritten:
        reading.check(found, None, lambda: told(found.files) if status else ())

    def reach(cluster: ClusterData) -> AbstractAsyncContextManager[Client]:
        return Client(in_cluster=True, cluster=cluster.name) if inside else connect(cluster, how.kubeconfig)

    accounts = found.files.repository.settings.trust.account
    how = replace(
        how,
        budget=budget_of(found),
        claim=Claim(found.files.identity),
        accounts=accounts,
        reach=reach,
        order=Order(found.stacks),
    )
    run = asyncio.run(sync(list(found.targets.values()), how, progress, revision=found.revision))
    results = [*(found.after(one) for one in run.results if not one.leaving), *found.unplaced()]
    if status:
        _report(found, results)
    return found, results


def _report(found: Wanted, results: list[Result]) -> None:
    files = found.files
    assert files.git is not None  # noqa: S101 - it is of a mirror
    settings = files.repository.settings.git
    reports = [found.report(one, found.revision) for one in results]
    remote = chosen(files.remotes, settings.remote)
    report(files.git, reports, gone=found.gone, remote=remote, branch=settings.status_branch, by=program(NAME))
