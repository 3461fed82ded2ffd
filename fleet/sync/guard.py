"""What is looked at once all plans are made and before anything is written: has git lost more than it should?

The status branch remembers what the last sync found in git. It is read as this clone last saw it, which costs nothing,
and anew where something is taken away or is missing: neither an old memory nor a remote that is silent may decide.
"""

from __future__ import annotations

from collections.abc import Collection

from fleet.errors import PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.depth import with_history
from fleet.git.reporting import chosen, read_pairs
from fleet.git.repository import Repository
from fleet.model.desired import StackCluster
from fleet.plan.budget import Allowance, taken_away
from fleet.sync.departures import Placed, check_departures
from fleet.sync.lineage import check_lineage
from fleet.sync.run import Run
from fleet.sync.source import Files


def check_run(
    files: Files,
    evaluation: Evaluation,
    planned: Run,
    allowance: Allowance,
    *,
    stacks: Collection[str] = (),
    remembered: bool = True,
    back: bool = False,
    rewritten: bool = False,
) -> None:
    """Raise what stops the run. Not `remembered`: the status branch is neither read nor written."""
    plans = [one.plan for one in planned.results if one.plan and not one.problem]
    if files.git is not None and not rewritten:
        check_lineage(files.git, files.revision, plans, back=back, deepened=lambda git: _deepened(files, git))
    placed = Placed.of(evaluation, stacks)
    seen = {*placed.pairs, *((one.stack, one.cluster) for one in plans)}
    check_departures(seen if placed.stacks else {*seen, *planned.orphans}, placed, allowance)
    if not remembered or files.git is None:
        return
    fresh = any(taken_away(one) for one in plans)
    known = _known(files, fresh=fresh)
    try:
        check_departures({*(known or ()), *seen}, placed, allowance)
    except PolicyError:
        if fresh:
            raise
        check_departures({*(_known(files, fresh=True) or ()), *seen}, placed, allowance)


def _deepened(files: Files, git: Repository) -> Repository:
    settings = files.repository.settings.git
    return with_history(git, chosen(files.remotes, settings.remote), settings.branch)


def _known(files: Files, *, fresh: bool) -> frozenset[StackCluster] | None:
    """From this clone if it has it; else, or if it must be `fresh`, from the remote."""
    settings, git = files.repository.settings.git, files.git
    assert git is not None  # noqa: S101 - asked for by those who have one
    remote = chosen(files.remotes, settings.remote)
    found = None if fresh else read_pairs(git, remote, branch=settings.status_branch, fresh=False)
    return found if found is not None else read_pairs(git, remote, branch=settings.status_branch)
