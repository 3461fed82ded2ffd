"""`fleet switchover`: another member of an app leads."""

from __future__ import annotations

import click

from fleet.cli.apps import AppQuery, app_options
from fleet.cli.options import wait_options
from fleet.cli.output import output_option


@click.command()
@app_options
@click.option("--to", metavar="MEMBER", help="The pod of the member that is to lead; any that is well otherwise.")
@wait_options
@output_option
def switchover(query: AppQuery, *, to: str | None, wait: bool, timeout: float, form: str) -> int:
    """Have another member of APP lead, while all of them are well.

    \b
    fleet switchover registry
    fleet switchover registry --to registry-2
    """
    from fleet.cli.operations import run_operation

    return run_operation(query, "switchover", wait=wait, timeout=timeout, form=form, to=to)
