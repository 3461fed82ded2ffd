"""Whether a new commit has lost more than it should: then the service goes on with the one before, and says why.

The rules are those of `fleet sync`. What was there before is what the service itself has seen; where that speaks
against the commit, the status branch is asked whether somebody else has gone that way, which `fleet sync` does if it is
told to (`--allow-deletes`, `--allow-rewritten`). That it does not know what the service has seen is no such word. At
the start only that branch knows, so a remote that does not tell it stops the service until it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from fleet.errors import FleetError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.reporting import chosen, read_status
from fleet.git.repository import Repository
from fleet.git.status import Record
from fleet.model.desired import StackCluster
from fleet.plan.budget import Allowance
from fleet.sync.departures import Placed, check_departures
from fleet.sync.source import Files

HINT = "if it is meant, say so once: fleet sync --allow-rewritten"


def check_loss(
    git: Repository,
    revision: str,
    evaluation: Evaluation,
    allowance: Allowance,
    *,
    before: tuple[str, Collection[StackCluster]] | None,
    memory: Callable[[], Iterable[Record]],
) -> None:
    """Raise PolicyError when the commit does not go on from what was applied, or too much has left git with it.

    `before` is the commit that was followed until now and its placements; None at the start.
    """
    placed = Placed.of(evaluation)
    problem: PolicyError | None = None
    if before is not None:
        try:
            return _check(git, revision, placed, allowance, applied=[before[0]], known=before[1])
        except PolicyError as found:
            problem = found  # somebody may have said that it is meant
    try:
        records = list(memory())
    except FleetError as silence:
        raise problem or silence from None
    applied = {one.revision for one in records if one.revision}
    if before and problem and not _was_gone(git, revision, applied, before[0]):
        raise problem
    return _check(
        git, revision, placed, allowance, applied=applied, known={(one.stack, one.cluster) for one in records}
    )


def _was_gone(git: Repository, revision: str, applied: Collection[str], before: str) -> bool:
    """Whether somebody applied the commit itself, or one on the way to it that the service never followed."""
    unknown = git.outside(applied, before)
    return revision in applied or len(git.outside(unknown, revision)) < len(unknown)


def told(files: Files) -> list[Record]:
    """What the status branch says. One that is not there yet says nothing; one that cannot be read is an error."""
    settings, git = files.repository.settings.git, files.git
    assert git is not None  # noqa: S101 - it is of a mirror
    remote = chosen(files.remotes, settings.remote)
    return list(read_status(git, remote=remote, branch=settings.status_branch).records)


def _check(
    git: Repository,
    revision: str,
    placed: Placed,
    allowance: Allowance,
    *,
    applied: Iterable[str],
    known: Collection[StackCluster],
) -> None:
    strange = git.outside([one for one in applied if one != revision], revision)
    if strange:
        message = f"{revision[:8]} does not go on from {strange[0][:8]}, which was applied: the history was rewritten"
        raise PolicyError(message, hint=HINT)
    check_departures({*known, *placed.pairs}, placed, allowance)
