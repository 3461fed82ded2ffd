"""What may go into a bundle now.

What clusters with agents may have now of a commit, and what has to wait for others. Pure.

The gates are those of `fleet.sync.rollout.gates`. They are asked only for what is new to a cluster; what it has already
it keeps. A stack that needs another one of the same cluster goes with it: there the agent sees to the order by itself.

How a stack is in a cluster that nobody here can ask: by its record on the status branch. Pure.

A record counts only if it is about the commit in question, and about what the set really has: an agent that was told a
moment ago, or that is silent, is taken for being changed or for not looked at, never for well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fleet.bundle.model import (
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
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.status_records import Record
from fleet.objects.desired import StackCluster
from fleet.sync.rollout.gates import UNSEEN, Standing, gate


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


SETTLED = ("Synced", "Waiting", "Suspended")  # nothing is wrong


@dataclass(frozen=True, slots=True)
class Told:
    """What the set of a cluster says of one stack, as far as an answer can be about it."""

    revision: str  # the commit that the set is of
    content: str  # "": the stack is not in it
    waits: bool

    @classmethod
    def of(cls, found: RenderedSet, stack: str) -> Told:
        part = found.parts.get(stack)
        return cls(found.index.revision, part.content if part else "", stack in found.index.waiting)


def standing(record: Record | None, revision: str, told: Told | None = None) -> Standing:
    """At a commit. `told` is what an agent was told; None where the service or a person applies."""
    if record is None or record.wanted != revision or (told is not None and told.revision != revision):
        return UNSEEN
    if told is not None and not told.waits and record.content != told.content:
        return Standing(seen=True, begun=True, health=record.health)
    has_it = record.sync == "Synced" and record.revision == revision
    begun = record.sync == "Waiting" and told is not None and not told.waits
    return Standing(
        seen=True,
        applied=has_it,
        partly=begun,
        health=record.health,
        problem="" if record.sync in SETTLED else record.message or record.sync,
        since=datetime.fromisoformat(record.since.replace("Z", "+00:00")).timestamp(),
    )
