"""Apply a bundle from inside a cluster.

What the branch of a cluster wants, in the place of an evaluation: no code of anybody is run here.

The branch goes on from commit to commit, and its messages have the commits of the fleet's repository. So a branch that
was replaced is known by them after a restart too: what this cluster reported to have is not among them.

One sync of what was rendered, and the end: for a person, a job, or to say that a rewritten branch is meant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.agent.manifests import NAME
from fleet.bundle.model import RenderedSet
from fleet.bundle.storage import read_set, sources
from fleet.errors import ConfigurationError, NotFoundError, PolicyError
from fleet.evaluate.result import ClusterData, Evaluation
from fleet.git.objects import Snapshot
from fleet.git.repository import Mirror
from fleet.git.repository import Repository as Git
from fleet.git.status import chosen, report
from fleet.git.status_records import Record
from fleet.kube.client.client import Client
from fleet.kube.identity import program
from fleet.objects.desired import StackCluster
from fleet.plan import RepositoryOwnership
from fleet.repository import Repository
from fleet.repository.settings import Budget, Fleet, Settings, Trust
from fleet.repository.settings import Git as GitSettings
from fleet.serve.commits import Origin, Wanted, budget_of
from fleet.serve.safety import told
from fleet.sync.progress import Progress
from fleet.sync.result import Result
from fleet.sync.rollout.order import Order
from fleet.sync.run import How, connect, sync
from fleet.sync.safety import Placed, check_departures
from fleet.sync.source import NO_FILES, Files

HINT = "if it is meant, say so once: fleet agent --once --allow-rewritten"


@dataclass(frozen=True, slots=True)
class FromBranch:
    """For one cluster. `report` is where health goes, "" to the repository that it reads."""

    cluster: str
    context: str | None = None
    report: str = ""
    status_branch: str = GitSettings().status_branch
    also: tuple[str, ...] = ()
    pool: None = None  # nobody's code is run here

    @contextmanager
    def opened(self) -> Iterator[None]:
        yield

    def read(self, origin: Origin, mirror: Mirror, commit: str, before: Wanted | None) -> Wanted:
        git = mirror.repository
        with git.objects("read the rendered set") as objects:
            tip = Snapshot.of(objects, commit, git.limits, title=origin.branch)
            if tip is None:
                raise NotFoundError(f"{origin} has no commit {commit[:8]}")
            found = read_set(tip, self.cluster, before.rendered if before else None)
        self._check_status_branch(found)
        return Wanted(self._files(origin, git, found), self._evaluation(found, before), found)

    def check(self, found: Wanted, before: Wanted | None, memory: Callable[[], Iterable[Record]]) -> None:
        """As for the centre: what the process itself has seen counts, unless somebody went that way before."""
        git = found.files.git
        assert git is not None  # noqa: S101 - the mirror's
        problem: PolicyError | None = None
        if before is not None and before.rendered is not None:
            try:
                if git.outside([before.commit], found.commit):
                    raise _rewritten(found, before.commit)
                return _check_departures(found, before.rendered.known)
            except PolicyError as refusal:
                problem = refusal  # somebody may have said that it is meant
        records = [one for one in memory() if one.cluster == self.cluster]
        told = sources(git, found.commit)
        if before and problem:
            unknown = {one.revision for one in records if one.content}.difference(sources(git, before.commit))
            if not unknown.intersection(told) and not _is_applied(found, records):
                raise problem
        for one in records:
            if one.content and one.revision and one.revision not in told:
                raise _rewritten(found, one.revision)
        return _check_departures(found, {one.stack for one in records})

    def _check_status_branch(self, found: RenderedSet) -> None:
        """Where this pushes to is said by whoever started it: a set could name the branch that everybody works on."""
        said = found.index.status_branch
        if said != self.status_branch:
            raise ConfigurationError(
                f"fleet.json: status_branch: the set says {said!r}, and this agent reports to {self.status_branch!r}",
                hint=f"if it is meant, start the agent with --status-branch {said}",
            )

    def _evaluation(self, found: RenderedSet, before: Wanted | None) -> Evaluation:
        """Of stacks whose files are the same, the very same as before."""
        made = found.evaluation()
        (cluster,) = made.clusters
        old = before.rendered.stacks if before and before.rendered else {}
        stacks = tuple(
            before.stacks[one.name]
            if before and one.name in old and old[one.name] is found.stacks.get(one.name)
            else one
            for one in made.stacks
        )
        return replace(made, clusters=(replace(cluster, context=self.context),), stacks=stacks)

    def _files(self, origin: Origin, git: Git, found: RenderedSet) -> Files:
        index = found.index
        settings = Settings(
            fleet=Fleet(index.fleet),
            git=GitSettings(status_branch=index.status_branch),
            budget=Budget(index.budget.deletions, index.budget.share),
            trust=Trust(account=index.account),
        )
        return Files(
            Repository(NO_FILES, settings),
            index.revision,
            index.subject,
            git,
            identity=index.fleet,
            remotes={settings.git.remote: self.report or origin.url},
        )


def _is_applied(found: Wanted, records: Collection[Record]) -> bool:
    """All of the set, by whoever reported: a set of the same commit may have other content."""
    parts = found.rendered.index.stacks if found.rendered else ()
    said = {(one.stack, one.content) for one in records if one.wanted == found.revision}
    return bool(parts) and all((one.stack, one.content) in said for one in parts)


def _check_departures(found: Wanted, known: Collection[str]) -> None:
    assert found.rendered is not None  # noqa: S101 - it was read from a branch
    index, here = found.rendered.index, found.rendered.known
    pairs: frozenset[StackCluster] = frozenset((stack, index.cluster) for stack in here)
    placed = Placed(here.union(index.elsewhere), frozenset({index.cluster}), pairs)
    check_departures({*((stack, index.cluster) for stack in known), *pairs}, placed, budget_of(found))


def _rewritten(found: Wanted, before: str) -> PolicyError:
    message = f"the rendered set {found.commit[:8]} does not go on from {before[:8]}, which was applied: "
    return PolicyError(f"{message}the branch was rewritten", hint=HINT)


def once(
    origin: Origin,
    reading: FromBranch,
    cache: Path,
    how: How,
    progress: Progress,
    *,
    inside: bool,
    status: bool,
    rewritten: bool,
) -> tuple[Wanted, list[Result]]:
    """Fetch, check, apply and report."""
    mirror = origin.mirror(cache)
    tip = mirror.tips(origin.branch)[origin.ref]
    mirror.fetch((origin.refspec,))
    found = reading.read(origin, mirror, tip, None)
    if not rewritten:
        reading.check(found, None, lambda: told(found.files) if status else ())

    def reach(cluster: ClusterData) -> AbstractAsyncContextManager[Client]:
        return Client(in_cluster=True, cluster=cluster.name) if inside else connect(cluster, how.kubeconfig)

    accounts = found.files.repository.settings.trust.account
    how = replace(
        how,
        budget=budget_of(found),
        claim=RepositoryOwnership(found.files.identity),
        accounts=accounts,
        reach=reach,
        order=Order(found.stacks),
    )
    run = asyncio.run(sync(list(found.targets.values()), how, progress, revision=found.revision))
    results = [*(found.after(one) for one in run.results if not one.leaving), *found.unplaced()]
    if status:
        _report(found, results)
    return found, results


def _report(found: Wanted, results: list[Result]) -> None:
    files = found.files
    assert files.git is not None  # noqa: S101 - it is of a mirror
    settings = files.repository.settings.git
    reports = [found.report(one, found.revision) for one in results]
    remote = chosen(files.remotes, settings.remote)
    report(files.git, reports, gone=found.gone, remote=remote, branch=settings.status_branch, by=program(NAME))
