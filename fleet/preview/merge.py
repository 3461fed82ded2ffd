"""What a merge would change.

The two sides of a preview, from git's objects: nothing is checked out, and nothing that is not committed counts.

The head is taken as the merge would be, so what others changed on the base meanwhile is no change of it. Settings and
policy are the base's: a pull request cannot loosen the rules that it is judged by. Its code is that of others, whatever
the settings say: nobody has approved it yet.

A merge against the clusters: what a sync would do after it, every server asked, and which of it is drift.

Clusters are reached as the base says. A pull request that adds a cluster, or that changes how one is reached, decides
nothing about where its own preview sends requests.

From two revisions to what their merge would do: evaluate both, compare them, and ask the clusters if asked to.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.errors import ConfigurationError, FleetError
from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import ClusterData, Evaluation
from fleet.git.merge import merged_tree
from fleet.git.repository import Commit
from fleet.git.tree import Tree
from fleet.objects.desired import Key
from fleet.plan import Plan, Step, Verb
from fleet.plan.budget import DeletionBudget
from fleet.plan.step import plan_hash
from fleet.plan.views.summary import Revision, ViewHeader
from fleet.preview.compare import between
from fleet.repository import Code, Repository, Settings, Trust, find_root
from fleet.repository.settings import FILE
from fleet.sync.progress import Progress
from fleet.sync.result import Result
from fleet.sync.rollout.describe import courses
from fleet.sync.run import How, Run, preview
from fleet.sync.source import Files, commit
from fleet.sync.targets import Target, targets


@dataclass(frozen=True, slots=True)
class Sides:
    base: Files
    merged: Repository  # the files after the merge: with the settings of the base, and never trusted
    before: Commit
    head: Commit
    tree: str  # git's id of the files after the merge
    remarks: tuple[str, ...] = ()


@contextmanager
def sides(base: str, head: str, start: Path | None = None, *, known: Files | None = None) -> Iterator[Sides]:
    """For as long as the block lasts. `known` is the base where somebody has it: of a mirror, without a clone."""
    with nullcontext(known) if known else commit(base, start, known=True) as files:
        git = files.git
        assert git is not None  # noqa: S101 - a commit is of one
        before, after = git.resolve(base), git.resolve(head)
        tree = Tree(git.git, merged_tree(git, before, after), f"{after.short} merged into {before.short}")
        below = Path(known.below) if known else find_root(start).relative_to(git.root.resolve())
        inside = () if below == Path() else (below.as_posix(),)
        with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
            root = Path(directory) / "tree"
            tree.materialise(root, *inside)
            settings = files.repository.settings
            locked = _locked(Tree(git.git, before.tree, before.id), (below / settings.paths.lock).as_posix())
            others = replace(settings, trust=Trust(Code.OTHERS))
            merged = Repository.at(root / below, settings=others, locked=locked)
            remarks = (*_settings_changed(merged.root, settings), *_lock_changed(merged))
            yield Sides(files, merged, before, after, tree.id, remarks)


def _locked(base: Tree, path: str) -> str:
    """The base's lockfile: a pull request does not choose which packages run in its own preview."""
    content = {file.path: file for file in base.files(path)}
    return base.read(path).decode(errors="replace") if path in content else ""


def _lock_changed(merged: Repository) -> tuple[str, ...]:
    file = merged.root / merged.settings.paths.lock
    text = file.read_bytes().decode(errors="replace") if file.is_file() else ""
    if text == merged.locked:
        return ()
    return (f"{merged.settings.paths.lock} changes too; this preview is made with the packages of the base",)


def _settings_changed(root: Path, before: Settings) -> tuple[str, ...]:
    try:
        same = Repository.at(root).settings == before
    except FleetError as problem:
        return (f"{FILE} would be wrong after the merge: {problem.message}",)
    return () if same else (f"{FILE} changes too; this preview is made with the settings of the base",)


MISSING = "drift: git has it already, and the cluster does not"
DIFFERS = "drift: git does not change it; the cluster differs from what git says already"


def reachable(
    before: Evaluation, after: Evaluation, *, stacks: Sequence[str], clusters: Sequence[str]
) -> tuple[tuple[Target, ...], list[str]]:
    """The clusters to ask, and remarks on those that are not asked, or not as the head says."""
    known = {one.name: one for one in before.clusters}
    remarks: list[str] = []
    chosen: list[ClusterData] = []
    for one in after.clusters:
        there = known.get(one.name)
        if clusters and one.name not in clusters:
            continue
        if there is None:
            remarks.append(f"{one.name}: new in this change, so it is not asked; all of it is to create")
            continue
        if (there.context, there.secret, there.pull) != (one.context, one.secret, one.pull):
            remarks.append(f"{one.name}: the change alters how it is reached; it is asked as the base says")
        chosen.append(replace(one, context=there.context, secret=there.secret, pull=there.pull))
    return targets(replace(after, clusters=tuple(chosen)), stacks, ()), remarks


def with_drift(live: Sequence[Result], changed: Sequence[Result]) -> tuple[Result, ...]:
    """Steps of the live plans that the merge does not bring are marked; clusters that were not asked keep theirs."""
    plans = {(one.stack, one.cluster): one.plan for one in changed}
    asked = {(one.stack, one.cluster) for one in live}
    marked = [
        replace(one, plan=_marked(one.plan, plans.get((one.stack, one.cluster)))) if one.plan else one for one in live
    ]
    rest = [one for one in changed if (one.stack, one.cluster) not in asked]
    return tuple(sorted([*marked, *rest], key=lambda one: (one.stack, one.cluster)))


def _marked(live: Plan, changed: Plan | None) -> Plan:
    same: set[Key] = {step.key for step in changed.having(Verb.UNCHANGED)} if changed else set()
    return replace(live, steps=tuple(_drift(step) if step.key in same else step for step in live.steps))


def _drift(step: Step) -> Step:
    if step.verb is Verb.CREATE:
        return step._replace(drift=True, reason=step.reason or MISSING)
    if step.verb is Verb.UPDATE:
        return step._replace(drift=True, reason=step.reason or DIFFERS)
    return step


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
) -> tuple[Run, ViewHeader]:
    """The plans and what they are about. Without `how` no cluster is asked, and no kubeconfig is needed.

    A `pool` that is kept open keeps the evaluation warm for the next time. `keep` is given all they were made from.
    `known` is the base where somebody has it already, evaluated or not.
    """
    with sides(base, head, known=known) as both:
        before, after = _evaluated(both, base, pool)
    settings = both.base.repository.settings
    budget = DeletionBudget(settings.budget.deletions, settings.budget.share)
    changed, leaving = between(before, after, stacks=stacks, clusters=clusters, budget=budget)
    remarks = (*both.remarks, *leaving, *courses(after.stacks, changed))
    about = ViewHeader(
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
