"""What a commit wants: its settings and its evaluation, of which only that part is made anew which can differ."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from fleet.evaluate.again import Before
from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.mirror import Mirror
from fleet.git.reporting import Gone
from fleet.git.status import Report
from fleet.git.tree import Tree
from fleet.model.desired import Desired, StackCluster
from fleet.rendered.model import RenderedSet
from fleet.repository import Repository
from fleet.repository.identity import identity
from fleet.serve.origin import Origin
from fleet.sync.choice import Target, targets
from fleet.sync.evaluated import holding
from fleet.sync.outcome import Result
from fleet.sync.source import NO_FILES, Files
from fleet.sync.status import no_more, report_of
from fleet.sync.turn import WaitingError


@dataclass(frozen=True)
class Wanted:
    files: Files
    evaluation: Evaluation = field(repr=False)
    rendered: RenderedSet | None = field(default=None, repr=False)  # where an agent has it from

    @property
    def revision(self) -> str:
        """The commit of the fleet's repository."""
        return self.files.revision

    @property
    def commit(self) -> str:
        """The commit of the branch that is followed."""
        return self.rendered.commit if self.rendered else self.revision

    @property
    def held(self) -> Mapping[str, str]:
        """Stacks that the centre holds back, and why: such a stack is here as it was before, or not at all."""
        return self.rendered.index.waiting if self.rendered else {}

    @property
    def gone(self) -> Gone:
        """Which pairs of the status branch are no more. An agent speaks of its own cluster only."""
        if self.rendered is None:
            return no_more(targets(self.evaluation, (), ()))
        mine, here = self.rendered.index.cluster, self.rendered.known
        return lambda known: [pair for pair in known if pair[1] == mine and pair[0] not in here]

    def report(self, result: Result, revision: str) -> Report:
        part = self.rendered.parts.get(result.stack) if self.rendered else None
        return replace(report_of(result, revision), content=part.content if part else "")

    def after(self, result: Result) -> Result:
        """What a pass came to, with what the centre has to say: the stack is in order, and not what git says yet."""
        reason = self.held.get(result.stack)
        return replace(result, problem=held_back(result, reason)) if reason and not result.problem else result

    def unplaced(self) -> list[Result]:
        """Of stacks that are held back before they ever were here."""
        cluster = self.rendered.index.cluster if self.rendered else ""
        names = [name for name in self.held if name not in self.stacks]
        return [self.after(Result(name, cluster, health="Missing")) for name in names]

    @cached_property
    def targets(self) -> dict[str, Target]:
        """By cluster, those with an agent of their own left out."""
        return {one.cluster.name: one for one in targets(self.evaluation, (), ()) if not one.cluster.pull}

    def target(self, cluster: str, stacks: Set[str] | None) -> Target | None:
        """What a pass there is about: these stacks, or (None) all and what the cluster should have no more."""
        target = self.targets.get(cluster)
        if target is None or stacks is None:
            return target
        return _only(target, target.stacks & stacks) if target.stacks & stacks else None

    @cached_property
    def stacks(self) -> dict[str, StackResult]:
        return {one.name: one for one in self.evaluation.stacks}

    @cached_property
    def desired(self) -> dict[StackCluster, Desired]:
        """All that is to be had in clusters that are reached from here."""
        return {(one.stack, one.cluster): one for target in self.targets.values() for one in target.desired}


def without(target: Target, stacks: Set[str]) -> Target:
    return _only(target, target.stacks - stacks) if stacks else target


def _only(target: Target, stacks: frozenset[str]) -> Target:
    """What is not looked at is not missing either: nothing is said about orphans then."""
    desired = tuple(one for one in target.desired if one.stack in stacks)
    return replace(target, desired=desired, stacks=stacks, complete=False)


def held_back(result: Result, reason: str) -> WaitingError:
    return WaitingError(result.cluster, result.stack, reason)


def wanted(origin: Origin, mirror: Mirror, commit: str, before: Wanted | None, pool: Pool) -> Wanted:
    """Of a commit that the mirror has. A problem of any file is raised: then there is nothing to go by."""
    git = mirror.repository
    found = git.resolve(commit)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        root = Path(directory) / "tree"
        Tree(git.git, found.tree, found.id).materialise(root)
        repository = Repository.at(root)
        known = _known(mirror, before, found.id, repository)
        evaluation = evaluate(repository, twice=True, pool=pool, before=known).check()
    settings = repository.settings
    files = Files(
        Repository(NO_FILES, settings),
        found.id,
        found.subject,
        git,
        identity=identity(settings.fleet.name, remote=origin.url),
        remotes={settings.git.remote: origin.url},
        tree=found.tree,
    )
    return Wanted(files, evaluation)


def _known(mirror: Mirror, before: Wanted | None, commit: str, repository: Repository) -> Before | None:
    if before is None or before.files.repository.settings != repository.settings:
        return None
    return holding(mirror.repository, before.evaluation, repository, base=before.revision, head=commit)


def moved(before: Wanted | None, after: Wanted) -> frozenset[StackCluster] | None:
    """The stacks in clusters of which the two want different things, or another order or answer to drift.

    None: all may differ, look at everything.
    """
    if before is None or before.evaluation.clusters != after.evaluation.clusters:
        return None
    one, other = before.desired, after.desired
    settings = before.files.repository.settings, after.files.repository.settings
    if before.stacks.keys() != after.stacks.keys() or settings[0] != settings[1]:
        return None
    ways = {name for name, stack in after.stacks.items() if _way(stack) != _way(before.stacks[name])}
    ways |= {name for name in after.stacks if before.held.get(name) != after.held.get(name)}
    pairs = one.keys() | other.keys()
    return frozenset(pair for pair in pairs if pair[0] in ways or one.get(pair) != other.get(pair))


def _way(stack: StackResult) -> tuple[object, ...]:
    """How it comes to be what it should be."""
    return stack.rollout, stack.needs, stack.drift
