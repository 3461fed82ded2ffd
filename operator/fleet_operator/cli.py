"""The operator's command line, as the container runs it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from fleet.cli.options import Listen
from fleet.cli.process import run_command
from fleet.kit.backup.commands import backup_commands
from fleet.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fleet-operator")
def cli() -> None:
    """The part of fleet that runs inside a cluster."""


def _load_plan(kind: str) -> Any:
    """Return how apps of a kind are backed up; None for a kind that this release does not know, or does not back up."""
    from fleet.apps.registry import driver  # noqa: PLC0415 - an app type is loaded by the Job that is about one

    known = driver(kind)
    return known.backup_plan() if known else None


cli.add_command(backup_commands(_load_plan))


@cli.command()
def check() -> None:
    """Reach the API server with the pod's service account; print its version and who we are to it."""
    from fleet_operator.check import check_access  # noqa: PLC0415 - the client is slow to import

    version, user = asyncio.run(check_access())
    click.echo(f"Kubernetes {version} reached as {user}")


@cli.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Outside a cluster: the kubeconfig to use.")
@click.option("--context", help="Outside a cluster: the context to use.")
@click.option("--namespace", default="", help="Look at apps in this namespace only.")
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="ENGINE=IMAGE",
    envvar="FLEET_IMAGES",
    help="The image of an engine, with {version}, {series} or {tag} in it; the official one unless given.",
)
@click.option("--allow-image", "allow_images", multiple=True, metavar="PATTERN", help="Images that apps may name.")
@click.option("--allow-store", "allow_stores", multiple=True, metavar="PATTERN", help="Places that backups may be at.")
@click.option(
    "--allow-restore", "allow_restores", multiple=True, metavar="PATTERN", help="Namespaces whose backups others take."
)
@click.option(
    "--allow-service", "allow_services", multiple=True, metavar="TYPE", help="Services that open apps to others."
)
@click.option("--operator-image", default="", envvar="FLEET_OPERATOR_IMAGE", help="Our own image, for Jobs.")
@click.option("--lease/--no-lease", default=True, help="Stand by while another process leads.")
@click.option("--lease-seconds", default=15.0, show_default=True, help="After so long a silence another may lead.")
@click.option("--lease-namespace", default="fleet-system", show_default=True, help="Where the Lease is.")
@click.option("--metrics", type=Listen(), metavar="ADDRESS:PORT", help="Serve /metrics, /healthz and /readyz there.")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def run(  # noqa: PLR0917 - click gives them by name
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    images: tuple[str, ...],
    allow_images: tuple[str, ...],
    allow_stores: tuple[str, ...],
    allow_restores: tuple[str, ...],
    allow_services: tuple[str, ...],
    operator_image: str,
    lease: bool,
    lease_seconds: float,
    lease_namespace: str,
    metrics: tuple[str, int] | None,
    verbose: bool,
) -> None:
    """Look after all apps of the cluster until told to stop (SIGTERM, Ctrl-C)."""
    import logging  # noqa: PLC0415

    from fleet.kit.permissions import Permissions  # noqa: PLC0415
    from fleet.kube.runtime import Lease  # noqa: PLC0415
    from fleet_operator.logs import Lines  # noqa: PLC0415
    from fleet_operator.run import NAME, operator  # noqa: PLC0415

    handler = logging.StreamHandler()
    handler.setFormatter(Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    pairs = (image.partition("=") for image in images)
    program = operator(
        {NAME: operator_image, **{engine: image for engine, _, image in pairs}},
        permissions=Permissions(allow_images, allow_stores, allow_restores, allow_services),
        namespace=namespace,
        lease=Lease(lease_namespace, NAME, seconds=lease_seconds) if lease else None,
        metrics=metrics,
    )
    program.main(kubeconfig, context)


def main() -> None:
    sys.exit(run_command(cli, None, "fleet-operator"))
