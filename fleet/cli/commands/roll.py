"""`fleet roll`: a restart of every member of an app, one at a time, in the engine's own order."""

from __future__ import annotations

import click

from fleet.cli.apps import AppQuery, app_options
from fleet.cli.options import wait_options
from fleet.cli.output import output_option


@click.command()
@app_options
@wait_options
@output_option
def roll(query: AppQuery, *, wait: bool, timeout: float, form: str) -> int:
    """Restart every member of APP once, one at a time, the one that leads last, each when all others are well.

    What was waiting for a restart comes with it: an app that was taken over gets the operator's labels and files, which
    members that join need. It is said in the resource's status: kubectl describe shows the condition Converged.

    \b
    fleet roll registry --cluster eu-1
    """
    from fleet.cli.operations import run_operation

    return run_operation(query, "roll", wait=wait, timeout=timeout, form=form)
