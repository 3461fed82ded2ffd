"""The app that a command is about, among all that are in the clusters. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from fleet.cli.clusters import ClusterRef, resolve_clusters, run_in_each
from fleet.cli.options import kubeconfig_option
from fleet.cli.output import print_message

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.kit.driver import Driver
    from fleet.kube.client.client import Client
    from fleet.model.app import App
    from fleet.objects.resource import Resource

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class LiveApp:
    """An app in a cluster, with its custom resource as the cluster has it."""

    cluster: ClusterRef
    resource: Resource
    manifest: dict[str, Any]

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Return the name in the cluster."""
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

        app_driver = driver(self.resource.kind, self.resource.group)
        assert app_driver is not None  # noqa: S101 - apps are looked for by the kinds of drivers
        return app_driver

    @property
    def model(self) -> App:
        """Return the app as users write it, read from its manifest."""
        model: App = self.driver.app.from_manifest(self.manifest)
        return model

    def __str__(self) -> str:
        renamed = f" ({self.name} in the cluster)" if self.name_in_git != self.name else ""
        return f"{self.resource.kind} {self.namespace}/{self.name_in_git}{renamed} on {self.cluster.name}"


@dataclass(frozen=True, slots=True)
class AppQuery:
    """What the user says about which app is meant: its name, and the options of `app_options`."""

    name: str
    cluster: str | None = None
    context: str | None = None
    kubeconfig: Path | None = None
    stack: str | None = None
    namespace: str = ""  # "" for all


def app_options(command: F, *, required: bool = True) -> F:
    """Add APP, and --cluster, --context, --stack and --namespace: the command gets them as its argument `query`.

    Where APP is not `required` and not given, its name is "".
    """

    @wraps(command)
    def with_query(
        *,
        name: str | None,
        cluster: str | None,
        context: str | None,
        kubeconfig: Path | None,
        stack: str | None,
        namespace: str,
        **rest: Any,
    ) -> Any:
        return command(AppQuery(name or "", cluster, context, kubeconfig, stack, namespace), **rest)

    wrapped: Any = with_query
    for option in (
        kubeconfig_option(),
        click.option("--context", metavar="NAME", help="A context of the kubeconfig instead of a cluster."),
        click.option("--cluster", metavar="NAME", help="The cluster, if there are apps of that name in several."),
        click.option("--stack", metavar="NAME", help="The stack that it is from."),
        click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace that it is in."),
        click.argument("name", metavar="APP" if required else "[APP]", required=required),
    ):
        wrapped = option(wrapped)
    return cast("F", wrapped)


def find_app(query: AppQuery) -> LiveApp:
    """Return the only app that fits; raise NotFoundError if there is none, ConfigurationError if there are several."""
    import asyncio

    clusters = resolve_clusters([query.cluster] if query.cluster else [], query.context, query.kubeconfig)
    return asyncio.run(_find(query, clusters))


async def _find(query: AppQuery, clusters: list[ClusterRef]) -> LiveApp:
    """Search all clusters, by the name in the cluster and by the name in git."""
    from fleet.errors import ConfigurationError
    from fleet.kube.apps import apps
    from fleet.names import NAME

    async def search(cluster: ClusterRef, client: Client) -> list[LiveApp]:
        labels = f"fleet.dev/stack={query.stack}" if query.stack else ""
        named = apps(client, namespace=query.namespace, labels=labels, name=query.name)
        matches = [LiveApp(cluster, resource, manifest) async for resource, manifest in named]
        name_label = ",".join([*([labels] if labels else []), f"{NAME}={query.name}"])
        labelled = apps(client, namespace=query.namespace, labels=name_label)
        renamed = [LiveApp(cluster, resource, manifest) async for resource, manifest in labelled]
        matches += [app for app in renamed if app.name != query.name]
        return [app for app in matches if app.name_in_git == query.name] or matches

    results, errors = await run_in_each(clusters, search)
    candidates = [app for matches in results.values() for app in matches]
    if len(candidates) == 1:
        for error in errors:
            print_message(f"not asked: {error.message}")
        return candidates[0]
    if candidates:
        raise ConfigurationError(
            f"there are several apps called {query.name}: {'; '.join(map(str, candidates))}",
            hint="say which with --cluster, --stack or --namespace",
        )
    if errors:
        raise _add_hint(errors[0], query.namespace)
    raise await _make_missing_error(query, clusters)


def _add_hint(error: FleetError, namespace: str) -> FleetError:
    """Add a hint for a user who may not list the apps of all namespaces."""
    from fleet.kube.client.errors import NoRightError

    if isinstance(error, NoRightError) and not namespace:
        error.hint = "name the namespace with -n if you may look in that one only"
    return error


async def _make_missing_error(query: AppQuery, clusters: list[ClusterRef]) -> FleetError:
    """Return the error for an app that no cluster has, with the closest name that a cluster has."""
    from fleet.errors import NotFoundError
    from fleet.kube.apps import apps
    from fleet.names import name_in_git
    from fleet.suggestion import suggestion

    async def list_names(_: ClusterRef, client: Client) -> list[str]:
        return [name_in_git(manifest) async for _, manifest in apps(client, namespace=query.namespace)]

    results, _ = await run_in_each(clusters, list_names)
    names = {name for listed in results.values() for name in listed}
    where = ", ".join(cluster.name for cluster in clusters)
    limits = f" in namespace {query.namespace}" if query.namespace else ""
    limits += f" of stack {query.stack}" if query.stack else ""
    hint = suggestion(query.name, names) if names - {query.name} else "`fleet status` shows what is where"
    return NotFoundError(f"there is no app {query.name!r} on {where}{limits}", hint=hint)
