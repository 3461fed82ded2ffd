"""The repository and the clusters that a command is about: those of the repository, or a context of the kubeconfig.

The contexts of the kubeconfig are read as the file that it is: nothing is connected to, no plugin is run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.options import cluster_options
from fleet.cli.output import print_message

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.evaluate import ClusterData
    from fleet.kube.client.client import Client
    from fleet.repository import Repository

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """A cluster by the name that users know it by, and how it is reached."""

    name: str
    context: str | None  # of the kubeconfig; None for its current one
    kubeconfig: Path | None

    def client(self) -> Client:
        """Return a client of the cluster; it connects when it is entered."""
        from fleet.kube.client.client import Client

        return Client.of(self.kubeconfig, self.context, cluster=self.name)


def context_options(command: F) -> F:
    """Add --cluster, --context and --kubeconfig."""
    context = click.option(
        "--context", metavar="NAME", help="A context of the kubeconfig instead of the repository's clusters."
    )
    return cluster_options(context(command))


@contextmanager
def open_repository(revision: str | None) -> Iterator[Repository]:
    """Open the working tree around the current directory, or a commit of it."""
    if revision is None:
        from fleet.repository import Repository

        yield Repository.find()
        return
    from fleet.sync.source import read_commit

    with read_commit(revision) as commit:
        yield commit.repository


def select_clusters(repository: Repository, names: Sequence[str]) -> list[ClusterData]:
    """Return the clusters that the user named, or all; raise an error for a name that the repository does not have."""
    from fleet.evaluate import evaluate
    from fleet.sync.targets import check_cluster

    clusters = evaluate(repository, stacks=()).check().clusters
    return [check_cluster(clusters, name) for name in names] or list(clusters)


def resolve_clusters(names: Sequence[str], context: str | None, kubeconfig: Path | None) -> list[ClusterRef]:
    """Return in a repository all its clusters, or those that the user named; elsewhere the current context."""
    from fleet.errors import ConfigurationError
    from fleet.repository import find_root

    if context and names:
        raise click.UsageError("--cluster names clusters of the repository, --context one of the kubeconfig: not both")
    if context:
        return [ClusterRef(context, context, kubeconfig)]
    try:
        find_root()
    except ConfigurationError:
        if names:
            raise
        from fleet.kube.client.kubeconfig import read_kubeconfig

        current = read_kubeconfig(kubeconfig).context
        return [ClusterRef(current, current, kubeconfig)]
    return _resolve_in_repository(names, kubeconfig)


def _resolve_in_repository(names: Sequence[str], kubeconfig: Path | None) -> list[ClusterRef]:
    """Return the clusters of the repository that are reached from here; a message names the others."""
    from fleet.errors import ConfigurationError
    from fleet.repository import Repository

    selected = select_clusters(Repository.find(), names)
    if not selected:
        raise ConfigurationError("the repository has no clusters", hint="add one with `fleet cluster add`")
    reachable = [cluster for cluster in selected if not cluster.pull and not cluster.secret]
    for cluster in selected:
        if cluster not in reachable:
            print_message(f"{cluster.name}: left out, it is not reached from here")
    return [ClusterRef(cluster.name, cluster.kubeconfig_context, kubeconfig) for cluster in reachable]


async def run_in_each(
    clusters: Sequence[ClusterRef], work: Callable[[ClusterRef, Client], Awaitable[T]]
) -> tuple[dict[str, T], list[FleetError]]:
    """Do some work in all clusters at once; return the results by cluster, and the errors of those where it failed."""
    import asyncio

    from fleet.errors import FleetError

    results: dict[str, T] = {}
    errors: dict[str, FleetError] = {}

    async def run(cluster: ClusterRef) -> None:
        try:
            async with cluster.client() as client:
                results[cluster.name] = await work(cluster, client)
        except FleetError as error:
            errors[cluster.name] = error

    await asyncio.gather(*(run(cluster) for cluster in clusters))
    names = [cluster.name for cluster in clusters]
    return {name: results[name] for name in names if name in results}, [errors[n] for n in names if n in errors]


def list_contexts(kubeconfig: Path | None = None) -> tuple[str, ...]:
    """Return the names of all contexts in the files that kubectl would read, in their order."""
    from fleet.kube.client.kubeconfig import kubeconfig_files, parse_kubeconfig

    entries = [
        entry
        for path in kubeconfig_files(kubeconfig)
        if path.exists()
        for entry in parse_kubeconfig(path).get("contexts") or ()
    ]
    return tuple(dict.fromkeys(str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry))
