"""A rendered set: what one cluster is to have, as plain data that is the same for the one who writes and who reads it.

A set holds back what has to wait: such a stack is in it as it was before, and `waiting` says why. So an agent carries
out what it reads, and knows of no other cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.objects.desired import Desired, Object
from fleet.objects.normalise import applied_hash
from fleet.sync.rollout.approvals import digest_of

SCHEMA = "fleet.dev/rendered/v1"


@dataclass(frozen=True, slots=True)
class Part:
    """One stack of a set, by name."""

    stack: str
    revision: str  # the commit that brought these objects
    content: str  # a digest of them, which the agent reports back


@dataclass(frozen=True, slots=True)
class Trouble:
    """A newer commit, of which nothing can be had."""

    revision: str
    message: str


@dataclass(frozen=True, slots=True)
class Budget:
    deletions: int
    share: float


@dataclass(frozen=True, slots=True)
class Index:
    """`fleet.json`."""

    schema: str
    fleet: str  # whose stacks they are, see fleet.repository.repository
    cluster: str
    labels: dict[str, str]
    revision: str  # the commit of the fleet's repository that was rendered
    subject: str
    budget: Budget
    account: str  # [trust] account
    status_branch: str
    stacks: tuple[Part, ...]  # those that others need first
    waiting: dict[str, str] = field(default_factory=dict)  # stack → why it is not what the commit says yet
    elsewhere: tuple[str, ...] = ()  # stacks that were here, and are in other clusters only by now
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class StackFile:
    """`stacks/STACK.json`: nothing in it changes unless the stack does."""

    schema: str
    stack: str
    source: Source
    objects: tuple[Object, ...]
    needs: tuple[str, ...] = ()  # of those that are in this cluster too
    drift: str = "repair"
    windows: tuple[str, ...] = ()
    timezone: str = "UTC"
    freeze: bool = False
    exports: dict[str, Any] = field(default_factory=dict)

    def result(self, cluster: str) -> StackResult:
        desired = Desired(self.stack, cluster, self.objects, self.exports, self.source)
        rollout = RolloutData(
            ((cluster,),), "0s", "15m", windows=self.windows, timezone=self.timezone, freeze=self.freeze
        )
        return StackResult(self.stack, self.source, (cluster,), rollout, (desired,), self.needs, self.drift)


@dataclass(frozen=True, slots=True)
class RenderedSet:
    index: Index
    stacks: Mapping[str, StackFile]
    commit: str = field(default="", compare=False)  # of its branch, where it has one
    blobs: Mapping[str, str] = field(default_factory=dict, compare=False)  # stack → git's id of its file

    @property
    def parts(self) -> dict[str, Part]:
        return {one.stack: one for one in self.index.stacks}

    @property
    def known(self) -> frozenset[str]:
        """Every stack that it speaks of as being in this cluster, or meant for it."""
        return frozenset({*self.stacks, *self.index.waiting})

    def evaluation(self) -> Evaluation:
        """As if only this cluster were there, and reached from here."""
        index = self.index
        cluster = ClusterData(index.cluster, dict(index.labels), None, None, False, Source("fleet.json"))
        left = [
            StackResult(name, Source("fleet.json"), (), RolloutData((), "0s", "15m"), ()) for name in index.elsewhere
        ]
        return Evaluation((cluster,), (*(self.stacks[one.stack].result(index.cluster) for one in index.stacks), *left))


def stack_file(stack: StackResult, cluster: str) -> StackFile:
    """What one cluster is told of a stack."""
    desired = next(one for one in stack.desired if one.cluster == cluster)
    rollout = stack.rollout
    return StackFile(
        SCHEMA,
        stack.name,
        stack.source,
        desired.objects,
        stack.needs,
        stack.drift,
        rollout.windows,
        rollout.timezone,
        rollout.freeze,
        desired.exports,
    )


def held(file: StackFile, newer: StackFile) -> StackFile:
    """A stack as it was before, with what its new version says about when and how it may be changed."""
    return replace(
        file, windows=newer.windows, timezone=newer.timezone, freeze=newer.freeze, drift=newer.drift, needs=newer.needs
    )


def with_hashes(file: StackFile) -> StackFile:
    """With what the plan would work out anew for every object in every pass."""
    objects = (replace(one, hash=applied_hash(one.manifest)) for one in file.objects)
    return replace(file, objects=tuple(objects))


def content_of(file: StackFile, cluster: str) -> str:
    return digest_of([Desired(file.stack, cluster, file.objects)])
