"""Preview of a merge: evaluate both sides, compare them, and ask the clusters if asked to.

The sides come from git's objects: nothing is checked out, and nothing that is not committed counts. The head is taken
as the merge would be, so what other authors changed on the base meanwhile is no change of it. Settings and policy are
the base's: a pull request cannot loosen the rules that it is judged by. Its code is foreign, whatever the settings say:
it is not approved yet.

Against the clusters, the preview says what a sync would do after the merge, every server asked, and which of it is
drift. Clusters are reached as the base says. A pull request that adds a cluster, or that changes how one is reached,
decides nothing about where its own preview sends requests.
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
from fleet.git.repository import GitCommit
from fleet.git.tree import Tree
from fleet.objects.desired import Key
from fleet.plan import Plan, Step, Verb
from fleet.plan.budget import DeletionBudget
from fleet.plan.step import plan_hash
from fleet.plan.views.summary import NamedRevision, ViewHeader
from fleet.preview.compare import compare_evaluations
from fleet.repository import Code, Repository, Settings, Trust, find_root
from fleet.repository.settings import FILE
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.progress import Progress
from fleet.sync.result import Result
from fleet.sync.rollout.order import describe_rollouts
from fleet.sync.run import NO_HOOKS, Run, plan_fleet
from fleet.sync.source import Commit as BaseCommit
from fleet.sync.source import read_commit
from fleet.sync.targets import ClusterTarget, choose_targets


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a preview: the base, and the base with the head merged."""

    base: BaseCommit
    merged: Repository  # the files after the merge: with the settings of the base, and never trusted
    before: GitCommit
    head: GitCommit
    tree: str  # git's id of the files after the merge
    remarks: tuple[str, ...] = ()


@contextmanager
def open_sides(
    base: str, head: str, start: Path | None = None, *, base_commit: BaseCommit | None = None
) -> Iterator[Sides]:
    """Open both sides for as long as the block lasts.

    `base_commit` is the base where the caller has it: of a mirror, without a clone.
    """
    with nullcontext(base_commit) if base_commit else read_commit(base, start, use_cache=True) as files:
        git = files.git
        before, after = git.resolve(base), git.resolve(head)
        tree = Tree(git.git, merged_tree(git, before, after), f"{after.short} merged into {before.short}")
        below = Path(base_commit.below) if base_commit else find_root(start).relative_to(git.root.resolve())
        inside = () if below == Path() else (below.as_posix(),)
        with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
            root = Path(directory) / "tree"
            tree.materialise(root, *inside)
            settings = files.repository.settings
            locked = _read_lockfile(Tree(git.git, before.tree, before.id), (below / settings.paths.lock).as_posix())
            untrusted = replace(settings, trust=Trust(Code.OTHERS))
            merged = Repository.at(root / below, settings=untrusted, locked=locked)
            remarks = (*_settings_remarks(merged.root, settings), *_lock_remarks(merged))
            yield Sides(files, merged, before, after, tree.id, remarks)


def _read_lockfile(base: Tree, path: str) -> str:
    """Return the base's lockfile: a pull request does not choose which packages run in its own preview."""
    content = {file.path: file for file in base.files(path)}
    return base.read(path).decode(errors="replace") if path in content else ""


def _lock_remarks(merged: Repository) -> tuple[str, ...]:
    file = merged.root / merged.settings.paths.lock
    text = file.read_bytes().decode(errors="replace") if file.is_file() else ""
    if text == merged.locked:
        return ()
    return (f"{merged.settings.paths.lock} changes too; this preview is made with the packages of the base",)


def _settings_remarks(root: Path, before: Settings) -> tuple[str, ...]:
    try:
        same = Repository.at(root).settings == before
    except FleetError as error:
        return (f"{FILE} would be wrong after the merge: {error.message}",)
    return () if same else (f"{FILE} changes too; this preview is made with the settings of the base",)


MISSING_REASON = "drift: git has it already, and the cluster does not"
DIFFERS_REASON = "drift: git does not change it; the cluster differs from what git says already"


def clusters_to_ask(
    before: Evaluation, after: Evaluation, *, stacks: Sequence[str], clusters: Sequence[str]
) -> tuple[tuple[ClusterTarget, ...], list[str]]:
    """Return the clusters to ask, and remarks on those that are not asked, or not as the head says."""
    base_clusters = {cluster.name: cluster for cluster in before.clusters}
    remarks: list[str] = []
    selected: list[ClusterData] = []
    for cluster in after.clusters:
        base_cluster = base_clusters.get(cluster.name)
        if clusters and cluster.name not in clusters:
            continue
        if base_cluster is None:
            remarks.append(f"{cluster.name}: new in this change, so it is not asked; all of it is to create")
            continue
        if (base_cluster.context, base_cluster.secret, base_cluster.pull) != (
            cluster.context,
            cluster.secret,
            cluster.pull,
        ):
            remarks.append(f"{cluster.name}: the change alters how it is reached; it is asked as the base says")
        selected.append(
            replace(cluster, context=base_cluster.context, secret=base_cluster.secret, pull=base_cluster.pull)
        )
    return choose_targets(replace(after, clusters=tuple(selected)), stacks, ()), remarks


def mark_drift(live: Sequence[Result], changed: Sequence[Result]) -> tuple[Result, ...]:
    """Mark the steps of the live plans that the merge does not bring; clusters that were not asked keep theirs."""
    plans = {(result.stack, result.cluster): result.plan for result in changed}
    live_placements = {(result.stack, result.cluster) for result in live}
    marked_results = [
        replace(result, plan=_mark_plan(result.plan, plans.get((result.stack, result.cluster))))
        if result.plan
        else result
        for result in live
    ]
    unasked = [result for result in changed if (result.stack, result.cluster) not in live_placements]
    return tuple(sorted([*marked_results, *unasked], key=lambda result: (result.stack, result.cluster)))


def _mark_plan(live: Plan, changed: Plan | None) -> Plan:
    unchanged_keys: set[Key] = {step.key for step in changed.having(Verb.UNCHANGED)} if changed else set()
    return replace(live, steps=tuple(_mark_step(step) if step.key in unchanged_keys else step for step in live.steps))


def _mark_step(step: Step) -> Step:
    if step.verb is Verb.CREATE:
        return step._replace(drift=True, reason=step.reason or MISSING_REASON)
    if step.verb is Verb.UPDATE:
        return step._replace(drift=True, reason=step.reason or DIFFERS_REASON)
    return step


@dataclass(frozen=True, slots=True)
class MergePreview:
    """Everything that a preview of a merge was made from, for the caller that records it."""

    sides: Sides  # of which the files are gone
    before: Evaluation
    after: Evaluation
    changed: tuple[Plan, ...]  # what the merge brings
    live: tuple[Plan, ...]  # what it does in the clusters that were asked
    plan_hash: str
    is_whole: bool  # there is a plan for every stack in every cluster


def preview_merge(
    base: str,
    head: str,
    options: SyncOptions | None = None,
    progress: Progress | None = None,
    hooks: SyncHooks = NO_HOOKS,
    *,
    stacks: Sequence[str] = (),
    clusters: Sequence[str] = (),
    pool: Pool | None = None,
    keep: Callable[[MergePreview], None] = lambda merged: None,
    base_commit: BaseCommit | None = None,
) -> tuple[Run, ViewHeader]:
    """Return the plans and what they are about.

    Without `options` no cluster is asked, and no kubeconfig is needed. A `pool` that is kept open keeps the
    evaluation warm for the next time. `keep` is given all that the plans were made from. `base_commit` is the base
    where the caller has it already, evaluated or not.
    """
    with open_sides(base, head, base_commit=base_commit) as both:
        before, after = _evaluate_sides(both, base, pool)
    settings = both.base.repository.settings
    budget = DeletionBudget(settings.budget.deletions, settings.budget.share)
    changed, leaving_remarks = compare_evaluations(before, after, stacks=stacks, clusters=clusters, budget=budget)
    remarks = (*both.remarks, *leaving_remarks, *describe_rollouts(after.stacks, changed))
    about = ViewHeader(
        depth="desired",
        base=NamedRevision(base, both.before.id, both.before.subject),
        head=NamedRevision(head, both.head.id, both.head.subject),
        tree=both.tree,
        plan_hash=plan_hash(result.plan for result in changed if result.plan),
        hashes={(result.stack, result.cluster): plan_hash([result.plan]) for result in changed if result.plan},
    )
    plans = tuple(result.plan for result in changed if result.plan)
    merged = MergePreview(both, before, after, plans, (), about.plan_hash, len(plans) == len(changed))
    if options is None or progress is None:
        keep(merged)
        return Run(changed, remarks), about
    cluster_targets, unasked_remarks = clusters_to_ask(before, after, stacks=stacks, clusters=clusters)
    claim = replace(options.claim, repository=both.base.identity)
    options = replace(options, budget=budget, claim=claim, accounts=settings.trust.account)
    live = asyncio.run(plan_fleet(cluster_targets, options, progress, hooks))
    keep(replace(merged, live=tuple(result.plan for result in live.results if result.plan)))
    return Run(mark_drift(live.results, changed), (*remarks, *unasked_remarks, *live.remarks)), replace(
        about, depth="live"
    )


def _evaluate_sides(both: Sides, base: str, pool: Pool | None) -> tuple[Evaluation, Evaluation]:
    """Evaluate both sides and store neither: the result of the head's code is not trusted yet."""
    if pool is None:
        with Pool() as own_pool:
            return _evaluate_sides(both, base, own_pool)
    # A base that has no directory for stacks yet has none of them: a first stack can be previewed, too.
    directory = both.base.repository.root / both.base.repository.settings.paths.stacks
    stack_names = None if directory.exists() else ()
    before = both.base.remembered or evaluate(both.base.repository, stacks=stack_names, pool=pool)
    if before.problems:
        raise ConfigurationError(
            f"the base itself cannot be evaluated: {before.problems[0].message}",
            hint=f"put {base} right first; `fleet check` says how",
            source=before.problems[0].source,
        )
    return before, evaluate(both.merged, pool=pool).check()
