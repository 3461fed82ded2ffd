"""Which app a command is about, among all that are in the clusters. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.clusters import Place, at_each, places
from fleet.cli.output import remark

if TYPE_CHECKING:
    from fleet.apps.driver import Driver
    from fleet.errors import FleetError
    from fleet.kube.client.client import Client
    from fleet.kube.discovery import Resource
    from fleet.model.app import App

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Found:
    """One app in one cluster: its custom resource as it is there."""

    place: Place
    resource: Resource
    manifest: dict[str, Any]

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """As it is called in the cluster."""
        return str(self.manifest["metadata"]["name"])

    @property
    def name_in_git(self) -> str:
        from fleet.names import name_in_git

        return name_in_git(self.manifest)

    @property
    def status(self) -> dict[str, Any]:
        return self.manifest.get("status") or {}

    @property
    def driver(self) -> Driver[Any]:
        from fleet.apps.registry import driver

        found = driver(self.resource.kind)
        assert found is not None  # noqa: S101 - it was found by its driver
        return found

    @property
    def app(self) -> App:
        made: App = self.driver.app.from_manifest(self.manifest)
        return made

    def __str__(self) -> str:
        renamed = f" ({self.name} in the cluster)" if self.name_in_git != self.name else ""
        return f"{self.resource.kind} {self.namespace}/{self.name_in_git}{renamed} on {self.place.name}"


def app_options(command: F) -> F:
    """APP and what narrows it down: --cluster or --context, --stack or --namespace."""
    for option in (
        click.option(
            "--kubeconfig",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Where the contexts are. [default: as kubectl finds it]",
        ),
        click.option("--context", metavar="NAME", help="A context of the kubeconfig instead of a cluster."),
        click.option("--cluster", metavar="NAME", help="The cluster, if there are apps of that name in several."),
        click.option("--stack", metavar="NAME", help="The stack that it is from."),
        click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace that it is in."),
        click.argument("name", metavar="APP"),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the flags say."""

    name: str
    places: Sequence[Place]
    stack: str | None
    namespace: str


def in_one(cluster: str | None, context: str | None, kubeconfig: Path | None) -> list[Place]:
    """Where to look: there if it is said, else everywhere."""
    return places([cluster] if cluster else [], context, kubeconfig)


async def find(wanted: Wanted) -> Found:
    """The only one that fits; NotFoundError when there is none, ConfigurationError when there are several."""
    from fleet.errors import ConfigurationError
    from fleet.kube.apps import apps
    from fleet.names import NAME

    async def look(place: Place, client: Client) -> list[Found]:
        labels = f"fleet.dev/stack={wanted.stack}" if wanted.stack else ""
        fitting = apps(client, namespace=wanted.namespace, labels=labels, name=wanted.name)
        there = [Found(place, *one) async for one in fitting]
        renamed = ",".join([*([labels] if labels else []), f"{NAME}={wanted.name}"])
        fitting = apps(client, namespace=wanted.namespace, labels=renamed)
        there += [found for found in [Found(place, *one) async for one in fitting] if found.name != wanted.name]
        return [found for found in there if found.name_in_git == wanted.name] or there

    results, problems = await at_each(wanted.places, look)
    found = [one for there in results.values() for one in there]
    if len(found) == 1:
        for problem in problems:
            remark(f"not asked: {problem.message}")
        return found[0]
    if found:
        raise ConfigurationError(
            f"there are several apps called {wanted.name}: {'; '.join(map(str, found))}",
            hint="say which with --cluster, --stack or --namespace",
        )
    if problems:
        raise _explained(problems[0], wanted.namespace)
    raise await _missing(wanted)


def _explained(problem: FleetError, namespace: str) -> FleetError:
    from fleet.kube.client.errors import NoRightError

    if isinstance(problem, NoRightError) and not namespace:
        problem.hint = "name the namespace with -n if you may look in that one only"
    return problem


async def _missing(wanted: Wanted) -> FleetError:
    from fleet.errors import NotFoundError
    from fleet.kube.apps import apps
    from fleet.names import name_in_git
    from fleet.suggestion import suggestion

    async def look(place: Place, client: Client) -> list[str]:
        return [name_in_git(one) async for _, one in apps(client, namespace=wanted.namespace)]

    results, _ = await at_each(wanted.places, look)
    known = {one for there in results.values() for one in there}
    where = ", ".join(place.name for place in wanted.places)
    narrowed = f" in namespace {wanted.namespace}" if wanted.namespace else ""
    narrowed += f" of stack {wanted.stack}" if wanted.stack else ""
    hint = suggestion(wanted.name, known) if known - {wanted.name} else "`fleet status` shows what is where"
    return NotFoundError(f"there is no app {wanted.name!r} on {where}{narrowed}", hint=hint)
