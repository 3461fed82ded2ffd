"""A bundle: what one cluster is to have, as plain data that is the same for its writer and its reader.

A bundle holds back what has to wait: such a stack is in it as it was before, and `waiting` says why. So an agent
carries out what it reads, and knows of no other cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.objects.desired import Desired, Object
from fleet.objects.normalise import applied_hash
from fleet.sync.rollout.approvals import stack_digest

SCHEMA = "fleet.dev/rendered/v1"


@dataclass(frozen=True, slots=True)
class BundlePart:
    """One stack of a bundle, by name."""

    stack: str
    revision: str  # the commit that brought these objects
    content: str  # a digest of them, which the agent reports back


@dataclass(frozen=True, slots=True)
class CommitError:
    """The error of a newer commit that cannot be rendered."""

    revision: str
    message: str


@dataclass(frozen=True, slots=True)
class BundleBudget:
    deletions: int
    share: float


@dataclass(frozen=True, slots=True)
class BundleIndex:
    """The file `fleet.json`."""

    schema: str
    fleet: str  # whose stacks they are, see fleet.repository.repository
    cluster: str
    labels: dict[str, str]
    revision: str  # the commit of the fleet's repository that was rendered
    subject: str
    budget: BundleBudget
    account: str  # [trust] account
    status_branch: str
    stacks: tuple[BundlePart, ...]  # those that others need first
    waiting: dict[str, str] = field(default_factory=dict)  # stack → why it is not what the commit says yet
    elsewhere: tuple[str, ...] = ()  # stacks that were here, and are in other clusters only by now
    trouble: CommitError | None = None


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
class Bundle:
    index: BundleIndex
    stacks: Mapping[str, StackFile]
    commit: str = field(default="", compare=False)  # of its branch, where it has one
    blobs: Mapping[str, str] = field(default_factory=dict, compare=False)  # stack → git's id of its file

    @property
    def parts(self) -> dict[str, BundlePart]:
        return {part.stack: part for part in self.index.stacks}

    @property
    def stack_names(self) -> frozenset[str]:
        """Return the names of all stacks that the bundle has, or names as waiting, for this cluster."""
        return frozenset({*self.stacks, *self.index.waiting})

    def evaluation(self) -> Evaluation:
        """Return the bundle as the evaluation of a fleet that has only this cluster."""
        index = self.index
        cluster = ClusterData(index.cluster, dict(index.labels), None, None, False, Source("fleet.json"))
        removed = [
            StackResult(name, Source("fleet.json"), (), RolloutData((), "0s", "15m"), ()) for name in index.elsewhere
        ]
        return Evaluation(
            (cluster,), (*(self.stacks[part.stack].result(index.cluster) for part in index.stacks), *removed)
        )


def make_stack_file(stack: StackResult, cluster: str) -> StackFile:
    """Make the file of a stack for one cluster."""
    desired = next(placed for placed in stack.desired if placed.cluster == cluster)
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


def hold_back(file: StackFile, newer: StackFile) -> StackFile:
    """Keep a stack as it was before, but for what its new version says about when and how it may be changed."""
    return replace(
        file, windows=newer.windows, timezone=newer.timezone, freeze=newer.freeze, drift=newer.drift, needs=newer.needs
    )


def add_hashes(file: StackFile) -> StackFile:
    """Add the hashes of the manifests, which the plan would compute for every object in every iteration otherwise."""
    objects = (replace(obj, hash=applied_hash(obj.manifest)) for obj in file.objects)
    return replace(file, objects=tuple(objects))


def content_digest(file: StackFile, cluster: str) -> str:
    return stack_digest([Desired(file.stack, cluster, file.objects)])
