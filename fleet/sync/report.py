"""A run's outcome, as the status branch and the notes hold it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fleet.errors import AccessError, ConflictError, FleetError
from fleet.git.status import FindRemoved, choose_remote, report
from fleet.git.status_records import App, StatusReport
from fleet.kube.client.errors import UnansweredError
from fleet.kube.identity import person_name
from fleet.objects.desired import StackCluster
from fleet.plan.drift import DriftedError
from fleet.sync.result import Result, WaitingError
from fleet.sync.source import Checkout
from fleet.sync.targets import ClusterTarget
from fleet.text import without_output


def check_destination(files: Checkout) -> None:
    """Raise when health could not be written into git, while nothing is changed yet."""
    if files.git is not None:
        choose_remote(files.remotes, files.repository.settings.git.remote)


def publish_status(
    files: Checkout,
    results: Sequence[Result],
    removed: Sequence[StackCluster] = (),
    gone: FindRemoved = lambda known: (),
) -> None:
    """Write what changed. `removed` are pairs that are no more, `gone` says which of those that are known."""
    if files.git is None:
        return
    settings = files.repository.settings.git
    reports = [make_report(one, files.revision) for one in results if not one.leaving]
    left = [(one.stack, one.cluster) for one in results if one.leaving and not one.problem and not one.suspended]
    remote = choose_remote(files.remotes, settings.remote)
    removed = [*left, *removed]
    by = person_name()
    report(files.git, reports, removed=removed, gone=gone, remote=remote, branch=settings.status_branch, by=by)


def observed_results(results: Sequence[Result], looked_at: Collection[str], *, by_account: bool) -> list[Result]:
    """Those that this run could look at. `by_account`: rights are those of the stacks' accounts.

    What it could not look at says something about this machine and its credentials, and nothing that others should see:
    the last that is known stays.
    """

    def is_seen(one: Result) -> bool:
        if one.cluster not in looked_at:
            return False
        refused = isinstance(one.problem, AccessError) and not by_account
        return one.plan is not None or not (refused or isinstance(one.problem, UnansweredError))

    return [one for one in results if is_seen(one)]


def removed_placements(targets: Sequence[ClusterTarget]) -> FindRemoved:
    """Which pairs of the status branch git does not know any more; for a run over the whole repository."""
    if not all(target.complete for target in targets):
        return lambda known: ()
    clusters = {target.cluster.name for target in targets}
    placed = {(one.stack, one.cluster) for target in targets for one in target.desired}
    stacks = {stack for target in targets for stack in target.stacks}

    def gone(known: Iterable[StackCluster]) -> list[StackCluster]:
        return [
            (stack, cluster)
            for stack, cluster in known
            if (stack, cluster) not in placed and (cluster not in clusters or stack not in stacks)
        ]

    return gone


def make_report(result: Result, revision: str) -> StatusReport:
    error = result.problem or result.unhealthy
    return StatusReport(
        stack=result.stack,
        cluster=result.cluster,
        revision=revision,
        sync="Suspended" if result.suspended and not result.problem else sync_word(result.problem),
        health=result.health,
        message=without_output(error.message if error else result.suspended or _first_message(result)),
        apps=tuple(
            App(
                one.kind,
                one.namespace,
                one.called or one.name,
                version=one.version,
                members=one.members,
                available=one.available,
                health=one.state,
                message=without_output(one.message),
            )
            for one in result.objects
            if one.is_app
        ),
    )


def sync_word(problem: FleetError | None) -> str:
    """How the status branch says it, see fleet.git.status_records."""
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
    return next(
        (f"{one.kind} {one.name}: {one.message}" for one in result.objects if _is_ill(one.state, one.message)), ""
    )


def _is_ill(state: str, message: str) -> bool:
    return state != "Healthy" and bool(message)
