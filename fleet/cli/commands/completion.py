"""`fleet completion`: the script that makes <Tab> work in a shell, and the answers to its questions.

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
        click.echo(
            script.replace(
                _find_invocation(shell, program), f"{_find_invocation(shell, program)} completion {shell} --answer"
            )
        )
        return
    arguments, _ = complete.get_completion_args()
    add_proposals(root, arguments)
    click.echo(complete.complete())


def _find_invocation(shell: str, program: str) -> str:
    """Return the end of the line of click's script that runs the program."""
    return {"bash": f"COMP_CWORD=$COMP_CWORD {program}", "zsh": f"COMP_CWORD=$((CURRENT-1)) {program}"}.get(
        shell, f"COMP_CWORD=(commandline -t) {program}"
    )


class _CompletedName(click.ParamType[str]):
    """A string for which there are proposals."""

    name = "text"

    def __init__(self, names: Callable[[], Iterator[str]]) -> None:
        self._names = names

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return [CompletionItem(name) for name in sorted(set(self._names())) if name.startswith(incomplete)]


def add_proposals(command: click.Command, arguments: list[str]) -> None:
    """Give proposals to the parameters of the command that the arguments name: no command has to declare them."""
    for argument in ["", *arguments]:
        if isinstance(command, click.Group) and argument:
            command = command.get_command(click.Context(command), argument) or command
        for parameter in command.params:
            names = _NAMES.get(parameter.name or "")
            if names and parameter.type is click.STRING:
                parameter.type = _CompletedName(names)


def list_stack_names() -> Iterator[str]:
    """Yield the names of the stacks in the repository around the current directory."""
    for tree in _parse_files("stacks"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and _get_function_name(decorator) == "stack":
                        names = [_get_text(keyword.value) for keyword in decorator.keywords if keyword.arg == "name"]
                        yield (names[0] if names else None) or node.name.strip("_").replace("_", "-").lower()


def list_cluster_names() -> Iterator[str]:
    """Yield the names of the clusters, as far as they are written as plain text."""
    for tree in _parse_files("clusters"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _get_function_name(node) == "Cluster":
                keywords = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
                name = _get_text((node.args or keywords or [ast.Constant(None)])[0])
                if name:
                    yield name


def list_context_names() -> Iterator[str]:
    """Yield the contexts of the kubeconfig."""
    from fleet.cli.clusters import list_contexts
    from fleet.errors import FleetError

    try:
        yield from list_contexts()
    except FleetError:
        return


_NAMES: dict[str, Callable[[], Iterator[str]]] = {
    "stack": list_stack_names,
    "stacks": list_stack_names,
    "cluster": list_cluster_names,
    "clusters": list_cluster_names,
    "context": list_context_names,
}


def _parse_files(kind: str) -> Iterator[ast.Module]:
    """Yield the syntax of the files of stacks or clusters; files that cannot be read or parsed are left out."""
    from fleet.errors import FleetError
    from fleet.repository import Repository

    try:
        repository = Repository.find()
        files = repository.stack_files() if kind == "stacks" else repository.cluster_files()
    except FleetError:
        return
    for file in files:
        try:
            yield ast.parse(Path(repository.root, file).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue


def _get_function_name(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _get_text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
