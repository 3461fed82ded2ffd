"""Rollout of a commit to clusters with agents: what each may have now, and what has to wait for others. Pure.

The gates are those of `fleet.sync.rollout.gates`. They are asked only for what is new to a cluster; what it has already
it keeps. A stack that needs another one of the same cluster goes with it: there the agent sees to the order by itself.

The state of a stack in a cluster that the centre cannot ask comes from its record on the status branch. A record counts
only if it is about the commit in question, and about what the bundle really has: an agent that got its bundle a moment
ago, or that is silent, is taken for being changed or for not observed, never for healthy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fleet.bundle.model import (
    SCHEMA,
    Bundle,
    BundleBudget,
    BundleIndex,
    BundlePart,
    CommitError,
    StackFile,
    content_digest,
    hold_back,
    make_stack_file,
)
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.status_records import StatusRecord
from fleet.objects.desired import StackCluster
from fleet.sync.rollout.approvals import NO_APPROVALS, Approvals
from fleet.sync.rollout.gates import UNSEEN, CommitRollout, RolloutState


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """The part that is the same in every bundle of a commit."""

    fleet: str
    revision: str
    subject: str
    budget: BundleBudget
    account: str
    status_branch: str
    trouble: CommitError | None = None
    is_budget_given: bool = False  # the budget is the user's; else the one of the same commit's last bundle goes on


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """The bundles of a commit for now, and what waits."""

    bundles: dict[str, Bundle]  # by cluster
    waiting: dict[StackCluster, str]  # why
    again: float | None = None  # seconds after which the answer may differ, whatever else happens


@dataclass(slots=True)
class _BundlePlanner:
    """Plan of one commit against the bundles that the clusters had before."""

    rollout: CommitRollout
    begun: set[StackCluster]  # placements that the plan changes, which the rollout counts as being changed
    before: Mapping[str, Bundle]
    now: float
    waiting: dict[StackCluster, str] = field(default_factory=dict)
    again: list[float] = field(default_factory=list)

    def decide(self, stack: StackResult, cluster: str, new: StackFile) -> None:
        before = self.before.get(cluster)
        part = before.parts.get(stack.name) if before else None
        if part and part.content == content_digest(new, cluster):
            return
        pair = (stack.name, cluster)
        for name in stack.needs:
            if (name, cluster) in self.waiting:
                self.waiting[pair] = f"it needs stack {name}, which waits here"
                return
        stacks = self.rollout.stacks
        together = [name for name in stack.needs if name in stacks and cluster in stacks[name].clusters]
        decision = self.rollout.may_begin(stack, cluster, now=self.now, together=together)
        if decision.goes:
            self.begun.add(pair)
            return
        self.waiting[pair] = decision.reason
        if decision.again is not None:
            self.again.append(decision.again)


def plan_bundles(
    evaluation: Evaluation,
    clusters: Collection[str],
    head: BundleHeader,
    before: Mapping[str, Bundle],
    states: Mapping[StackCluster, RolloutState],
    *,
    approvals: Approvals = NO_APPROVALS,
    now: float,
) -> BundlePlan:
    """Return the bundles of these clusters. `states` are those of the placements at this commit."""
    begun: set[StackCluster] = set()
    rollout = CommitRollout({stack.name: stack for stack in evaluation.stacks}, states, begun, approvals)
    planner = _BundlePlanner(rollout, begun, before, now)
    files = {
        (stack.name, cluster): make_stack_file(stack, cluster)
        for stack in evaluation.stacks
        for cluster in stack.clusters
        if cluster in clusters
    }
    for stack in evaluation.stacks:  # those that others need come first
        for cluster in _clusters_in_order(stack):
            if cluster in clusters:
                planner.decide(stack, cluster, files[stack.name, cluster])
    labels = {cluster_data.name: dict(cluster_data.labels) for cluster_data in evaluation.clusters}
    names = [stack.name for stack in evaluation.stacks]
    bundles = {
        cluster: _compose_bundle(
            head,
            (cluster, labels[cluster]),
            names,
            files={name: files[name, cluster] for name in names if (name, cluster) in files},
            waiting={
                name: reason for (name, stack_cluster), reason in planner.waiting.items() if stack_cluster == cluster
            },
            before=before.get(cluster),
        )
        for cluster in clusters
    }
    return BundlePlan(bundles, planner.waiting, min(planner.again, default=None))


def _clusters_in_order(stack: StackResult) -> list[str]:
    waves = [name for wave in stack.rollout.waves for name in wave]
    return [*waves, *(name for name in stack.clusters if name not in waves)]


def _compose_bundle(
    head: BundleHeader,
    cluster_and_labels: tuple[str, dict[str, str]],
    names: Collection[str],
    *,
    files: Mapping[str, StackFile],
    waiting: Mapping[str, str],
    before: Bundle | None,
) -> Bundle:
    """Make the bundle of a cluster. `names` are all stacks of the repository, `files` those that are placed here."""
    cluster, labels = cluster_and_labels
    old = before.stacks if before else {}
    old_parts = before.parts if before else {}
    present = [name for name in files if name not in waiting or name in old]
    stacks = {name: hold_back(old[name], files[name]) if name in waiting else files[name] for name in present}
    stacks = {
        name: replace(file, needs=tuple(need for need in file.needs if need in stacks)) for name, file in stacks.items()
    }
    is_again = before is not None and before.index.revision == head.revision and not head.is_budget_given
    gone = {*before.stack_names, *before.index.elsewhere} if before else set()
    return Bundle(
        BundleIndex(
            SCHEMA,
            head.fleet,
            cluster,
            labels,
            head.revision,
            head.subject,
            before.index.budget if before and is_again else head.budget,
            head.account,
            head.status_branch,
            tuple(_make_part(name, stacks[name], cluster, head.revision, old_parts.get(name)) for name in present),
            dict(waiting),
            tuple(sorted(gone.intersection(names) - files.keys())),
            head.trouble,
        ),
        stacks,
    )


def _make_part(name: str, file: StackFile, cluster: str, revision: str, before: BundlePart | None) -> BundlePart:
    content = content_digest(file, cluster)
    return before if before and before.content == content else BundlePart(name, revision, content)


SETTLED = ("Synced", "Waiting", "Suspended")  # nothing has failed


@dataclass(frozen=True, slots=True)
class BundledStack:
    """One stack as a bundle has it, as far as an agent's record can be about it."""

    revision: str  # the commit that the set is of
    content: str  # "": the stack is not in it
    waits: bool

    @classmethod
    def of(cls, bundle: Bundle, stack: str) -> BundledStack:
        part = bundle.parts.get(stack)
        return cls(bundle.index.revision, part.content if part else "", stack in bundle.index.waiting)


def state_from_record(record: StatusRecord | None, revision: str, bundled: BundledStack | None = None) -> RolloutState:
    """Return the state of a stack at a commit, from its record.

    `bundled` is what its agent was given; None where the service or a user applies.
    """
    if record is None or record.wanted != revision or (bundled is not None and bundled.revision != revision):
        return UNSEEN
    if bundled is not None and not bundled.waits and record.content != bundled.content:
        return RolloutState(seen=True, begun=True, health=record.health)
    is_applied = record.sync == "Synced" and record.revision == revision
    begun = record.sync == "Waiting" and bundled is not None and not bundled.waits
    return RolloutState(
        seen=True,
        applied=is_applied,
        partly=begun,
        health=record.health,
        problem="" if record.sync in SETTLED else record.message or record.sync,
        since=datetime.fromisoformat(record.since.replace("Z", "+00:00")).timestamp(),
    )
