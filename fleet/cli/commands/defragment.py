"""`fleet defragment`: every member of an app makes its file smaller."""

from __future__ import annotations

import click

from fleet.cli.apps import AppQuery, app_options
from fleet.cli.options import wait_options
from fleet.cli.output import output_option


@click.command()
@app_options
@wait_options
@output_option
def defragment(query: AppQuery, *, wait: bool, timeout: float, form: str) -> int:
    """Have every member of APP give back the space that is free in its file, one at a time, the one that leads last.

    A member answers nothing meanwhile, and the one that leads hands over before. Clients reach the others.

    \b
    fleet defragment registry
    """
    from fleet.cli.operations import run_operation

    return run_operation(query, "defragment", wait=wait, timeout=timeout, form=form)
