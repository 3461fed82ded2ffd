"""`fleet completion`: what makes <Tab> work in a shell, and the answers to it.

Names of stacks and clusters are read from the syntax of the files: nothing of the repository is run for a <Tab>.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_VARIABLE = "_FLEET_COMPLETE"
_PROGRAMS = {"bash": "$1", "zsh": "fleet", "fish": "fleet"}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.option("--answer", is_flag=True, hidden=True, help="Answer a question of the script.")
@click.pass_context
def completion(context: click.Context, shell: str, answer: bool) -> None:
    """Print the script that completes commands, flags and names.

    \b
    bash   echo 'source <(fleet completion bash)' >> ~/.bashrc
    zsh    echo 'source <(fleet completion zsh)' >> ~/.zshrc
    fish   fleet completion fish > ~/.config/fish/completions/fleet.fish
    """
    root = context.find_root().command
    complete = _SHELLS[shell](root, {}, "fleet", _VARIABLE)
    if not answer:
        program = _PROGRAMS[shell]
        # The script asks this command and not the variable of click, so that names are known too.
        script = complete.source().replace(f"{_VARIABLE}={shell}_complete ", "")
        click.echo(script.replace(_asked(shell, program), f"{_asked(shell, program)} completion {shell} --answer"))
        return
    words, _ = complete.get_completion_args()
    teach(root, words)
    click.echo(complete.complete())


def _asked(shell: str, program: str) -> str:
    """The end of the line of click's script that runs the program."""
    return {"bash": f"COMP_CWORD=$COMP_CWORD {program}", "zsh": f"COMP_CWORD=$((CURRENT-1)) {program}"}.get(
        shell, f"COMP_CWORD=(commandline -t) {program}"
    )


class _Named(click.ParamType[str]):
    """A string for which there are proposals."""

    name = "text"

    def __init__(self, names: Callable[[], Iterator[str]]) -> None:
        self._names = names

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return [CompletionItem(name) for name in sorted(set(self._names())) if name.startswith(incomplete)]


def teach(command: click.Command, words: list[str]) -> None:
    """Give the parameters of the command that the words lead to proposals, by their names: no command has to ask."""
    for word in ["", *words]:
        if isinstance(command, click.Group) and word:
            command = command.get_command(click.Context(command), word) or command
        for parameter in command.params:
            names = _NAMES.get(parameter.name or "")
            if names and parameter.type is click.STRING:
                parameter.type = _Named(names)


def stacks() -> Iterator[str]:
    """Names of the stacks in the repository around the current directory."""
    for tree in _trees("stacks"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and _called(decorator) == "stack":
                        given = [_text(keyword.value) for keyword in decorator.keywords if keyword.arg == "name"]
                        yield (given[0] if given else None) or node.name.strip("_").replace("_", "-").lower()


def clusters() -> Iterator[str]:
    """Names of the clusters, as far as they are written as plain text."""
    for tree in _trees("clusters"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node) == "Cluster":
                named = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
                name = _text((node.args or named or [ast.Constant(None)])[0])
                if name:
                    yield name


def contexts() -> Iterator[str]:
    from fleet.cli.clusters import contexts as known
    from fleet.errors import FleetError

    try:
        yield from known()
    except FleetError:
        return


_NAMES: dict[str, Callable[[], Iterator[str]]] = {
    "stack": stacks,
    "stacks": stacks,
    "cluster": clusters,
    "clusters": clusters,
    "context": contexts,
}


def _trees(what: str) -> Iterator[ast.Module]:
    from fleet.errors import FleetError
    from fleet.repository import Repository

    try:
        repository = Repository.find()
        files = repository.stack_files() if what == "stacks" else repository.cluster_files()
    except FleetError:
        return
    for file in files:
        try:
            yield ast.parse(Path(repository.root, file).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
