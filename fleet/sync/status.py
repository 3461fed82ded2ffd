"""A run's outcome, as the status branch and the notes hold it."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import ConflictError, FleetError
from fleet.git.reporting import destination, read_status, report
from fleet.git.status import App, Report
from fleet.kube.failure import UnansweredError
from fleet.sync.choice import Target
from fleet.sync.outcome import Result
from fleet.sync.source import Files


def check_destination(files: Files) -> None:
    """Raise when health could not be written into git, while nothing is changed yet."""
    if files.git is not None:
        destination(files.git, files.repository.settings.git.remote)


def publish(files: Files, results: Sequence[Result], gone: Sequence[tuple[str, str]] = ()) -> None:
    """Write what changed. `gone` are (stack, cluster) pairs that are no more."""
    if files.git is None:
        return
    settings = files.repository.settings.git
    reports = [report_of(one, files.revision) for one in results if not one.leaving]
    left = [(one.stack, one.cluster) for one in results if one.leaving and not one.problem]
    report(files.git, reports, removed=[*left, *gone], remote=settings.remote, branch=settings.status_branch)


def no_more(files: Files, targets: Sequence[Target]) -> list[tuple[str, str]]:
    """Pairs that the status branch knows and git does not any more; only for a run over the whole repository."""
    if files.git is None or not all(target.complete for target in targets):
        return []
    settings = files.repository.settings.git
    known = read_status(files.git, remote=settings.remote, branch=settings.status_branch)
    clusters = {target.cluster.name for target in targets}
    placed = {(one.stack, one.cluster) for target in targets for one in target.desired}
    stacks = {stack for target in targets for stack in target.stacks}
    return [
        (one.stack, one.cluster)
        for one in known.records
        if (one.stack, one.cluster) not in placed and (one.cluster not in clusters or one.stack not in stacks)
    ]


def report_of(result: Result, revision: str) -> Report:
    error = result.problem or result.unhealthy
    return Report(
        stack=result.stack,
        cluster=result.cluster,
        revision=revision,
        sync=_word(result.problem),
        health=result.health,
        message=error.message if error else _first_message(result),
        apps=tuple(
            App(one.kind, one.namespace, one.name, version=one.version, health=one.state, message=one.message)
            for one in result.objects
            if one.is_app
        ),
    )


def _word(problem: FleetError | None) -> str:
    if problem is None:
        return "Synced"
    if isinstance(problem, UnansweredError):
        return "Unreachable"
    return "Conflict" if isinstance(problem, ConflictError) else "Failed"


def _first_message(result: Result) -> str:
    return next(
        (f"{one.kind} {one.name}: {one.message}" for one in result.objects if _is_ill(one.state, one.message)), ""
    )


def _is_ill(state: str, message: str) -> bool:
    return state != "Healthy" and bool(message)
