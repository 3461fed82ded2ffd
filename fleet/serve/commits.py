"""Commits of a followed branch, and what each of them wants.

A `CommitReader` makes of a commit what it wants, and is all in which a service and an agent differ: `EvaluatingReader`
evaluates the fleet's own repository, and only those stacks whose evaluation can differ from the commit before; an agent
reads the bundle that was rendered for its cluster, see `fleet.agent.agent`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from fleet.bundle.model import Bundle
from fleet.errors import ConfigurationError
from fleet.evaluate.evaluation import PreviousEvaluation, evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git import refs
from fleet.git.repository import GitRepository, Mirror
from fleet.git.status import FindRemoved
from fleet.git.status_records import StatusRecord, StatusReport
from fleet.git.tree import Tree
from fleet.objects.desired import Desired, StackCluster
from fleet.plan.budget import DeletionBudget
from fleet.repository import Repository
from fleet.repository.repository import repository_identity
from fleet.serve.safety import check_commit_safety
from fleet.sync.report import make_report, removed_placements
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout import approvals
from fleet.sync.safety import Placements
from fleet.sync.source import NO_FILES, Commit, open_checkout
from fleet.sync.targets import ClusterTarget, choose_targets
from fleet.text import without_credentials

USUAL_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class FollowedRepository:
    """Repository that is followed: its address and the branch that counts."""

    url: str
    branch: str = USUAL_BRANCH

    @classmethod
    def parse(cls, text: str) -> FollowedRepository:
        """Return the repository of `URL` or `URL#branch`, as a user gives it."""
        url, _, branch = text.partition("#")
        address = refs.address(url, by_person=True)
        refs.branch_ref(branch or USUAL_BRANCH)
        if address.protocol == "file" and "://" not in url:
            url = str(Path(url).resolve())  # `../fleet.git` is not the same one elsewhere
        return cls(url, branch or USUAL_BRANCH)

    @classmethod
    def of_clone(cls, clone: GitRepository, remote: str, branch: str) -> FollowedRepository:
        """Return the remote repository of a user's clone; raise ConfigurationError if the clone has no such remote."""
        url = clone.remotes().get(remote)
        if url is None:
            raise ConfigurationError(
                f"this clone has no remote {remote!r}, and what is served comes from one",
                hint="name a repository: fleet serve https://git.example.com/team/fleet.git",
            )
        address = refs.address(url, by_person=True)
        if address.protocol == "file" and "://" not in url:
            url = str((clone.root / url).resolve())
        return cls(url, branch)

    def __str__(self) -> str:
        return f"{self.address}#{self.branch}"

    @property
    def address(self) -> str:
        """Return the URL without credentials, as it may be shown and named in flags."""
        return without_credentials(self.url)

    def mirror(self, cache: Path) -> Mirror:
        """Return the copy of the repository that only fleet uses."""
        return Mirror.of(self.url, cache, by_person=True)

    @property
    def ref(self) -> str:
        return refs.branch_ref(self.branch)

    @property
    def refspec(self) -> str:
        return f"+{self.ref}:{self.ref}"


@dataclass(frozen=True)
class EvaluatedCommit:
    """Commit with what it wants: its settings and its evaluation."""

    files: Commit
    evaluation: Evaluation = field(repr=False)
    rendered: Bundle | None = field(default=None, repr=False)  # the bundle, if an agent read it

    @property
    def revision(self) -> str:
        """Return the commit of the fleet's repository."""
        return self.files.revision

    @property
    def commit(self) -> str:
        """Return the commit of the branch that is followed."""
        return self.rendered.commit if self.rendered else self.revision

    @property
    def waiting_reasons(self) -> Mapping[str, str]:
        """Return the reasons of stacks that the service holds back: each is here as it was before, or not at all."""
        return self.rendered.index.waiting if self.rendered else {}

    @property
    def find_removed(self) -> FindRemoved:
        """Return a function that finds placements of the status branch that are no more.

        An agent speaks of its own cluster only.
        """
        if self.rendered is None:
            return removed_placements(choose_targets(self.evaluation, (), ()))
        cluster, names = self.rendered.index.cluster, self.rendered.stack_names
        return lambda placements: [pair for pair in placements if pair[1] == cluster and pair[0] not in names]

    def report(self, result: Result, revision: str) -> StatusReport:
        """Return the status report of a result, with the digest of the content if it is from a bundle."""
        part = self.rendered.parts.get(result.stack) if self.rendered else None
        return replace(make_report(result, revision), content=part.content if part else "")

    def after(self, result: Result) -> Result:
        """Return the result of a pass, as waiting where the service holds the stack back.

        Such a stack is in order, but git's change is not here yet.
        """
        reason = self.waiting_reasons.get(result.stack)
        return replace(result, problem=hold_back(result, reason)) if reason and not result.problem else result

    def unplaced_results(self) -> list[Result]:
        """Return results for stacks that are held back before they were ever placed here."""
        cluster = self.rendered.index.cluster if self.rendered else ""
        names = [name for name in self.waiting_reasons if name not in self.stacks]
        return [self.after(Result(name, cluster, health="Missing")) for name in names]

    @cached_property
    def targets(self) -> dict[str, ClusterTarget]:
        """Return the targets by cluster, without clusters that have an agent."""
        return {
            target.cluster.name: target for target in choose_targets(self.evaluation, (), ()) if not target.cluster.pull
        }

    def target(self, cluster: str, stacks: Set[str] | None) -> ClusterTarget | None:
        """Return what a pass there is about; None if nothing.

        With `stacks`, these stacks; else all, and what the cluster should have no more.
        """
        target = self.targets.get(cluster)
        if target is None or stacks is None:
            return target
        return _restrict_target(target, target.stacks & stacks) if target.stacks & stacks else None

    @cached_property
    def stacks(self) -> dict[str, StackResult]:
        return {stack.name: stack for stack in self.evaluation.stacks}

    @cached_property
    def desired(self) -> dict[StackCluster, Desired]:
        """Return everything that is desired in clusters that are reached from here."""
        return {
            (desired.stack, desired.cluster): desired for target in self.targets.values() for desired in target.desired
        }


def without_stacks(target: ClusterTarget, stacks: Set[str]) -> ClusterTarget:
    """Return a target without some stacks."""
    return _restrict_target(target, target.stacks - stacks) if stacks else target


def _restrict_target(target: ClusterTarget, stacks: frozenset[str]) -> ClusterTarget:
    """Return a target with some stacks only. It reports no orphans, since an unread stack is not a missing one."""
    desired = tuple(stack for stack in target.desired if stack.stack in stacks)
    return replace(target, desired=desired, stacks=stacks, complete=False)


def hold_back(result: Result, reason: str) -> WaitingError:
    """Return the error of a stack that the service holds back."""
    return WaitingError(result.cluster, result.stack, reason)


def evaluate_commit(
    origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None, pool: Pool
) -> EvaluatedCommit:
    """Evaluate a commit that the mirror has. An error of any file is raised: then the commit cannot be used."""
    git = mirror.repository
    resolved = git.resolve(commit)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        root = Path(directory) / "tree"
        Tree(git.git, resolved.tree, resolved.id).materialise(root)
        repository = Repository.at(root)
        previous = _find_previous(mirror, before, resolved.id, repository)
        evaluation = evaluate(repository, twice=True, pool=pool, before=previous).check()
    settings = repository.settings
    files = Commit(
        Repository(NO_FILES, settings),
        git,
        resolved.id,
        resolved.tree,
        resolved.subject,
        identity=repository_identity(settings.fleet.name, remote=origin.url),
        remotes={settings.git.remote: origin.url},
    )
    return EvaluatedCommit(files, evaluation)


def _find_previous(
    mirror: Mirror, before: EvaluatedCommit | None, commit: str, repository: Repository
) -> PreviousEvaluation | None:
    """Return the previous evaluation with the files that changed since; None if it cannot be used."""
    if before is None or before.files.repository.settings != repository.settings:
        return None
    return open_checkout(mirror.repository, before.evaluation, repository, base=before.revision, head=commit)


def changed_placements(before: EvaluatedCommit | None, after: EvaluatedCommit) -> frozenset[StackCluster] | None:
    """Return the placements of which two commits want different things, or another rollout or answer to drift.

    None: all may differ, so everything has to be synced.
    """
    if before is None or before.evaluation.clusters != after.evaluation.clusters:
        return None
    old, new = before.desired, after.desired
    settings = before.files.repository.settings, after.files.repository.settings
    if before.stacks.keys() != after.stacks.keys() or settings[0] != settings[1]:
        return None
    changed_stacks = {
        name for name, stack in after.stacks.items() if _reconcile_rules(stack) != _reconcile_rules(before.stacks[name])
    }
    changed_stacks |= {
        name for name in after.stacks if before.waiting_reasons.get(name) != after.waiting_reasons.get(name)
    }
    pairs = old.keys() | new.keys()
    return frozenset(pair for pair in pairs if pair[0] in changed_stacks or old.get(pair) != new.get(pair))


def _reconcile_rules(stack: StackResult) -> tuple[object, ...]:
    """Return the settings of a stack that say how its changes are applied."""
    return stack.rollout, stack.needs, stack.drift


class CommitReader(Protocol):
    """Strategy for reading a commit: the service evaluates it, an agent reads the bundle rendered for its cluster."""

    @property
    def also(self) -> tuple[str, ...]:
        """Return the refs that are fetched with the branch."""

    @property
    def pool(self) -> Pool | None:
        """Return the pool that evaluates; None for a reader that does not evaluate."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the reader open for as long as the service runs."""

    def read(
        self, origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None
    ) -> EvaluatedCommit:
        """Return what a commit that the mirror has wants. Raise any error of the commit."""

    def check(
        self, current: EvaluatedCommit, before: EvaluatedCommit | None, memory: Callable[[], Iterable[StatusRecord]]
    ) -> None:
        """Raise PolicyError if the commit removed more than it may. `memory` reads the records of the status branch."""


@dataclass(slots=True)
class EvaluatingReader:
    """Reader that evaluates the commits of the fleet's own repository."""

    also: tuple[str, ...] = (approvals.REF,)
    pool: Pool | None = field(default=None, init=False)

    @contextmanager
    def open(self) -> Iterator[None]:
        with Pool() as self.pool:
            yield

    def read(
        self, origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None
    ) -> EvaluatedCommit:
        assert self.pool is not None  # noqa: S101 - it is open
        return evaluate_commit(origin, mirror, commit, before, self.pool)

    def check(
        self, current: EvaluatedCommit, before: EvaluatedCommit | None, memory: Callable[[], Iterable[StatusRecord]]
    ) -> None:
        git = current.files.git
        followed = (before.revision, Placements.of(before.evaluation).pairs) if before else None
        check_commit_safety(
            git, current.revision, current.evaluation, budget_of(current), before=followed, memory=memory
        )


def budget_of(current: EvaluatedCommit) -> DeletionBudget:
    """Return the deletion budget that a commit sets."""
    budget = current.files.repository.settings.budget
    return DeletionBudget(budget.deletions, budget.share)
