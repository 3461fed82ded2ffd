"""`fleet rebuild`: one member of an app gets its data anew from the others."""

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
def rebuild(query: AppQuery, *, member: str, wait: bool, timeout: float, form: str) -> int:
    """Give one MEMBER of APP an empty volume and its data from the others, by the name of its pod.

    It is refused unless the others are a majority without it. The old volume is deleted.

    \b
    fleet rebuild registry registry-1
    """
    from fleet.cli.operations import run_operation

    return run_operation(query, "rebuild", wait=wait, timeout=timeout, form=form, member=member)
