"""The command line, as `--help` prints it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from fleet.cli import cli


def command_line() -> str:
    parts = [
        "# Command line",
        "",
        "Every command of `fleet`, as `--help` prints it. `kubectl fleet …` is the same.",
        "",
    ]
    for context in _contexts(cli, "fleet", None):
        parts += [f"## {context.command_path}", "", "```text", context.get_help().rstrip(), "```", ""]
    return "\n".join(parts)


def _contexts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=110, help_option_names=["-h", "--help"]
    )
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None and not found.hidden:
                yield from _contexts(found, each, context)
