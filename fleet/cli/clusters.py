"""Which clusters a command is about.

Which clusters a command is about: those of the repository around it, or a context of the kubeconfig.

The contexts of the kubeconfig, read as the file that it is: nothing is connected to, no plugin is run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.options import cluster_options
from fleet.cli.output import remark

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.kube.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster, by the name that people know it by. No context is the kubeconfig's current one."""

    name: str
    context: str | None
    kubeconfig: Path | None

    def client(self) -> Client:
        from fleet.kube.client.client import Client

        return Client.of(self.kubeconfig, self.context, cluster=self.name)


def place_options(command: F) -> F:
    """--cluster, --context and --kubeconfig."""
    context = click.option(
        "--context", metavar="NAME", help="A context of the kubeconfig instead of the repository's clusters."
    )
    return cluster_options(context(command))


def places(clusters: Sequence[str], context: str | None, kubeconfig: Path | None) -> list[Place]:
    """In a repository all its clusters, or those that are named; elsewhere the current context."""
    from fleet.errors import ConfigurationError
    from fleet.repository import find_root

    if context and clusters:
        raise click.UsageError("--cluster names clusters of the repository, --context one of the kubeconfig: not both")
    if context:
        return [Place(context, context, kubeconfig)]
    try:
        find_root()
    except ConfigurationError:
        if clusters:
            raise
        from fleet.kube.client.kubeconfig import read

        current = read(kubeconfig).context
        return [Place(current, current, kubeconfig)]
    return _of_repository(clusters, kubeconfig)


def _of_repository(names: Sequence[str], kubeconfig: Path | None) -> list[Place]:
    from fleet.errors import ConfigurationError
    from fleet.evaluate import evaluate
    from fleet.repository import Repository
    from fleet.sync.targets import check_cluster

    known = evaluate(Repository.find(), stacks=()).check().clusters
    chosen = [check_cluster(known, name) for name in names] or list(known)
    if not chosen:
        raise ConfigurationError("the repository has no clusters", hint="add one with `fleet cluster add`")
    there = [one for one in chosen if not one.pull and not one.secret]
    for one in chosen:
        if one not in there:
            remark(f"{one.name}: left out, it is not reached from here")
    return [Place(one.name, one.kubeconfig_context, kubeconfig) for one in there]


async def at_each(
    chosen: Sequence[Place], work: Callable[[Place, Client], Awaitable[T]]
) -> tuple[dict[str, T], list[FleetError]]:
    """What it came to in each cluster, all at once, and the errors of those where it failed."""
    import asyncio

    from fleet.errors import FleetError

    results: dict[str, T] = {}
    problems: dict[str, FleetError] = {}

    async def one(place: Place) -> None:
        try:
            async with place.client() as client:
                results[place.name] = await work(place, client)
        except FleetError as problem:
            problems[place.name] = problem

    await asyncio.gather(*(one(place) for place in chosen))
    names = [place.name for place in chosen]
    return {name: results[name] for name in names if name in results}, [problems[n] for n in names if n in problems]


def contexts(kubeconfig: Path | None = None) -> tuple[str, ...]:
    """The names of all contexts in the files that kubectl would read, in their order."""
    from fleet.kube.client.kubeconfig import document, files

    entries = [entry for path in files(kubeconfig) if path.exists() for entry in document(path).get("contexts") or ()]
    return tuple(dict.fromkeys(str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry))
