"""Agent that applies a bundle from inside a cluster. No user code is run here.

The branch of the cluster says what is desired, in the place of an evaluation. The branch grows commit by commit, and
the messages of its commits have the commits of the fleet's repository. That is how a replaced branch is detected, after
a restart too: it lacks what this cluster reported to have.

`sync_once` is a single sync of the bundle: for a user, a job, or to say that a rewritten branch is intended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.agent.manifests import NAME
from fleet.bundle.model import Bundle
from fleet.bundle.storage import read_bundle, rendered_revisions
from fleet.errors import ConfigurationError, NotFoundError, PolicyError
from fleet.evaluate.result import ClusterData, Evaluation
from fleet.git.objects import Snapshot
from fleet.git.repository import GitRepository, Mirror
from fleet.git.status import choose_remote, report
from fleet.git.status_records import StatusRecord
from fleet.kube.client.client import Client
from fleet.kube.identity import program_name
from fleet.objects.desired import StackCluster
from fleet.repository import Repository
from fleet.repository.settings import Budget, Fleet, GitSettings, Settings, Trust
from fleet.serve.commits import EvaluatedCommit, FollowedRepository, budget_of
from fleet.serve.safety import read_status_records
from fleet.sync.commit import CommitOptions, run_options
from fleet.sync.options import SyncHooks, SyncOptions, connect
from fleet.sync.progress import Progress
from fleet.sync.result import Result
from fleet.sync.rollout.order import RolloutContext
from fleet.sync.run import sync_fleet
from fleet.sync.safety import Placements, check_removed_placements
from fleet.sync.source import NO_FILES, Commit

HINT = "if it is meant, say so once: fleet agent --once --allow-rewritten"


@dataclass(frozen=True, slots=True)
class BundleReader:
    """Reader of one cluster's branch. `report` is where health is written; "" for the repository that it reads."""

    cluster: str
    context: str | None = None
    report: str = ""
    status_branch: str = GitSettings().status_branch
    also: tuple[str, ...] = ()
    pool: None = None  # no user code is run here

    @contextmanager
    def open(self) -> Iterator[None]:
        """Do nothing: the reader holds nothing open."""
        yield

    def read(
        self, origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None
    ) -> EvaluatedCommit:
        """Return a commit of the branch with its bundle as what is desired.

        Raise NotFoundError if the repository does not have the commit, ConfigurationError for another status branch.
        """
        git = mirror.repository
        with git.objects("read the rendered set") as objects:
            tip = Snapshot.of(objects, commit, git.limits, title=origin.branch)
            if tip is None:
                raise NotFoundError(f"{origin} has no commit {commit[:8]}")
            bundle = read_bundle(tip, self.cluster, before.rendered if before else None)
        self._check_status_branch(bundle)
        return EvaluatedCommit(self._files(origin, git, bundle), self._evaluation(bundle, before), bundle)

    def check(
        self, commit: EvaluatedCommit, before: EvaluatedCommit | None, memory: Callable[[], Iterable[StatusRecord]]
    ) -> None:
        """Check a commit as the service at the centre does; raise PolicyError if it is refused.

        What this process has seen counts, unless the status records show that another process accepted the rewritten
        branch.
        """
        git = commit.files.git
        error: PolicyError | None = None
        if before is not None and before.rendered is not None:
            try:
                if git.outside([before.commit], commit.commit):
                    raise _rewritten_error(commit, before.commit)
                return _check_removed_stacks(commit, before.rendered.stack_names)
            except PolicyError as rewritten:
                error = rewritten  # the user may have allowed it
        records = [record for record in memory() if record.cluster == self.cluster]
        revisions = rendered_revisions(git, commit.commit)
        if before and error:
            unknown = {record.revision for record in records if record.content}.difference(
                rendered_revisions(git, before.commit)
            )
            if not unknown.intersection(revisions) and not _is_applied(commit, records):
                raise error
        for record in records:
            if record.content and record.revision and record.revision not in revisions:
                raise _rewritten_error(commit, record.revision)
        return _check_removed_stacks(commit, {record.stack for record in records})

    def _check_status_branch(self, bundle: Bundle) -> None:
        """Refuse a status branch that the user did not name: a bundle could name the branch that all users work on."""
        named = bundle.index.status_branch
        if named != self.status_branch:
            raise ConfigurationError(
                f"fleet.json: status_branch: the set says {named!r}, and this agent reports to {self.status_branch!r}",
                hint=f"if it is meant, start the agent with --status-branch {named}",
            )

    def _evaluation(self, bundle: Bundle, before: EvaluatedCommit | None) -> Evaluation:
        """Return the evaluation; a stack whose files are the same is the same object as before."""
        evaluation = bundle.evaluation()
        (cluster,) = evaluation.clusters
        old = before.rendered.stacks if before and before.rendered else {}
        stacks = tuple(
            before.stacks[stack.name]
            if before and stack.name in old and old[stack.name] is bundle.stacks.get(stack.name)
            else stack
            for stack in evaluation.stacks
        )
        return replace(evaluation, clusters=(replace(cluster, context=self.context),), stacks=stacks)

    def _files(self, origin: FollowedRepository, git: GitRepository, bundle: Bundle) -> Commit:
        index = bundle.index
        settings = Settings(
            fleet=Fleet(index.fleet),
            git=GitSettings(status_branch=index.status_branch),
            budget=Budget(index.budget.deletions, index.budget.share),
            trust=Trust(account=index.account),
        )
        return Commit(
            Repository(NO_FILES, settings),
            git,
            index.revision,
            "",
            index.subject,
            identity=index.fleet,
            remotes={settings.git.remote: self.report or origin.url},
        )


def _is_applied(commit: EvaluatedCommit, records: Collection[StatusRecord]) -> bool:
    """Return whether all of the bundle was reported as applied: a bundle of the same commit may have other content."""
    parts = commit.rendered.index.stacks if commit.rendered else ()
    reported = {(record.stack, record.content) for record in records if record.wanted == commit.revision}
    return bool(parts) and all((part.stack, part.content) in reported for part in parts)


def _check_removed_stacks(commit: EvaluatedCommit, stacks: Collection[str]) -> None:
    """Raise PolicyError if more of these stacks have left the bundle than the budget allows."""
    assert commit.rendered is not None  # noqa: S101 - it was read from a branch
    index, placed_stacks = commit.rendered.index, commit.rendered.stack_names
    pairs: frozenset[StackCluster] = frozenset((stack, index.cluster) for stack in placed_stacks)
    placed = Placements(placed_stacks.union(index.elsewhere), frozenset({index.cluster}), pairs)
    check_removed_placements({*((stack, index.cluster) for stack in stacks), *pairs}, placed, budget_of(commit))


def _rewritten_error(commit: EvaluatedCommit, before: str) -> PolicyError:
    """Return the error for a branch that does not contain what was applied."""
    message = f"the rendered set {commit.commit[:8]} does not descend from {before[:8]}, which was applied: "
    return PolicyError(f"{message}the branch was rewritten", hint=HINT)


class _AgentHooks(SyncHooks):
    """Hooks of an agent: it applies in its own cluster, in the order that stacks of the bundle need each other."""

    def __init__(self, rollout: RolloutContext, *, inside: bool) -> None:
        self.rollout = rollout
        self._inside = inside

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        if self._inside:
            return Client(in_cluster=True, cluster=cluster.name)
        return connect(cluster, options.kubeconfig)


def sync_once(
    origin: FollowedRepository,
    reading: BundleReader,
    cache: Path,
    options: CommitOptions,
    progress: Progress,
    *,
    inside: bool,
    status: bool,
    rewritten: bool,
) -> tuple[EvaluatedCommit, list[Result]]:
    """Fetch, check, apply and report one commit; return it with the results."""
    mirror = origin.mirror(cache)
    tip = mirror.tips(origin.branch)[origin.ref]
    mirror.fetch((origin.refspec,))
    commit = reading.read(origin, mirror, tip, None)
    if not rewritten:
        reading.check(commit, None, lambda: read_status_records(commit.files) if status else ())

    hooks = _AgentHooks(RolloutContext(commit.stacks), inside=inside)
    run = asyncio.run(
        sync_fleet(
            list(commit.targets.values()), run_options(commit.files, options), progress, hooks, revision=commit.revision
        )
    )
    results = [*(commit.after(result) for result in run.results if not result.leaving), *commit.unplaced_results()]
    if status:
        _report(commit, results)
    return commit, results


def _report(commit: EvaluatedCommit, results: list[Result]) -> None:
    """Write the results to the status branch."""
    files = commit.files
    settings = files.repository.settings.git
    reports = [commit.report(result, commit.revision) for result in results]
    remote = choose_remote(files.remotes, settings.remote)
    branch, program = settings.status_branch, program_name(NAME)
    report(files.git, reports, gone=commit.find_removed, remote=remote, branch=branch, by=program)
