"""Publishing of bundles: compare one commit for all clusters with agents with their last bundles, refuse, and push.

The same rules as for a sync hold, with the earlier bundle in the place of the cluster: what would be done is planned as
from one commit to another, so budgets, protection and approvals are asked before anything is pushed.

No secret value goes into a branch: every user who can read the branch could read it, and so could every clone, for
ever. What is secret is decided as everywhere: a Secret by its kind, other kinds by what their definition marks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.approval.gate import ApprovalCheck
from fleet.bundle.model import Bundle, BundleBudget, CommitError
from fleet.bundle.rollout import BundledStack, BundleHeader, BundlePlan, plan_bundles, state_from_record
from fleet.bundle.storage import MOST_LETTERS, read_bundles, write_bundles
from fleet.errors import ConfigurationError, FleetError, PolicyError
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.refs import Address
from fleet.git.repository import GitRepository
from fleet.git.status import choose_remote
from fleet.git.status_records import StatusRecord, clean
from fleet.objects.desired import StackCluster
from fleet.objects.redaction import declared_secrecy, secret_texts
from fleet.plan.budget import DeletionBudget
from fleet.preview.compare import compare_evaluations
from fleet.sync.result import Result
from fleet.sync.rollout.approvals import Approvals
from fleet.sync.rollout.gates import RolloutState
from fleet.sync.safety import Placements, check_removed_placements
from fleet.sync.source import Commit
from fleet.sync.targets import check_cluster


def check_secrets(stacks: Iterable[StackResult], clusters: frozenset[str]) -> None:
    """Refuse values of Secrets for these clusters; raise PolicyError for the first."""
    for stack in stacks:
        for desired in stack.desired:
            if desired.cluster not in clusters:
                continue
            secrecy = declared_secrecy(obj.manifest for obj in desired.objects)
            for obj in desired.objects:
                secret_text = next(iter(secret_texts(obj.manifest, secrecy)), None)
                if secret_text is not None:
                    raise PolicyError(
                        f"stack {stack.name}: {obj.key} has secret values, and a rendered set is in git for all who "
                        "can read it",
                        hint="name a Secret that is there by fleet.SecretRef and make it in the cluster, or decide "
                        "otherwise with --with-secrets",
                        source=obj.source,
                        field=".".join(secret_text[0]),
                    )


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """The options of one run of `fleet render`."""

    clusters: tuple[str, ...] = ()  # of those with agents; (): all
    deletions: int | None = None  # instead of the budget
    rewritten: bool = False
    back: bool = False  # an earlier commit was named
    secrets: bool = False
    require_approved: bool = False
    trouble: CommitError | None = None  # with a newer commit, for agents to report


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observed state of the clusters besides their bundles."""

    records: Sequence[StatusRecord] = ()
    approvals: Approvals = field(default_factory=dict)
    reached_states: Callable[[StackCluster], RolloutState] | None = (
        None  # of clusters that are reached from here; else by their records
    )


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of publishing one commit."""

    results: tuple[Result, ...]  # what is new to each cluster
    waiting: dict[StackCluster, str]
    written: dict[str, str]  # cluster → commit of its branch
    bundles: dict[str, Bundle]  # with the commit that has each
    standings: dict[StackCluster, RolloutState]
    again: float | None = None
    remarks: tuple[str, ...] = ()

    @property
    def problems(self) -> list[FleetError]:
        return [result.problem for result in self.results if result.problem]


def select_clusters(evaluation: Evaluation, names: Collection[str]) -> tuple[str, ...]:
    """Return the clusters with agents, or of them the ones that were named.

    Raises ConfigurationError for a name of a cluster without an agent.
    """
    for name in names:
        cluster = check_cluster(evaluation.clusters, name)
        if not cluster.pull:
            raise ConfigurationError(
                f"{name} is reached from outside, so nothing is rendered for it",
                hint="say pull=True in its fleet.Cluster if an agent is to apply there",
                source=cluster.source,
            )
    return tuple(
        cluster.name for cluster in evaluation.clusters if cluster.pull and (not names or cluster.name in names)
    )


def publish_bundles(
    files: Commit,
    evaluation: Evaluation,
    options: PublishOptions,
    remote: Address | None,
    observed: ObservedState,
    *,
    now: float,
) -> PublishResult:
    """Compare, refuse, hold back and push.

    A cluster is written if nothing is refused in it, whatever was refused in the others.
    """
    git, settings = files.git, files.repository.settings
    clusters = select_clusters(evaluation, options.clusters)
    if not options.secrets:
        check_secrets(evaluation.stacks, frozenset(clusters))
    before = read_bundles(git, remote, settings.git.rendered, clusters)
    if not options.rewritten:
        _check_lineage(git, files.revision, before, back=options.back)
    defaults = settings.budget
    budget = (
        DeletionBudget(defaults.deletions, defaults.share)
        if options.deletions is None
        else DeletionBudget.override(options.deletions)
    )
    _check_departures(evaluation, before, observed.records, budget)
    states = _StackStates(files.revision, before, clusters, observed)
    plan = plan_bundles(
        evaluation,
        clusters,
        _make_header(files, budget, options),
        before,
        {pair: states.of(pair) for pair in _watched_placements(evaluation, clusters)},
        approvals=observed.approvals,
        now=now,
    )
    results, remarks = _judge_changes(files, evaluation, plan, before, budget, required=options.require_approved)
    refused_clusters = {result.cluster for result in results if result.problem}
    bundles = {cluster: bundle for cluster, bundle in plan.bundles.items() if cluster not in refused_clusters}
    commits = write_bundles(git, remote, settings.git.rendered, bundles.values(), before).commits
    written = {ref.rpartition("/")[2]: commit for ref, commit in commits.items()}
    commit_of = {cluster: bundle.commit for cluster, bundle in before.items()} | written
    bundles = {cluster: replace(bundle, commit=commit_of.get(cluster, "")) for cluster, bundle in bundles.items()}
    states_after = _StackStates(files.revision, {**before, **bundles}, clusters, observed)
    all_states = {pair: states_after.of(pair) for pair in _pulled_placements(evaluation)}
    return PublishResult(results, plan.waiting, written, bundles, all_states, plan.again, remarks)


def read_agent_states(
    files: Commit, pairs: Collection[StackCluster], records: Mapping[StackCluster, StatusRecord]
) -> dict[StackCluster, RolloutState]:
    """Return the state of stacks in clusters that pull, for a run that reaches the others.

    It comes from what was rendered and from what agents report.
    """
    settings = files.repository.settings.git
    remote = choose_remote(files.remotes, settings.remote)
    bundles = read_bundles(files.git, remote, settings.rendered, sorted({cluster for _, cluster in pairs}))
    return {
        pair: state_from_record(records.get(pair), files.revision, BundledStack.of(bundles[pair[1]], pair[0]))
        for pair in pairs
        if pair[1] in bundles
    }


def publish_error(
    git: GitRepository, remote: Address | None, prefix: str, clusters: Iterable[str], error: CommitError
) -> None:
    """Let agents report that a newer commit cannot be rendered; their bundles stay as they are."""
    before = read_bundles(git, remote, prefix, clusters)
    cleaned = replace(error, message=clean(error.message, MOST_LETTERS))
    bundles = [replace(bundle, index=replace(bundle.index, trouble=cleaned)) for bundle in before.values()]
    write_bundles(git, remote, prefix, bundles, before)


@dataclass(slots=True)
class _StackStates:
    """State of every stack in every cluster at one commit."""

    revision: str
    before: Mapping[str, Bundle]
    clusters: Collection[str]
    seen: ObservedState
    _records: dict[StackCluster, StatusRecord] = field(init=False)

    def __post_init__(self) -> None:
        self._records = {(record.stack, record.cluster): record for record in self.seen.records}

    def of(self, pair: StackCluster) -> RolloutState:
        stack, cluster = pair
        bundle = self.before.get(cluster)
        if bundle is not None:
            return state_from_record(self._records.get(pair), self.revision, BundledStack.of(bundle, stack))
        if cluster not in self.clusters and self.seen.reached_states is not None:
            return self.seen.reached_states(pair)
        return state_from_record(self._records.get(pair), self.revision)


def _judge_changes(
    files: Commit,
    evaluation: Evaluation,
    plan: BundlePlan,
    before: Mapping[str, Bundle],
    allowance: DeletionBudget,
    *,
    required: bool,
) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """Return what would be done in each cluster, with what the repository's rules have against it."""
    results, remarks = compare_evaluations(
        _join_bundles(before.values()), _join_bundles(plan.bundles.values()), budget=allowance
    )
    based_results = [_set_base_revision(result, before) for result in results]
    return tuple(ApprovalCheck(files, evaluation, required=required).judge(based_results)), remarks


def _set_base_revision(result: Result, before: Mapping[str, Bundle]) -> Result:
    """Set the commit that the plan builds on, as an inventory would have it."""
    bundle = before.get(result.cluster)
    part = bundle.parts.get(result.stack) if bundle else None
    if result.plan is None or part is None:
        return result
    return replace(result, plan=replace(result.plan, inventory=replace(result.plan.inventory, revision=part.revision)))


def _join_bundles(bundles: Iterable[Bundle]) -> Evaluation:
    evaluations = [bundle.evaluation() for bundle in bundles]
    return Evaluation(
        tuple(cluster for evaluation in evaluations for cluster in evaluation.clusters),
        tuple(stack for evaluation in evaluations for stack in evaluation.stacks),
    )


def _watched_placements(evaluation: Evaluation, clusters: Collection[str]) -> list[StackCluster]:
    """Return the placements whose states decide about these clusters: those of their stacks and of what these need."""
    bundled = [stack for stack in evaluation.stacks if any(cluster in clusters for cluster in stack.clusters)]
    names = {name for stack in bundled for name in (stack.name, *stack.needs)}
    return [(stack.name, cluster) for stack in evaluation.stacks if stack.name in names for cluster in stack.clusters]


def _pulled_placements(evaluation: Evaluation) -> list[StackCluster]:
    """Return the placements that only agents reach."""
    pulling = {cluster.name for cluster in evaluation.clusters if cluster.pull}
    return [(stack.name, cluster) for stack in evaluation.stacks for cluster in stack.clusters if cluster in pulling]


def _make_header(files: Commit, allowance: DeletionBudget, options: PublishOptions) -> BundleHeader:
    settings = files.repository.settings
    if not files.identity:
        raise ConfigurationError(
            "agents would not know whose stacks these are", hint='give the fleet a name: [fleet] name = "…"'
        )
    return BundleHeader(
        files.identity,
        files.revision,
        clean(files.subject, MOST_LETTERS),
        BundleBudget(allowance.deletions, float(allowance.share)),
        settings.trust.account,
        settings.git.status_branch,
        is_budget_given=options.deletions is not None,
        trouble=replace(options.trouble, message=clean(options.trouble.message, MOST_LETTERS))
        if options.trouble
        else None,
    )


def _check_lineage(git: GitRepository, revision: str, before: Mapping[str, Bundle], *, back: bool) -> None:
    rendered = {
        bundle.index.revision: cluster for cluster, bundle in before.items() if bundle.index.revision != revision
    }
    for earlier in git.outside(rendered, revision):
        if back and not git.outside([revision], earlier):
            continue
        raise PolicyError(
            f"{revision[:8]} does not descend from {earlier[:8]}, which was rendered for {rendered[earlier]}: "
            "the history was rewritten",
            hint="was it pushed by force, or is this another branch? If it is meant, say --allow-rewritten once",
        )


def _check_departures(
    evaluation: Evaluation, before: Mapping[str, Bundle], records: Iterable[StatusRecord], allowance: DeletionBudget
) -> None:
    placed = Placements.of(evaluation)
    known_placements = {(stack, cluster) for cluster, bundle in before.items() for stack in bundle.stack_names}
    known_placements |= {(record.stack, record.cluster) for record in records}
    check_removed_placements({*known_placements, *placed.pairs}, placed, allowance)
