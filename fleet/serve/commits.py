"""Follow a branch; what its newest commit wants.

A repository that is followed: where it is, which branch counts, and the copy of it that only fleet uses.

What a commit wants: its settings and its evaluation, of which only that part is made anew which can differ.

Who makes of a commit what is wanted: all in which a service at the centre and an agent in a cluster differ.

`Evaluating` reads the fleet's own repository. An agent reads the set that was rendered for its cluster, see
`fleet.agent.agent`.

One branch of a repository: what its newest commit wants, read once and, if that failed, again after a while.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from fleet.bundle.model import Bundle
from fleet.errors import ConfigurationError, FleetError
from fleet.evaluate.evaluation import PreviousEvaluation, evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import Evaluation, StackResult
from fleet.git import refs
from fleet.git.repository import Mirror
from fleet.git.repository import Repository as Git
from fleet.git.status import FindRemoved
from fleet.git.status_records import StatusRecord, StatusReport
from fleet.git.tree import Tree
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.queue import Backoff
from fleet.objects.desired import Desired, StackCluster
from fleet.plan.budget import DeletionBudget
from fleet.repository import Repository
from fleet.repository.repository import repository_identity
from fleet.serve.background import run_in_thread
from fleet.serve.safety import check_commit_safety
from fleet.sync.report import make_report, removed_placements
from fleet.sync.result import Result, WaitingError
from fleet.sync.rollout import approvals
from fleet.sync.safety import Placements
from fleet.sync.source import NO_FILES, Checkout, check_signature, open_checkout
from fleet.sync.targets import ClusterTarget, choose_targets
from fleet.text import without_credentials

USUAL_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class FollowedRepository:
    url: str
    branch: str = USUAL_BRANCH

    @classmethod
    def parse(cls, text: str) -> FollowedRepository:
        """`URL` or `URL#branch`, as a person gives it."""
        url, _, branch = text.partition("#")
        address = refs.address(url, by_person=True)
        refs.branch_ref(branch or USUAL_BRANCH)
        if address.protocol == "file" and "://" not in url:
            url = str(Path(url).resolve())  # `../fleet.git` is not the same one elsewhere
        return cls(url, branch or USUAL_BRANCH)

    @classmethod
    def of_clone(cls, clone: Git, remote: str, branch: str) -> FollowedRepository:
        """What a person's clone has for its remote."""
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
        """Where it is, as it may be shown and named in flags."""
        return without_credentials(self.url)

    def mirror(self, cache: Path) -> Mirror:
        return Mirror.of(self.url, cache, by_person=True)

    @property
    def ref(self) -> str:
        return refs.branch_ref(self.branch)

    @property
    def refspec(self) -> str:
        return f"+{self.ref}:{self.ref}"


@dataclass(frozen=True)
class EvaluatedCommit:
    files: Checkout
    evaluation: Evaluation = field(repr=False)
    rendered: Bundle | None = field(default=None, repr=False)  # where an agent has it from

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
    def gone(self) -> FindRemoved:
        """Which pairs of the status branch are no more. An agent speaks of its own cluster only."""
        if self.rendered is None:
            return removed_placements(choose_targets(self.evaluation, (), ()))
        mine, here = self.rendered.index.cluster, self.rendered.stack_names
        return lambda known: [pair for pair in known if pair[1] == mine and pair[0] not in here]

    def report(self, result: Result, revision: str) -> StatusReport:
        part = self.rendered.parts.get(result.stack) if self.rendered else None
        return replace(make_report(result, revision), content=part.content if part else "")

    def after(self, result: Result) -> Result:
        """What a pass came to, with what the centre has to say: the stack is in order, and not what git says yet."""
        reason = self.held.get(result.stack)
        return replace(result, problem=hold_back(result, reason)) if reason and not result.problem else result

    def unplaced(self) -> list[Result]:
        """Of stacks that are held back before they ever were here."""
        cluster = self.rendered.index.cluster if self.rendered else ""
        names = [name for name in self.held if name not in self.stacks]
        return [self.after(Result(name, cluster, health="Missing")) for name in names]

    @cached_property
    def targets(self) -> dict[str, ClusterTarget]:
        """By cluster, those with an agent of their own left out."""
        return {one.cluster.name: one for one in choose_targets(self.evaluation, (), ()) if not one.cluster.pull}

    def target(self, cluster: str, stacks: Set[str] | None) -> ClusterTarget | None:
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


def without_stacks(target: ClusterTarget, stacks: Set[str]) -> ClusterTarget:
    return _only(target, target.stacks - stacks) if stacks else target


def _only(target: ClusterTarget, stacks: frozenset[str]) -> ClusterTarget:
    """What is not looked at is not missing either: nothing is said about orphans then."""
    desired = tuple(one for one in target.desired if one.stack in stacks)
    return replace(target, desired=desired, stacks=stacks, complete=False)


def hold_back(result: Result, reason: str) -> WaitingError:
    return WaitingError(result.cluster, result.stack, reason)


def evaluate_commit(
    origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None, pool: Pool
) -> EvaluatedCommit:
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
    files = Checkout(
        Repository(NO_FILES, settings),
        found.id,
        found.subject,
        git,
        identity=repository_identity(settings.fleet.name, remote=origin.url),
        remotes={settings.git.remote: origin.url},
        tree=found.tree,
    )
    return EvaluatedCommit(files, evaluation)


def _known(
    mirror: Mirror, before: EvaluatedCommit | None, commit: str, repository: Repository
) -> PreviousEvaluation | None:
    if before is None or before.files.repository.settings != repository.settings:
        return None
    return open_checkout(mirror.repository, before.evaluation, repository, base=before.revision, head=commit)


def changed_placements(before: EvaluatedCommit | None, after: EvaluatedCommit) -> frozenset[StackCluster] | None:
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


class CommitReader(Protocol):
    @property
    def also(self) -> tuple[str, ...]:
        """Refs that are asked for with the branch."""

    @property
    def pool(self) -> Pool | None:
        """Who evaluates; None where nobody does."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """For as long as the service runs."""

    def read(
        self, origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None
    ) -> EvaluatedCommit:
        """What a commit that the mirror has wants. Whatever is wrong with it is raised."""

    def check(
        self, found: EvaluatedCommit, before: EvaluatedCommit | None, memory: Callable[[], Iterable[StatusRecord]]
    ) -> None:
        """Raise PolicyError if it lost more than it should. `memory` is what the status branch says."""


@dataclass(slots=True)
class EvaluatingReader:
    also: tuple[str, ...] = (approvals.REF,)
    pool: Pool | None = field(default=None, init=False)

    @contextmanager
    def opened(self) -> Iterator[None]:
        with Pool() as self.pool:
            yield

    def read(
        self, origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None
    ) -> EvaluatedCommit:
        assert self.pool is not None  # noqa: S101 - it is open
        return evaluate_commit(origin, mirror, commit, before, self.pool)

    def check(
        self, found: EvaluatedCommit, before: EvaluatedCommit | None, memory: Callable[[], Iterable[StatusRecord]]
    ) -> None:
        git = found.files.git
        assert git is not None  # noqa: S101 - the mirror's
        known = (before.revision, Placements.of(before.evaluation).pairs) if before else None
        check_commit_safety(git, found.revision, found.evaluation, budget_of(found), before=known, memory=memory)


def budget_of(found: EvaluatedCommit) -> DeletionBudget:
    budget = found.files.repository.settings.budget
    return DeletionBudget(budget.deletions, budget.share)


AGAIN = Backoff(first=5.0, most=900.0)  # the same files mostly mean the same mistake; a machine may get some memory


@dataclass(slots=True)
class BranchFollower:
    origin: FollowedRepository
    reading: CommitReader
    signers: Path | None  # only commits signed with one of their keys are read
    fetches: Counter
    tip: str = ""  # the newest commit that was looked at, good or not
    since: float = 0.0  # when it was seen; 0: it is in every cluster
    _again: float = math.inf  # when to read it again, if that failed
    _failures: int = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Whoever asks the remote meanwhile, counted if it fails."""
        try:
            yield
        except FleetError:
            self.fetches.labels(str(self.origin), "failed").inc()
            raise

    async def tips(self, mirror: Mirror, *refs: str) -> Mapping[str, str]:
        return await run_in_thread(mirror.tips, self.origin.branch, *self.reading.also, *refs)

    async def newest(
        self,
        mirror: Mirror,
        tip: str,
        before: EvaluatedCommit | None,
        check: Callable[[EvaluatedCommit], Awaitable[None]],
    ) -> EvaluatedCommit | None:
        """What the commit that the branch is at wants; None: that is known. Whatever is wrong with it is raised.

        `check` raises what speaks against it.
        """
        if tip == self.tip and time.monotonic() < self._again:
            self.fetches.labels(str(self.origin), "same").inc()
            return None
        if tip != self.tip:
            seen = time.monotonic()
            with self.asking():
                await run_in_thread(mirror.fetch, (self.origin.refspec,))
            self.tip, self.since, self._failures = tip, seen, 0
        self.fetches.labels(str(self.origin), "new").inc()
        try:
            if self.signers:
                await run_in_thread(check_signature, mirror.repository, tip, self.signers)
            found = await run_in_thread(self.reading.read, self.origin, mirror, tip, before)
            await check(found)
        except FleetError:
            self._failures += 1
            self._again = time.monotonic() + AGAIN.delay(self._failures)
            raise
        self._again = math.inf
        return found

    def read_again(self, seconds: float) -> None:
        """What was read cannot be used, for a reason that is not in it."""
        self._again = time.monotonic() + seconds
