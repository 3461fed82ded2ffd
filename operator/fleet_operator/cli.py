"""The operator's command line, as the container runs it."""

from __future__ import annotations

import asyncio
import sys

import click

from fleet.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fleet-operator")
def cli() -> None:
    """The part of fleet that runs inside a cluster."""


@cli.command()
def check() -> None:
    """Reach the API server with the pod's service account; print its version and who we are to it."""
    from fleet_operator.check import check_access  # noqa: PLC0415 - the client is slow to import

    version, user = asyncio.run(check_access())
    click.echo(f"Kubernetes {version} reached as {user}")


def main() -> None:
    sys.exit(cli.main(prog_name="fleet-operator"))
