"""`fleet restart`: one member of an app restarts."""

from __future__ import annotations

import click

from fleet.cli.apps import AppQuery, app_options
from fleet.cli.options import wait_options
from fleet.cli.output import output_option


@click.command()
@app_options
@click.argument("member")
@wait_options
@output_option
def restart(query: AppQuery, *, member: str, wait: bool, timeout: float, form: str) -> int:
    """Restart one MEMBER of APP, by the name of its pod, if the others can do without it.

    The one that leads hands over before. `fleet roll` restarts all of them.

    \b
    fleet restart registry registry-1
    """
    from fleet.cli.operations import run_operation

    return run_operation(query, "restart", wait=wait, timeout=timeout, form=form, member=member)
