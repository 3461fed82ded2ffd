"""What clusters with agents may have now of a commit, and what has to wait for others. Pure.

The gates are those of `fleet.sync.gates`. They are asked only for what is new to a cluster; what it has already it
keeps. A stack that needs another one of the same cluster goes with it: there the agent sees to the order by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from fleet.evaluate.result import Evaluation, StackResult
from fleet.model.desired import StackCluster
from fleet.rendered.model import (
    SCHEMA,
    Budget,
    Index,
    Part,
    RenderedSet,
    StackFile,
    Trouble,
    content_of,
    held,
    stack_file,
)
from fleet.sync.gates import Standing, gate


@dataclass(frozen=True, slots=True)
class Head:
    """What is said once in every set."""

    fleet: str
    revision: str
    subject: str
    budget: Budget
    account: str
    status_branch: str
    trouble: Trouble | None = None
    said: bool = False  # the budget is a person's word; else what was said for the same commit goes on


@dataclass(frozen=True, slots=True)
class Release:
    sets: dict[str, RenderedSet]  # by cluster
    waiting: dict[StackCluster, str]  # why
    again: float | None = None  # in so many seconds the answer may be another, whatever else happens


@dataclass(slots=True)
class _Round:
    """One commit against what the clusters were told before."""

    evaluation: Evaluation
    before: Mapping[str, RenderedSet]
    standing: Callable[[StackCluster], Standing]
    approved: Callable[[StackResult], Collection[int]]
    now: float
    begun: set[StackCluster] = field(default_factory=set)
    waiting: dict[StackCluster, str] = field(default_factory=dict)
    again: list[float] = field(default_factory=list)

    def decide(self, stack: StackResult, cluster: str, new: StackFile) -> None:
        before = self.before.get(cluster)
        part = before.parts.get(stack.name) if before else None
        if part and part.content == content_of(new, cluster):
            return
        pair = (stack.name, cluster)
        known = {one.name: one for one in self.evaluation.stacks}
        for name in stack.needs:
            if (name, cluster) in self.waiting:
                self.waiting[pair] = f"it needs stack {name}, which waits here"
                return
        others = [known[name] for name in stack.needs if name in known and cluster not in known[name].clusters]
        verdict = gate(
            stack.name,
            cluster,
            stack.rollout,
            self._all(stack),
            {one.name: self._all(one) for one in others},
            approved=self.approved(stack) if stack.rollout.approve else (),
            now=self.now,
        )
        if verdict.goes:
            self.begun.add(pair)
            return
        self.waiting[pair] = verdict.reason
        if verdict.again is not None:
            self.again.append(verdict.again)

    def _all(self, stack: StackResult) -> dict[str, Standing]:
        found = {cluster: self.standing((stack.name, cluster)) for cluster in stack.clusters}
        return {
            cluster: replace(one, begun=True) if (stack.name, cluster) in self.begun else one
            for cluster, one in found.items()
        }


def release(
    evaluation: Evaluation,
    clusters: Collection[str],
    head: Head,
    before: Mapping[str, RenderedSet],
    standing: Callable[[StackCluster], Standing],
    *,
    approved: Callable[[StackResult], Collection[int]] = lambda stack: (),
    now: float,
) -> Release:
    """The sets of these clusters. `standing` is how a stack is in a cluster at this commit."""
    this = _Round(evaluation, before, standing, approved, now)
    files = {
        (stack.name, cluster): stack_file(stack, cluster)
        for stack in evaluation.stacks
        for cluster in stack.clusters
        if cluster in clusters
    }
    for stack in evaluation.stacks:  # those that others need come first
        for cluster in _in_order(stack):
            if cluster in clusters:
                this.decide(stack, cluster, files[stack.name, cluster])
    labels = {one.name: dict(one.labels) for one in evaluation.clusters}
    names = [one.name for one in evaluation.stacks]
    sets = {
        cluster: _composed(
            head,
            (cluster, labels[cluster]),
            names,
            files={name: files[name, cluster] for name in names if (name, cluster) in files},
            waiting={name: why for (name, where), why in this.waiting.items() if where == cluster},
            before=before.get(cluster),
        )
        for cluster in clusters
    }
    return Release(sets, this.waiting, min(this.again, default=None))


def _in_order(stack: StackResult) -> list[str]:
    waves = [name for wave in stack.rollout.waves for name in wave]
    return [*waves, *(name for name in stack.clusters if name not in waves)]


def _composed(
    head: Head,
    place: tuple[str, dict[str, str]],
    names: Collection[str],
    *,
    files: Mapping[str, StackFile],
    waiting: Mapping[str, str],
    before: RenderedSet | None,
) -> RenderedSet:
    """`names` are all stacks of the repository, `files` those that are placed here."""
    cluster, labels = place
    old = before.stacks if before else {}
    had = before.parts if before else {}
    here = [name for name in files if name not in waiting or name in old]
    stacks = {name: held(old[name], files[name]) if name in waiting else files[name] for name in here}
    stacks = {
        name: replace(one, needs=tuple(need for need in one.needs if need in stacks)) for name, one in stacks.items()
    }
    again = before is not None and before.index.revision == head.revision and not head.said
    left = {*before.known, *before.index.elsewhere} if before else set()
    return RenderedSet(
        Index(
            SCHEMA,
            head.fleet,
            cluster,
            labels,
            head.revision,
            head.subject,
            before.index.budget if before and again else head.budget,
            head.account,
            head.status_branch,
            tuple(_part(name, stacks[name], cluster, head.revision, had.get(name)) for name in here),
            dict(waiting),
            tuple(sorted(left.intersection(names) - files.keys())),
            head.trouble,
        ),
        stacks,
    )


def _part(name: str, file: StackFile, cluster: str, revision: str, before: Part | None) -> Part:
    content = content_of(file, cluster)
    return before if before and before.content == content else Part(name, revision, content)
