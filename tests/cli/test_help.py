"""The examples in the help are commands that there are, with flags that they have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from fleet.cli import cli

MAIN = ("check", "render", "preview", "approve", "sync", "serve", "status", "diff", "history", "rollback", "destroy")


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))


def _examples(command: click.Command) -> Iterator[list[str]]:
    """Every command line of ours in the blocks that the help keeps as they are."""
    for block in re.findall(r"\x08\n(.*?)(?:\n\n|\Z)", command.help or "", re.DOTALL):
        for line in block.splitlines():
            for part in re.split(r" [|] | && |   +", line.strip()):
                if part.startswith("fleet "):
                    yield shlex.split(part.replace("…", ""))[1:]


ALL = dict(_commands(cli))
EXAMPLES = [(path, words) for path, command in ALL.items() for words in _examples(command)]


@pytest.mark.parametrize(("path", "words"), EXAMPLES, ids=" ".join)
def test_an_example_names_a_command_and_its_flags(path: tuple[str, ...], words: list[str]) -> None:
    depth = max(length for length in range(5) if length == 0 or tuple(words[:length]) in ALL)
    assert depth, f"fleet {' '.join(words)}"
    command = ALL[tuple(words[:depth])]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}
    if command.context_settings.get("ignore_unknown_options"):
        return  # another program's
    for word in words[depth:]:
        if word == "--":
            return
        assert not re.match("--?[a-z]", word) or word.partition("=")[0] in known, word


@pytest.mark.parametrize("name", MAIN)
def test_what_people_type_most_has_an_example(name: str) -> None:
    assert any(path == (name,) for path, _ in EXAMPLES)
