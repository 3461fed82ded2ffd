"""From two revisions to what their merge would do: evaluate both, compare them, and ask the clusters if asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fleet.errors import ConfigurationError
from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import Evaluation
from fleet.plan import Plan
from fleet.plan.budget import Allowance
from fleet.plan.digest import plan_hash
from fleet.plan.forest import About, Revision
from fleet.preview.between import between
from fleet.preview.live import reachable, with_drift
from fleet.preview.sides import Sides, sides
from fleet.sync.course import courses
from fleet.sync.progress import Progress
from fleet.sync.run import How, Run, preview
from fleet.sync.source import Files


@dataclass(frozen=True, slots=True)
class Merged:
    """Everything that a preview of a merge was made from, for whoever records it."""

    sides: Sides  # of which the files are gone
    before: Evaluation
    after: Evaluation
    changed: tuple[Plan, ...]  # what the merge brings
    live: tuple[Plan, ...]  # what it does in the clusters that were asked
    plan_hash: str
    is_whole: bool  # there is a plan for every stack in every cluster


def of_merge(
    base: str,
    head: str,
    how: How | None = None,
    progress: Progress | None = None,
    *,
    stacks: Sequence[str] = (),
    clusters: Sequence[str] = (),
    pool: Pool | None = None,
    keep: Callable[[Merged], None] = lambda merged: None,
    known: Files | None = None,
) -> tuple[Run, About]:
    """The plans and what they are about. Without `how` no cluster is asked, and no kubeconfig is needed.

    A `pool` that is kept open keeps the evaluation warm for the next time. `keep` is given all they were made from.
    `known` is the base where somebody has it already, evaluated or not.
    """
    with sides(base, head, known=known) as both:
        before, after = _evaluated(both, base, pool)
    settings = both.base.repository.settings
    budget = Allowance(settings.budget.deletions, settings.budget.share)
    changed, leaving = between(before, after, stacks=stacks, clusters=clusters, budget=budget)
    remarks = (*both.remarks, *leaving, *courses(after.stacks, changed))
    about = About(
        depth="desired",
        base=Revision(base, both.before.id, both.before.subject),
        head=Revision(head, both.head.id, both.head.subject),
        tree=both.tree,
        plan_hash=plan_hash(one.plan for one in changed if one.plan),
        hashes={(one.stack, one.cluster): plan_hash([one.plan]) for one in changed if one.plan},
    )
    plans = tuple(one.plan for one in changed if one.plan)
    merged = Merged(both, before, after, plans, (), about.plan_hash, len(plans) == len(changed))
    if how is None or progress is None:
        keep(merged)
        return Run(changed, remarks), about
    asked, unasked = reachable(before, after, stacks=stacks, clusters=clusters)
    claim = replace(how.claim, repository=both.base.identity)
    how = replace(how, budget=budget, claim=claim, accounts=settings.trust.account)
    live = asyncio.run(preview(asked, how, progress))
    keep(replace(merged, live=tuple(one.plan for one in live.results if one.plan)))
    return Run(with_drift(live.results, changed), (*remarks, *unasked, *live.remarks)), replace(about, depth="live")


def _evaluated(both: Sides, base: str, pool: Pool | None) -> tuple[Evaluation, Evaluation]:
    """Both sides, of which nothing is remembered: what the head's code says is nobody's truth yet."""
    if pool is None:
        with Pool() as own:
            return _evaluated(both, base, own)
    # A base that has no directory for stacks yet has none of them: a first stack can be previewed, too.
    directory = both.base.repository.root / both.base.repository.settings.paths.stacks
    named = None if directory.exists() else ()
    before = both.base.remembered or evaluate(both.base.repository, stacks=named, pool=pool)
    if before.problems:
        raise ConfigurationError(
            f"the base itself cannot be evaluated: {before.problems[0].message}",
            hint=f"put {base} right first; `fleet check` says how",
            source=before.problems[0].source,
        )
    return before, evaluate(both.merged, pool=pool).check()
