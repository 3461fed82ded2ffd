"""`fleet operator`: the part of fleet that runs inside clusters: its installation, state and removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from fleet.cli.clusters import ClusterRef, context_options, resolve_clusters, run_in_each
from fleet.cli.operator_output import (
    format_installed,
    format_removed,
    format_states,
    installed_data,
    removed_data,
    state_data,
)
from fleet.cli.options import Seconds
from fleet.cli.output import emit_result, format_json, output_option

if TYPE_CHECKING:
    from fleet.cli.lab_images import LabImages
    from fleet.install.apply import ObjectOutcome
    from fleet.install.install import InstallResult, RemoveResult
    from fleet.install.manifests import InstallOptions
    from fleet.install.status import OperatorState
    from fleet.kit.permissions import Permissions
    from fleet.kube.client.client import Client

wait_option = click.option("--wait/--no-wait", default=True, help="Wait until it runs. [default: wait]")
timeout_option = click.option(
    "--timeout", type=Seconds(), default="3m", show_default=True, help="How long to wait, as 90s, 5m or 1h30m."
)
take_over_option = click.option(
    "--take-over", is_flag=True, help="Also objects that something else made, kubectl for instance."
)


@click.group()
def operator() -> None:
    """The part of fleet that runs inside clusters: install, status, allow, uninstall, dockerfile, run.

    In a repository it is about all its clusters, or those of --cluster; elsewhere about the kubeconfig's current
    context, or that of --context.
    """


@operator.command()
@context_options
@click.option("--image", metavar="IMAGE", help="The operator's image. [default: in a lab, the one that is built here]")
@click.option(
    "--engine-image",
    "engine_images",
    multiple=True,
    metavar="ENGINE=IMAGE",
    help="An engine's image, with {version}, {series} or {tag} in it; ENGINE= is the official one. May be repeated.",
)
@click.option(
    "--allow-image",
    "allow_images",
    multiple=True,
    metavar="PATTERN",
    help="Images that apps may name. May be repeated.",
)
@click.option(
    "--allow-store",
    "allow_stores",
    multiple=True,
    metavar="PATTERN",
    help="Places that backups may be at: claim/NAME, nfs://SERVER/PATH, s3://BUCKET/FOLDER, https://SERVER/BUCKET/FOLDER."
    " [default: claims, but no StatefulSet's]",
)
@click.option(
    "--allow-restore",
    "allow_restores",
    multiple=True,
    metavar="PATTERN",
    help="Namespaces whose backups apps of others may start from.",
)
@click.option(
    "--allow-service",
    "allow_services",
    multiple=True,
    metavar="TYPE",
    help="Services that open apps to more than their cluster: NodePort, LoadBalancer. May be repeated.",
)
@click.option(
    "--replicas", type=click.IntRange(1, 5), help="One leads, the others stand by. [default: as installed, or 1]"
)
@take_over_option
@click.option("--dry-run", is_flag=True, help="Change nothing; print the objects.")
@wait_option
@timeout_option
@output_option
def install(
    *,
    clusters: Sequence[str],
    context: str | None,
    kubeconfig: Path | None,
    image: str | None,
    engine_images: Sequence[str],
    allow_images: Sequence[str],
    allow_stores: Sequence[str],
    allow_restores: Sequence[str],
    allow_services: Sequence[str],
    replicas: int | None,
    take_over: bool,
    dry_run: bool,
    wait: bool,
    timeout: float,
    form: str,
) -> int:
    """Install the operator, or bring it up to this release.

    It gets rights on apps everywhere, and on what they are made of only in namespaces with a RoleBinding: syncs bring
    it with their apps, `fleet operator allow` makes it for others. Engine images, replicas and what is allowed stay as
    they are unless they are given; an empty pattern is the default again. Apps do not notice. A cluster that cannot be
    reached does not keep it from the others.

    \b
    fleet operator install --image registry.example.com/fleet-operator:1.0 --replicas 2
    fleet operator install --image … --dry-run -o yaml | kubectl apply --server-side -f -
    """
    from fleet.kit.permissions import Permissions

    def change_permissions(before: Permissions) -> Permissions:
        return Permissions.said(allow_images, allow_stores, allow_restores, before, allow_services)

    engines, permissions = _parse_engine_images(engine_images), change_permissions(Permissions())
    if dry_run and image:
        return _print_manifests(image, engines, replicas, permissions, form)
    selected = resolve_clusters(clusters, context, kubeconfig)
    if dry_run:
        first = _select_images(selected[0], image, build=False)
        return _print_manifests(first.operator, {**first.engines, **engines}, replicas, permissions, form)

    import asyncio
    from dataclasses import replace

    from fleet.cli.results import finish
    from fleet.sync.progress import show_progress

    image_lock = asyncio.Lock()  # clusters of a lab have the same images
    with show_progress(quiet=form != "text") as progress:

        async def install_in(cluster: ClusterRef, client: Client) -> InstallResult:
            from fleet.install.install import install, read_settings

            def report(phase: str, detail: str) -> None:
                progress.update("operator", cluster.name, phase, detail)

            await asyncio.to_thread(_select_images, cluster, image, build=False)  # raises before the cluster is asked
            report("looking", "")
            before = await read_settings(client)
            async with image_lock:
                if not image:
                    report("images", "a lab gets those that it lacks")
                images = await asyncio.to_thread(_select_images, cluster, image, build=True)
            settings = _merge_settings(images, before, engines, replicas)
            settings = replace(settings, allowed=change_permissions(before.allowed if before else Permissions()))
            installed = await install(client, settings, take_over=take_over, wait=wait, seconds=timeout, tell=report)
            progress.update("operator", cluster.name, "done")
            return installed

        results, problems = asyncio.run(run_in_each(selected, install_in))
    if results or form != "text":
        emit_result(
            {name: installed_data(installed) for name, installed in results.items()},
            form,
            lambda: format_installed(results),
        )
    return finish(problems)


def _parse_engine_images(pairs: Sequence[str]) -> dict[str, str]:
    """Return the images by engine; raise ConfigurationError for what is not ENGINE=IMAGE."""
    from fleet.apps.registry import usable_drivers
    from fleet.errors import ConfigurationError
    from fleet.suggestion import suggestion

    engines = {driver.app.kind().lower() for driver in usable_drivers()}
    images = {}
    for pair in pairs:
        engine, separator, image = pair.partition("=")
        if not separator:
            raise ConfigurationError(f"{pair!r} is not ENGINE=IMAGE", field="--engine-image")
        if engine not in engines:
            raise ConfigurationError(
                f"there is no engine {engine!r}", hint=suggestion(engine, engines), field="--engine-image"
            )
        images[engine] = image
    return images


def _select_images(cluster: ClusterRef, image: str | None, *, build: bool) -> LabImages:
    """Return the operator's image and those of engines: the user's, or a lab's, which `build` makes and loads."""
    from fleet.cli.lab_images import LabImages, find_lab, name_images, provide_images
    from fleet.errors import ConfigurationError
    from fleet.kube.client.kubeconfig import read_kubeconfig

    if image:
        return LabImages(image, {}, "")
    lab_cluster = find_lab(str(read_kubeconfig(cluster.kubeconfig, cluster.context).cluster.values.get("server", "")))
    if lab_cluster is None:
        raise ConfigurationError(
            f"{cluster.name}: which image shall run? It is no lab of this machine, and there is no public image",
            hint="--image REGISTRY/fleet-operator:VERSION; `fleet operator dockerfile | docker build -t … -` makes one",
            field="--image",
        )
    return provide_images(lab_cluster[0]) if build else name_images()


def _merge_settings(
    images: LabImages, before: InstallOptions | None, engines: Mapping[str, str], replicas: int | None
) -> InstallOptions:
    """Return the settings that the user gives now, else those of the installation, else the lab's or the defaults."""
    from fleet.install.manifests import InstallOptions

    previous = before.engine_images if before else {}
    merged = {**images.engines, **previous, **engines}
    return InstallOptions(
        image=images.operator,
        engine_images={engine: name for engine, name in merged.items() if name},
        replicas=replicas or (before.replicas if before else 1),
        built=images.built,
    )


def _print_manifests(
    image: str, engines: Mapping[str, str], replicas: int | None, permissions: Permissions, form: str
) -> int:
    """Print the objects that an installation would apply."""
    from fleet.install.manifests import InstallOptions, manifests

    given = {engine: name for engine, name in engines.items() if name}
    objects = manifests(InstallOptions(image, given, replicas or 1, permissions))
    if form == "json":
        data = {"apiVersion": "v1", "kind": "List", "items": objects}
        click.echo(format_json(data))
    elif form == "yaml":
        from fleet.yaml_text import dump_all

        click.echo(dump_all(objects), nl=False)
    else:
        from fleet.objects.desired import Key

        click.echo("\n".join(str(Key.of(manifest)) for manifest in objects))
    return 0


@operator.command()
@context_options
@take_over_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
@output_option
def uninstall(
    *,
    clusters: Sequence[str],
    context: str | None,
    kubeconfig: Path | None,
    take_over: bool,
    yes: bool,
    timeout: float,
    form: str,
) -> int:
    """Take the operator out. Apps run on, and their definitions and custom resources stay.

    Nobody looks after the apps from then on: a member that is lost is not replaced. `fleet operator install` takes over
    where it was left.

    \b
    fleet operator uninstall --cluster eu-1
    """
    import asyncio
    import sys

    from fleet.cli.results import finish
    from fleet.errors import ConfigurationError
    from fleet.sync.progress import show_progress

    selected = resolve_clusters(clusters, context, kubeconfig)
    if not yes:
        names = ", ".join(cluster.name for cluster in selected)
        if not sys.stdin.isatty():
            raise ConfigurationError(f"this would remove the operator from {names}", hint="say so with --yes")
        click.confirm(f"Remove the operator from {names}? Apps run on.", abort=True, err=True)
    with show_progress(quiet=form != "text") as progress:

        async def remove_from(cluster: ClusterRef, client: Client) -> RemoveResult:
            from fleet.install.install import remove

            def report(phase: str, detail: str) -> None:
                progress.update("operator", cluster.name, phase, detail)

            removed = await remove(client, take_over=take_over, seconds=timeout, tell=report)
            progress.update("operator", cluster.name, "done")
            return removed

        results, problems = asyncio.run(run_in_each(selected, remove_from))
    if results or form != "text":
        emit_result(
            {name: removed_data(removed) for name, removed in results.items()}, form, lambda: format_removed(results)
        )
    return finish(problems)


@operator.command()
@click.argument("namespaces", metavar="NAMESPACE...", nargs=-1, required=True)
@context_options
@take_over_option
def allow(
    *,
    namespaces: Sequence[str],
    clusters: Sequence[str],
    context: str | None,
    kubeconfig: Path | None,
    take_over: bool,
) -> int:
    """Let the operator work in namespaces whose apps come from no stack.

    It makes the RoleBinding that stacks bring with their apps; `kubectl delete rolebinding fleet-operator -n
    NAMESPACE` takes it back.
    """
    import asyncio

    from fleet.cli.results import finish

    async def allow_in(cluster: ClusterRef, client: Client) -> None:
        from fleet.install.apply import allow_namespaces

        def report(change: ObjectOutcome) -> None:
            click.echo(f"✓ {cluster.name}: {change.key} {change.what}")

        await allow_namespaces(client, namespaces, take_over=take_over, tell=report)

    _, problems = asyncio.run(run_in_each(resolve_clusters(clusters, context, kubeconfig), allow_in))
    return finish(problems)


@operator.command()
@context_options
@output_option
def status(*, clusters: Sequence[str], context: str | None, kubeconfig: Path | None, form: str) -> int:
    """Show what is installed, who leads, and how the apps are that it looks after.

    Exit code 4 when a cluster cannot be asked.
    """
    import asyncio

    from fleet.cli.results import finish

    async def read_from(_: ClusterRef, client: Client) -> OperatorState:
        from fleet.install.status import read_state

        return await read_state(client)

    results, problems = asyncio.run(run_in_each(resolve_clusters(clusters, context, kubeconfig), read_from))
    if results or form != "text":
        emit_result({name: state_data(state) for name, state in results.items()}, form, lambda: format_states(results))
    return finish(problems)


@operator.command()
@click.option(
    "--with",
    "packages",
    multiple=True,
    metavar="PACKAGE",
    help="A package with app types: one release (fleet-nats==1.2), or the file of a wheel. May be repeated.",
)
def dockerfile(packages: tuple[str, ...]) -> None:
    """Print a Dockerfile that makes the operator's image, and with `--target serve` that of `fleet serve`.

    \b
    fleet operator dockerfile | docker build -t registry.example.com/fleet-operator:1.0 -
    fleet operator dockerfile --with fleet-nats==1.2 | docker build -t registry.example.com/fleet-operator:1.0 -
    fleet operator dockerfile --with dist/fleet_nats-1.2-py3-none-any.whl | docker build -t … -f - .
    """
    from fleet.install.manifests import dockerfile as text

    click.echo(text(packages), nl=False)


@operator.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> NoReturn:
    """Run the operator here and now, against a cluster of the kubeconfig, for those who work on it.

    \b
    fleet operator run --context dev --image 'etcd=localhost/fleet-lab/etcd:{series}'
    fleet operator run --help
    """
    import os
    import sys
    from importlib.util import find_spec

    from fleet.errors import NotFoundError

    if find_spec("fleet_operator") is None:
        raise NotFoundError("the operator is not part of this installation", hint="pip install fleet-gitops")
    # Another program, not an import: nothing in fleet depends on the operator.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "fleet_operator", "run", *arguments])  # noqa: S606
