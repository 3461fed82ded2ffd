"""What a commit wants: its settings and its evaluation, of which only that part is made anew which can differ."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fleet.evaluate.again import Before, still_true
from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git.mirror import Mirror
from fleet.git.tree import Tree
from fleet.model.desired import Desired
from fleet.repository import Repository
from fleet.repository.identity import identity
from fleet.repository.read import FILE
from fleet.serve.origin import Origin
from fleet.sync.choice import Target, targets
from fleet.sync.source import NO_FILES, Files

Pair = tuple[str, str]  # stack, cluster


@dataclass(frozen=True)
class Wanted:
    files: Files
    evaluation: Evaluation = field(repr=False)

    @property
    def revision(self) -> str:
        return self.files.revision

    @cached_property
    def targets(self) -> dict[str, Target]:
        """By cluster, those with an agent of their own left out."""
        return {one.cluster.name: one for one in targets(self.evaluation, (), ()) if not one.cluster.pull}

    @cached_property
    def stacks(self) -> dict[str, StackResult]:
        return {one.name: one for one in self.evaluation.stacks}

    @cached_property
    def desired(self) -> dict[Pair, Desired]:
        """All that is to be had in clusters that are reached from here."""
        return {(one.stack, one.cluster): one for target in self.targets.values() for one in target.desired}


def wanted(origin: Origin, mirror: Mirror, commit: str, before: Wanted | None, pool: Pool) -> Wanted:
    """Of a commit that the mirror has. A problem of any file is raised: then there is nothing to go by."""
    git = mirror.repository
    found = git.resolve(commit)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        root = Path(directory) / "tree"
        Tree(git.git, found.tree, found.id).materialise(root)
        repository = Repository.at(root)
        known = _known(mirror, before, found.id, repository)
        evaluation = evaluate(repository, pool=pool, before=known).check()
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
    changes = mirror.repository.changes(before.revision, commit)
    return still_true(
        before.evaluation,
        edited=(one.path for one in changes if one.verb == "changed"),
        moved=(one.path for one in changes if one.verb != "changed"),
        files=repository.stack_files(),
        of_all=(FILE, repository.settings.paths.lock),
    )


def moved(before: Wanted | None, after: Wanted) -> frozenset[Pair] | None:
    """The stacks in clusters of which the two want different things, or another order or answer to drift.

    None: all may differ, look at everything.
    """
    if before is None or before.evaluation.clusters != after.evaluation.clusters:
        return None
    one, other = before.desired, after.desired
    if before.stacks.keys() != after.stacks.keys():
        return None
    ways = {name for name, stack in after.stacks.items() if _way(stack) != _way(before.stacks[name])}
    pairs = one.keys() | other.keys()
    return frozenset(pair for pair in pairs if pair[0] in ways or one.get(pair) != other.get(pair))


def _way(stack: StackResult) -> tuple[object, ...]:
    """How it comes to be what it should be."""
    return stack.rollout, stack.needs, stack.drift
