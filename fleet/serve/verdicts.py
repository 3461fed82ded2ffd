"""What a commit's statuses say on the forge: one per stack, and one per cluster only where something failed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fleet.forge.model import State
from fleet.git.status import Report
from fleet.printable import count_noun

MOVING = frozenset({"Progressing", "Missing", "Unknown"})
FAILED = frozenset({"Failed", "Conflict", "Cancelled"})


class Said(NamedTuple):
    state: State
    line: str


def context(stack: str, cluster: str = "") -> str:
    """The status' name."""
    return f"fleet/{stack}/{cluster}" if cluster else f"fleet/{stack}"


def statuses(stack: str, reports: Mapping[str, Report], before: Mapping[str, Said]) -> dict[str, Said]:
    """By context, from the newest report of each cluster of the stack. `before` is what stands there already.

    A cluster that failed before and does no longer has its own status turned, as one cannot be taken away.
    """
    parts = {cluster: _of(report) for cluster, report in sorted(reports.items())}
    ill = {cluster: said for cluster, said in parts.items() if said.state is State.FAILURE}
    waiting = {cluster: said for cluster, said in parts.items() if said.state is State.PENDING}
    if ill:
        cluster, said = next(iter(ill.items()))
        whole = Said(State.FAILURE, f"{len(ill)} of {count_noun(len(parts), 'cluster')}: {cluster}: {said.line}")
    elif waiting:
        cluster, said = next(iter(waiting.items()))
        whole = Said(
            State.PENDING, f"{len(parts) - len(waiting)} of {count_noun(len(parts), 'cluster')}; {cluster}: {said.line}"
        )
    else:
        whole = Said(State.SUCCESS, f"healthy in {count_noun(len(parts), 'cluster')}")
    found = {context(stack): whole} | {context(stack, cluster): said for cluster, said in ill.items()}
    for cluster, said in parts.items():
        if cluster not in ill and context(stack, cluster) in before:
            found[context(stack, cluster)] = said
    return found


def _of(report: Report) -> Said:
    line = report.message or f"{report.sync}, {report.health}"
    if report.sync in FAILED or (report.sync == "Synced" and report.health == "Degraded"):
        return Said(State.FAILURE, line)
    if report.sync != "Synced" or report.health in MOVING:
        return Said(State.PENDING, line)
    return Said(State.SUCCESS, line)
