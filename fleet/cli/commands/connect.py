"""`fleet connect`: the engine's own client, run beside a member of the app, and how programs connect."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import AppQuery, LiveApp, app_options, find_app
from fleet.cli.output import emit_result, output_option, print_message

if TYPE_CHECKING:
    from fleet.kube.client.client import Client
    from fleet.model.app import App

DIRECTORY = "/etc/client"  # where a program of the user's may have the connection Secret mounted


@click.command()
@app_options
@click.option("--print", "printed", is_flag=True, help="Only say how programs inside the cluster connect.")
@click.option("-i", "--stdin", is_flag=True, help="Give the command what comes on standard input.")
@output_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
def connect(
    query: AppQuery,
    *,
    printed: bool,
    stdin: bool,
    form: str,
    command: Sequence[str],
) -> int:
    """Open the engine's own client, etcdctl for an etcd, connected to APP; or run one COMMAND of it.

    It runs in the pod of a member, so you need the right to exec there, and nothing installed here. Without a COMMAND:
    how programs connect, and at a terminal a prompt. The exit code is that of the COMMAND.

    \b
    fleet connect registry -- get --prefix orders/
    fleet connect registry --cluster eu-1
    """
    import asyncio

    live = find_app(query)
    if command:
        return asyncio.run(_run_once(live, command, stdin=stdin))
    app = asyncio.run(_read_served_app(live))
    emit_result(_connection_data(live, app), form, lambda: _format_connection(live, app))
    if not printed and form == "text" and sys.stdin.isatty() and sys.stdout.isatty():
        _run_prompt(live)
    return 0


async def _run_once(live: LiveApp, command: Sequence[str], *, stdin: bool = False) -> int:
    """Connect to the cluster, run a command of the engine's client, and return its exit code."""
    async with live.cluster.client() as client:
        return await _run_in_member(client, live, command, _read_stdin() if stdin else None)


async def _run_in_member(
    client: Client, live: LiveApp, command: Sequence[str], stdin: AsyncIterator[bytes] | None = None
) -> int:
    from fleet.kube.exec import Command, execute

    engine_client = live.driver.client(await _read_running_app(client, live))
    pod = await _select_member(client, live)
    argv = [argument.replace("{pod}", pod) for argument in engine_client.argv]
    invocation = Command(live.namespace, pod, engine_client.container, [*argv, *command])
    code = await execute(
        client, invocation, out=_get_byte_writer(sys.stdout), err=_get_byte_writer(sys.stderr), stdin=stdin
    )
    sys.stdout.flush()
    return code


async def _read_served_app(live: LiveApp) -> App:
    """Return the app as its clients reach it now: git may be ahead of members that were adopted."""
    if live.model.adoption is None:
        return live.model
    async with live.cluster.client() as client:
        return await _read_running_app(client, live)


async def _read_running_app(client: Client, live: LiveApp) -> App:
    """Return the app with the names that it had when it was adopted, if it was."""
    from fleet.kube.objects import get
    from fleet.objects.resource import Resource

    app = live.model
    name = live.driver.notes(app) if app.adoption else ""
    config_maps = Resource("", "v1", "ConfigMap", "configmaps", True)
    notes = await get(client, config_maps, live.namespace, name) if name else None
    running: App = live.driver.as_noted(app, notes) if notes else app
    return running


async def _select_member(client: Client, live: LiveApp) -> str:
    """Return the name of a pod that serves: the leader if it is known, since other members would ask it too."""
    from fleet.errors import ResourceError
    from fleet.kube.health import State, judge
    from fleet.kube.objects import ObjectScope, pages
    from fleet.objects.resource import Resource

    own_labels = {"app.kubernetes.io/name": live.driver.app.kind().lower(), "app.kubernetes.io/instance": live.name}
    labels = "" if live.model.adoption else ",".join(f"{name}={value}" for name, value in own_labels.items())
    members = {member["name"] for member in live.status.get("members", ())}
    health_by_pod = {
        pod["metadata"]["name"]: judge({"apiVersion": "v1", "kind": "Pod", **pod})
        async for page in pages(
            client, ObjectScope(Resource("", "v1", "Pod", "pods", True), live.namespace, labels=labels)
        )
        for pod in page["items"]
        if labels or pod["metadata"]["name"] in members  # pods that the user made carry no labels of ours
    }
    ready = sorted(name for name, health in health_by_pod.items() if health.state is State.HEALTHY)
    if not ready:
        reasons = (
            "; ".join(f"{name}: {health.message}" for name, health in sorted(health_by_pod.items())) or "it has no pods"
        )
        raise ResourceError(f"no member of {live} serves: {reasons}", hint="`fleet status` says how it is")
    leader = str(live.status.get("leader", ""))
    return leader if leader in ready else ready[0]


def _get_byte_writer(stream: Any) -> Any:
    """Return what writes bytes to a stream as they come: what a client prints need not be text."""
    return getattr(stream, "buffer", stream).write


async def _read_stdin() -> AsyncIterator[bytes]:
    import asyncio
    import os

    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), 65536):
        yield data


def _connection_data(live: LiveApp, app: App) -> dict[str, Any]:
    connection = live.driver.connection(app)
    return {
        "app": live.name,
        "kind": live.resource.kind,
        "cluster": live.cluster.name,
        "namespace": live.namespace,
        "url": connection.url,
        "host": connection.host,
        "port": connection.port,
        "secret": connection.secret,
        "environment": _format_environment(live, app),
    }


def _format_environment(live: LiveApp, app: App) -> dict[str, str]:
    environment = live.driver.client(app).environment
    return {name: value.format(directory=DIRECTORY) for name, value in environment.items()}


def _format_connection(live: LiveApp, app: App) -> str:
    connection = live.driver.connection(app)
    lines = [
        str(live),
        f"  from inside the cluster  {connection.url}",
        f"  Secret with credentials  {live.namespace}/{connection.secret}",
        f"  with that at {DIRECTORY}:",
        *(f"    {name}={value}" for name, value in _format_environment(live, app).items()),
    ]
    return "\n".join(lines)


def _run_prompt(live: LiveApp) -> None:
    """Read commands of the engine's client from the terminal and run them: clients without a prompt get one."""
    import asyncio
    import contextlib
    import shlex

    from fleet.errors import FleetError

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - makes input() remember and edit lines

    program = live.driver.client(live.model).program
    print_message(f"commands of {program}, such as `help`; leave with `exit` or Ctrl-D")
    with asyncio.Runner() as runner:
        while True:
            try:
                arguments = shlex.split(input(f"{live.name}> "))
            except (EOFError, KeyboardInterrupt):
                print_message("")
                return
            except ValueError as error:
                print_message(str(error))
                continue
            if arguments[:1] in (["exit"], ["quit"]):
                return
            if not arguments:
                continue
            try:
                runner.run(_run_once(live, arguments[1:] if arguments[0] == program else arguments))
            except FleetError as error:
                click.secho(f"error: {error}", fg="red", err=True)
            except KeyboardInterrupt:
                print_message("stopped")
