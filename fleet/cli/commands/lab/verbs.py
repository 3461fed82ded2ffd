"""Commands that make faults, one for each verb of `fleet.lab.faults.registry`, with options from the verb's signature.

What all faults have is declared here: the lab, the cluster, for how long; and for those of an API server the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.commands.lab.options import FaultScope, name_option, open_lab
from fleet.cli.lazy import LazyGroup
from fleet.cli.options import Seconds

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fleet.lab.faults.verb import FaultVerb, Option, Parameter

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
_TYPES: dict[Any, type] = {str: str, int: int, int | None: int, float: float, float | None: float}


class VerbGroup(LazyGroup):
    """A group of commands with one for each verb of a group of `registry.FAULTS`, besides its own."""

    def __init__(self, *args: Any, verbs: str = "", **kwargs: Any) -> None:
        super().__init__(*args, commands={}, **kwargs)
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, *self._list_verbs()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands or cmd_name not in self._list_verbs():
            return self.commands.get(cmd_name)
        from fleet.lab.faults.registry import load_verb

        return make_command(load_verb(cmd_name, self._verbs))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self._list_helps())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command from the table alone: click would load each verb for its help."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=line) for name, line in self._list_helps() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _list_helps(self) -> list[tuple[str, str]]:
        own = {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        return sorted({**self._list_verbs(), **own}.items())

    def _list_verbs(self) -> dict[str, str]:
        from fleet.lab.faults.registry import list_verbs

        return list_verbs(self._verbs)


def complete_target(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete nodes and programs, known without asking a cluster; pods are asked for once `pod/` is typed."""
    from fleet.errors import FleetError
    from fleet.lab.faults.fault import PROGRAMS

    try:
        lab = open_lab(ctx.params.get("name") or "default")
        cluster = lab.spec.cluster_or_first(ctx.params.get("cluster"))
        namespace = ctx.params.get("namespace") or "default"
        names = [*(f"node/{node.name}" for node in lab.nodes(cluster)), *PROGRAMS, "pod/", "volume/"]
        for kind, plural in (("pod", "pods"), ("volume", "persistentvolumeclaims")):
            if incomplete.startswith(f"{kind}/"):
                items = lab.api(cluster).get(f"/api/v1/namespaces/{namespace}/{plural}")["items"]
                names = [f"{kind}/{item['metadata']['name']}" for item in items]
    except FleetError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def scope_options(command: Command) -> Command:
    """Add --name, --cluster and --namespace: the command gets them as its first argument, a `FaultScope`."""

    @wraps(command)
    def with_scope(name: str, cluster: str | None, namespace: str, seconds: float | None = None, **rest: Any) -> Any:
        return command(FaultScope(name, cluster, namespace, seconds), **rest)

    return _decorate(
        with_scope,
        name_option,
        _cluster_option,
        click.option("-n", "--namespace", default="default", show_default=True, help="Of pods and volumes."),
    )


def _decorate(command: Command, *decorators: Decorator) -> Command:
    """Apply decorators so that the help shows their options in this order."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


_cluster_option = click.option("--cluster", help="Cluster. [default: the lab's first]")


def _duration_option(examples: str) -> Decorator:
    return click.option(
        "--for",
        "seconds",
        type=Seconds(),
        help=f"Undo it after that time, as {examples}. [default: when it is cleared]",
    )


def make_command(verb: FaultVerb) -> click.Command:
    """Return the command of a verb: the options of every fault, its own ones, and its targets."""
    from fleet.lab.proxy.plan import Match

    def begin(scope: FaultScope, **values: Any) -> None:
        scope.begin(verb.make(scope.targets, **values))

    parameters = sorted(verb.parameters(), key=_place_in_help)
    command = _decorate(begin, *map(_declare_parameter, parameters))
    match = next((parameter.name for parameter in parameters if parameter.type is Match), None)
    if match is None:
        command = scope_options(_duration_option("30s or 5m")(command))
    else:
        command = _request_options(command, match)
    return click.command(verb.name, help=verb.help)(command)


def _place_in_help(parameter: Parameter) -> tuple[bool, bool]:
    is_last = getattr(parameter.shown, "is_last", False)
    return is_last, parameter.is_positional


def _declare_parameter(parameter: Parameter) -> Decorator:
    """Return the decorator that gives a command this parameter; none for one that is for Python only."""
    from fleet.lab.faults.verb import Option

    shown = parameter.shown
    if isinstance(shown, Option):
        return _declare_option(parameter, shown)
    if shown is None:
        return lambda command: command
    if parameter.type is str:
        return click.argument(parameter.name, metavar="TARGET", shell_complete=complete_target)
    return click.argument(parameter.name, nargs=-1, required=True, metavar="TARGET…", shell_complete=complete_target)


def _declare_option(parameter: Parameter, option: Option) -> Decorator:
    settings: dict[str, Any] = {"help": option.help, "metavar": option.metavar, "show_default": option.show_default}
    if option.is_target:
        settings["shell_complete"] = complete_target
    if parameter.is_required:
        settings["required"] = True
    elif parameter.default is not None:
        settings["default"] = f"{parameter.default:g}s" if option.is_duration else parameter.default
    if option.is_duration:
        settings["type"] = Seconds()
    elif parameter.type in _TYPES:
        settings["type"] = _TYPES[parameter.type]
    else:
        settings["is_flag" if parameter.type is bool else "multiple"] = True
    flags = option.flags or (f"--{parameter.name.replace('_', '-')}",)
    return click.option(*flags, parameter.name, **settings)


def _request_options(command: Command, match: str) -> Command:
    """Add which API server, for how long, and which requests: the command gets a `FaultScope` and its `Match`."""

    @wraps(command)
    def with_match(
        *,
        name: str,
        cluster: str | None,
        seconds: float | None,
        verb: str,
        resource: str,
        namespace: str,
        thing: str,
        agent: str,
        writes: bool,
        **rest: Any,
    ) -> Any:
        from fleet.lab.proxy.plan import Match

        requests = Match(
            verb=verb, resource=resource, namespace=namespace, name=thing, agent=agent, writes=True if writes else None
        )
        return command(FaultScope(name, cluster, namespace, seconds), **{match: requests}, **rest)

    return _decorate(
        with_match,
        name_option,
        _cluster_option,
        _duration_option("30s"),
        click.option("--verb", default="", help="Only this verb: get, list, watch, create, update, patch or delete."),
        click.option("--resource", default="", metavar="PLURAL", help="Only this resource, as pods or pods/log."),
        click.option("-n", "--namespace", default="", help="Only in this namespace. [default: everywhere]"),
        click.option("--object", "thing", default="", metavar="NAME", help="Only the object of this name."),
        click.option("--agent", default="", metavar="BEGINNING", help="Only clients whose name begins so."),
        click.option("--writes", is_flag=True, help="Only requests that may change something."),
    )
