"""Outcome of a run as the status branch and the git notes store it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fleet.errors import AccessError, ConflictError, FleetError
from fleet.git.status import FindRemoved, choose_remote, report
from fleet.git.status_records import AppRecord, StatusReport
from fleet.kube.client.errors import UnansweredError
from fleet.kube.identity import person_name
from fleet.objects.desired import StackCluster
from fleet.plan.drift import DriftedError
from fleet.sync.result import Result, WaitingError
from fleet.sync.source import Checkout
from fleet.sync.targets import ClusterTarget
from fleet.text import without_output


def check_destination(files: Checkout) -> None:
    """Raise an error if health could not be written into git, while nothing is changed yet."""
    if files.git is not None:
        choose_remote(files.remotes, files.repository.settings.git.remote)


def publish_status(
    files: Checkout,
    results: Sequence[Result],
    removed: Sequence[StackCluster] = (),
    gone: FindRemoved = lambda placements: (),
) -> None:
    """Write what changed to the status branch.

    `removed` are placements that no longer exist. `gone` selects from the placements on the branch those that no longer
    do.
    """
    if files.git is None:
        return
    settings = files.repository.settings.git
    reports = [make_report(result, files.revision) for result in results if not result.leaving]
    left_placements = [
        (result.stack, result.cluster)
        for result in results
        if result.leaving and not result.problem and not result.suspended
    ]
    remote = choose_remote(files.remotes, settings.remote)
    removed = [*left_placements, *removed]
    by = person_name()
    report(files.git, reports, removed=removed, gone=gone, remote=remote, branch=settings.status_branch, by=by)


def observed_results(results: Sequence[Result], looked_at: Collection[str], *, by_account: bool) -> list[Result]:
    """Return the results of placements that this run could observe.

    What the run could not observe says something about this machine and its credentials, and nothing that other users
    should see: the last status on the branch stays. With `by_account`, the rights are those of the stacks' service
    accounts, and a refusal is a result like any other.
    """

    def is_observed(result: Result) -> bool:
        if result.cluster not in looked_at:
            return False
        refused = isinstance(result.problem, AccessError) and not by_account
        return result.plan is not None or not (refused or isinstance(result.problem, UnansweredError))

    return [result for result in results if is_observed(result)]


def removed_placements(targets: Sequence[ClusterTarget]) -> FindRemoved:
    """Return the function that selects the recorded placements which git no longer has.

    It selects none unless the run is over the whole repository.
    """
    if not all(target.complete for target in targets):
        return lambda placements: ()
    clusters = {target.cluster.name for target in targets}
    placed = {(desired.stack, desired.cluster) for target in targets for desired in target.desired}
    stacks = {stack for target in targets for stack in target.stacks}

    def find_removed(placements: Iterable[StackCluster]) -> list[StackCluster]:
        return [
            (stack, cluster)
            for stack, cluster in placements
            if (stack, cluster) not in placed and (cluster not in clusters or stack not in stacks)
        ]

    return find_removed


def make_report(result: Result, revision: str) -> StatusReport:
    """Return the status report of one result; its messages leave out what containers printed."""
    error = result.problem or result.unhealthy
    return StatusReport(
        stack=result.stack,
        cluster=result.cluster,
        revision=revision,
        sync="Suspended" if result.suspended and not result.problem else sync_word(result.problem),
        health=result.health,
        message=without_output(error.message if error else result.suspended or _first_message(result)),
        apps=tuple(
            AppRecord(
                app.kind,
                app.namespace,
                app.called or app.name,
                version=app.version,
                members=app.members,
                available=app.available,
                health=app.state,
                message=without_output(app.message),
            )
            for app in result.objects
            if app.is_app
        ),
    )


def sync_word(problem: FleetError | None) -> str:
    """Return the sync state as the status branch spells it, see fleet.git.status_records."""
    if problem is None:
        return "Synced"
    if isinstance(problem, UnansweredError):
        return "Unreachable"
    if isinstance(problem, DriftedError):
        return "Drifted"
    if isinstance(problem, WaitingError):
        return "Waiting"
    return "Conflict" if isinstance(problem, ConflictError) else "Failed"


def _first_message(result: Result) -> str:
    """Return the first message of an object that is not healthy; "" if there is none."""
    return next(
        (
            f"{health.kind} {health.name}: {health.message}"
            for health in result.objects
            if _has_complaint(health.state, health.message)
        ),
        "",
    )


def _has_complaint(state: str, message: str) -> bool:
    """Return whether the object is not healthy and says why."""
    return state != "Healthy" and bool(message)
