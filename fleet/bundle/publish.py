"""Compare, refuse and push bundles.

No secret value goes into a branch: whoever can read the branch could read it, and so could every clone, for ever.

What is secret is decided where everything decides it: a Secret by its kind, other kinds by what their definition marks.

One commit for all clusters with agents: what differs from what they were told, what is refused, what may go now.

The same rules as for a sync hold, with the earlier set in the place of the cluster: what would be done is planned as
from one commit to another, so budgets, protection and approvals are asked before anything is pushed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.approval.gate import Gate
from fleet.bundle.model import Budget, RenderedSet, Trouble
from fleet.bundle.rollout import Head, Release, Told, release, standing
from fleet.bundle.storage import LETTERS, read_sets, write_sets
from fleet.errors import ConfigurationError, FleetError, PolicyError
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.refs import Address
from fleet.git.repository import Repository as Git
from fleet.git.status import chosen
from fleet.git.status_records import Record, clean
from fleet.objects.desired import StackCluster
from fleet.objects.redaction import declared_secrecy, secret_texts
from fleet.plan.budget import DeletionBudget
from fleet.preview.compare import between
from fleet.sync.result import Result
from fleet.sync.rollout.approvals import Approvals, digest
from fleet.sync.rollout.gates import Standing
from fleet.sync.safety import Placed, check_departures
from fleet.sync.source import Files
from fleet.sync.targets import check_cluster


def check_secrets(stacks: Iterable[StackResult], clusters: frozenset[str]) -> None:
    """Refuse values of Secrets for these clusters."""
    for stack in stacks:
        for desired in stack.desired:
            if desired.cluster not in clusters:
                continue
            known = declared_secrecy(one.manifest for one in desired.objects)
            for one in desired.objects:
                place = next(iter(secret_texts(one.manifest, known)), None)
                if place is not None:
                    raise PolicyError(
                        f"stack {stack.name}: {one.key} has secret values, and a rendered set is in git for all who "
                        "can read it",
                        hint="name a Secret that is there by fleet.SecretRef and make it in the cluster, or decide "
                        "otherwise with --with-secrets",
                        source=one.source,
                        field=".".join(place[0]),
                    )


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person says about one rendering."""

    clusters: tuple[str, ...] = ()  # of those with agents; (): all
    deletions: int | None = None  # instead of the budget
    rewritten: bool = False
    back: bool = False  # an earlier commit was named
    secrets: bool = False
    require_approved: bool = False
    trouble: Trouble | None = None  # with a newer commit, for agents to report


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the clusters besides their sets."""

    records: Sequence[Record] = ()
    approvals: Approvals = field(default_factory=dict)
    here: Callable[[StackCluster], Standing] | None = (
        None  # of clusters that are reached from here; else by their records
    )


@dataclass(frozen=True, slots=True)
class Rendering:
    results: tuple[Result, ...]  # what is new to each cluster
    waiting: dict[StackCluster, str]
    written: dict[str, str]  # cluster → commit of its branch
    sets: dict[str, RenderedSet]  # with the commit that has each
    standings: dict[StackCluster, Standing]
    again: float | None = None
    remarks: tuple[str, ...] = ()

    @property
    def problems(self) -> list[FleetError]:
        return [one.problem for one in self.results if one.problem]


def chosen_clusters(evaluation: Evaluation, names: Collection[str]) -> tuple[str, ...]:
    """Those with agents, or of them the ones that were named."""
    for name in names:
        found = check_cluster(evaluation.clusters, name)
        if not found.pull:
            raise ConfigurationError(
                f"{name} is reached from outside, so nothing is rendered for it",
                hint="say pull=True in its fleet.Cluster if an agent is to apply there",
                source=found.source,
            )
    return tuple(one.name for one in evaluation.clusters if one.pull and (not names or one.name in names))


def render(
    files: Files, evaluation: Evaluation, wish: Wish, remote: Address | None, seen: Seen, *, now: float
) -> Rendering:
    """Compare, refuse, hold back and push. Clusters against which nothing speaks are written, whatever others have."""
    git, settings = _git(files), files.repository.settings
    clusters = chosen_clusters(evaluation, wish.clusters)
    if not wish.secrets:
        check_secrets(evaluation.stacks, frozenset(clusters))
    before = read_sets(git, remote, settings.git.rendered, clusters)
    if not wish.rewritten:
        _check_lineage(git, files.revision, before, back=wish.back)
    budget = settings.budget
    allowance = (
        DeletionBudget(budget.deletions, budget.share)
        if wish.deletions is None
        else DeletionBudget.override(wish.deletions)
    )
    _check_departures(evaluation, before, seen.records, allowance)
    standings = _Standings(files.revision, before, clusters, seen)
    found = release(
        evaluation,
        clusters,
        _head(files, allowance, wish),
        before,
        standings.of,
        approved=lambda stack: seen.approvals.get((stack.name, digest(stack)), ()),
        now=now,
    )
    results, remarks = _judged(files, evaluation, found, before, allowance, required=wish.require_approved)
    refused = {one.cluster for one in results if one.problem}
    sets = {cluster: one for cluster, one in found.sets.items() if cluster not in refused}
    done = write_sets(git, remote, settings.git.rendered, sets.values(), before).commits
    written = {ref.rpartition("/")[2]: commit for ref, commit in done.items()}
    had = {cluster: one.commit for cluster, one in before.items()} | written
    sets = {cluster: replace(one, commit=had.get(cluster, "")) for cluster, one in sets.items()}
    after = _Standings(files.revision, {**before, **sets}, clusters, seen)
    everywhere = {(stack.name, cluster): after.of((stack.name, cluster)) for stack, cluster in _pulled(evaluation)}
    return Rendering(results, found.waiting, written, sets, everywhere, found.again, remarks)


def heard_of_agents(
    files: Files, pairs: Collection[StackCluster], records: Mapping[StackCluster, Record]
) -> dict[StackCluster, Standing]:
    """How stacks are in clusters that pull, for a run that reaches others: by what was rendered, and agents' words."""
    settings = files.repository.settings.git
    remote = chosen(files.remotes, settings.remote)
    sets = read_sets(_git(files), remote, settings.rendered, sorted({cluster for _, cluster in pairs}))
    return {
        pair: standing(records.get(pair), files.revision, Told.of(sets[pair[1]], pair[0]))
        for pair in pairs
        if pair[1] in sets
    }


def tell_trouble(git: Git, remote: Address | None, prefix: str, clusters: Iterable[str], trouble: Trouble) -> None:
    """Let agents report that a newer commit is of no use; what they were told stays."""
    before = read_sets(git, remote, prefix, clusters)
    said = replace(trouble, message=clean(trouble.message, LETTERS))
    sets = [replace(one, index=replace(one.index, trouble=said)) for one in before.values()]
    write_sets(git, remote, prefix, sets, before)


@dataclass(slots=True)
class _Standings:
    """How every stack is everywhere at one commit."""

    revision: str
    before: Mapping[str, RenderedSet]
    clusters: Collection[str]
    seen: Seen
    _records: dict[StackCluster, Record] = field(init=False)

    def __post_init__(self) -> None:
        self._records = {(one.stack, one.cluster): one for one in self.seen.records}

    def of(self, pair: StackCluster) -> Standing:
        stack, cluster = pair
        told = self.before.get(cluster)
        if told is not None:
            return standing(self._records.get(pair), self.revision, Told.of(told, stack))
        if cluster not in self.clusters and self.seen.here is not None:
            return self.seen.here(pair)
        return standing(self._records.get(pair), self.revision)


def _judged(
    files: Files,
    evaluation: Evaluation,
    found: Release,
    before: Mapping[str, RenderedSet],
    allowance: DeletionBudget,
    *,
    required: bool,
) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """What would be done in each cluster, with what the repository's rules have against it."""
    results, remarks = between(_together(before.values()), _together(found.sets.values()), budget=allowance)
    based = [_based(one, before) for one in results]
    return tuple(Gate(files, evaluation, required=required).judge(based)), remarks


def _based(result: Result, before: Mapping[str, RenderedSet]) -> Result:
    """With the commit that the plan builds on, as an inventory would have it."""
    told = before.get(result.cluster)
    part = told.parts.get(result.stack) if told else None
    if result.plan is None or part is None:
        return result
    return replace(result, plan=replace(result.plan, inventory=replace(result.plan.inventory, revision=part.revision)))


def _together(sets: Iterable[RenderedSet]) -> Evaluation:
    all_ = [one.evaluation() for one in sets]
    return Evaluation(
        tuple(cluster for one in all_ for cluster in one.clusters),
        tuple(stack for one in all_ for stack in one.stacks),
    )


def _pulled(evaluation: Evaluation) -> Iterable[tuple[StackResult, str]]:
    pull = {one.name for one in evaluation.clusters if one.pull}
    return ((stack, cluster) for stack in evaluation.stacks for cluster in stack.clusters if cluster in pull)


def _head(files: Files, allowance: DeletionBudget, wish: Wish) -> Head:
    settings = files.repository.settings
    if not files.identity:
        raise ConfigurationError(
            "agents would not know whose stacks these are", hint='give the fleet a name: [fleet] name = "…"'
        )
    return Head(
        files.identity,
        files.revision,
        clean(files.subject, LETTERS),
        Budget(allowance.deletions, float(allowance.share)),
        settings.trust.account,
        settings.git.status_branch,
        said=wish.deletions is not None,
        trouble=replace(wish.trouble, message=clean(wish.trouble.message, LETTERS)) if wish.trouble else None,
    )


def _check_lineage(git: Git, revision: str, before: Mapping[str, RenderedSet], *, back: bool) -> None:
    told = {one.index.revision: cluster for cluster, one in before.items() if one.index.revision != revision}
    for one in git.outside(told, revision):
        if back and not git.outside([revision], one):
            continue
        raise PolicyError(
            f"{revision[:8]} does not go on from {one[:8]}, which was rendered for {told[one]}: "
            "the history was rewritten",
            hint="was it pushed by force, or is this another branch? If it is meant, say --allow-rewritten once",
        )


def _check_departures(
    evaluation: Evaluation, before: Mapping[str, RenderedSet], records: Iterable[Record], allowance: DeletionBudget
) -> None:
    placed = Placed.of(evaluation)
    known = {(stack, cluster) for cluster, one in before.items() for stack in one.known}
    known |= {(one.stack, one.cluster) for one in records}
    check_departures({*known, *placed.pairs}, placed, allowance)


def _git(files: Files) -> Git:
    assert files.git is not None  # noqa: S101 - only commits are rendered for agents
    return files.git
