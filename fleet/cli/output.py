"""What commands print: results on standard output in one of three forms, messages for people on standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

output_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Form of the result on standard output.",
)


def emit_result(data: Any, form: str, text: Callable[[], str]) -> None:
    """Print a result: `data` as JSON or YAML, or what `text` returns for people."""
    if form == "json":
        click.echo(format_json(data))
    elif form == "yaml":
        from fleet.yaml_text import dump

        click.echo(dump(data).rstrip())
    else:
        click.echo(text())


def format_json(data: Any) -> str:
    """Return `data` as JSON in which nothing is invisible, or turns the text around it."""
    import orjson

    from fleet.text import escape_json

    return escape_json(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns as kubectl prints them: upper-case header, three spaces between, no lines."""
    lines = [[cell.upper() for cell in header], *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def print_message(text: str) -> None:
    """Print a line for people on standard error, without credentials; it is never part of the result."""
    from fleet.text import printable, without_credentials

    click.echo(printable(without_credentials(text)), err=True)
