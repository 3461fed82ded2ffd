"""`fleet connect`: the engine's own client, run beside a member of the app, and how programs connect."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import Found, Wanted, app_options, find, in_one
from fleet.cli.output import emit, output_option, remark

if TYPE_CHECKING:
    from fleet.kube.client.client import Client
    from fleet.model.app import App

DIRECTORY = "/etc/client"  # where a program of the reader's may have the connection Secret mounted


@click.command()
@app_options
@click.option("--print", "printed", is_flag=True, help="Only say how programs inside the cluster connect.")
@click.option("-i", "--stdin", is_flag=True, help="Give the command what comes on standard input.")
@output_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
def connect(
    *,
    name: str,
    cluster: str | None,
    context: str | None,
    kubeconfig: Path | None,
    stack: str | None,
    namespace: str,
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

    found = asyncio.run(find(Wanted(name, in_one(cluster, context, kubeconfig), stack, namespace)))
    if command:
        return asyncio.run(_once(found, command, stdin=stdin))
    app = asyncio.run(_as_clients_have_it(found))
    emit(_data(found, app), form, lambda: _text(found, app))
    if not printed and form == "text" and sys.stdin.isatty() and sys.stdout.isatty():
        _prompt(found)
    return 0


async def _once(found: Found, command: Sequence[str], *, stdin: bool = False) -> int:
    async with found.place.client() as client:
        return await _run(client, found, command, _input() if stdin else None)


async def _run(client: Client, found: Found, command: Sequence[str], stdin: AsyncIterator[bytes] | None = None) -> int:
    from fleet.kube.exec import Command, execute

    inside = found.driver.client(await _as_it_runs(client, found))
    pod = await _member(client, found)
    argv = [word.replace("{pod}", pod) for word in inside.argv]
    asked = Command(found.namespace, pod, inside.container, [*argv, *command])
    code = await execute(client, asked, out=_to(sys.stdout), err=_to(sys.stderr), stdin=stdin)
    sys.stdout.flush()
    return code


async def _as_clients_have_it(found: Found) -> App:
    """What is told is what is so: git may be ahead of members that were taken over."""
    if found.app.adoption is None:
        return found.app
    async with found.place.client() as client:
        return await _as_it_runs(client, found)


async def _as_it_runs(client: Client, found: Found) -> App:
    """With the names that it was found with, if it was taken over."""
    from fleet.kube.discovery import Resource
    from fleet.kube.objects import get

    app = found.app
    name = found.driver.notes(app) if app.adoption else ""
    notes = (
        await get(client, Resource("", "v1", "ConfigMap", "configmaps", True), found.namespace, name) if name else None
    )
    made: App = found.driver.as_noted(app, notes) if notes else app
    return made


async def _member(client: Client, found: Found) -> str:
    """A pod that serves: the leader if it is known, since others would ask it too."""
    from fleet.errors import ResourceError
    from fleet.kube.discovery import Resource
    from fleet.kube.health import State, judge
    from fleet.kube.objects import Scope, pages

    own = {"app.kubernetes.io/name": found.driver.meta.name.lower(), "app.kubernetes.io/instance": found.name}
    labels = "" if found.app.adoption else ",".join(f"{name}={value}" for name, value in own.items())
    members = {one["name"] for one in found.status.get("members", ())}
    judged = {
        pod["metadata"]["name"]: judge({"apiVersion": "v1", "kind": "Pod", **pod})
        async for page in pages(client, Scope(Resource("", "v1", "Pod", "pods", True), found.namespace, labels=labels))
        for pod in page["items"]
        if labels or pod["metadata"]["name"] in members  # pods that others made carry no labels of ours
    }
    ready = sorted(name for name, health in judged.items() if health.state is State.HEALTHY)
    if not ready:
        why = "; ".join(f"{name}: {health.message}" for name, health in sorted(judged.items())) or "it has no pods"
        raise ResourceError(f"no member of {found} serves: {why}", hint="`fleet status` says how it is")
    leader = str(found.status.get("leader", ""))
    return leader if leader in ready else ready[0]


def _to(stream: Any) -> Any:
    """Bytes as they come: what a client prints need not be text."""
    return getattr(stream, "buffer", stream).write


async def _input() -> AsyncIterator[bytes]:
    import asyncio
    import os

    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), 65536):
        yield data


def _data(found: Found, app: App) -> dict[str, Any]:
    connection = found.driver.connection(app)
    return {
        "app": found.name,
        "kind": found.resource.kind,
        "cluster": found.place.name,
        "namespace": found.namespace,
        "url": connection.url,
        "host": connection.host,
        "port": connection.port,
        "secret": connection.secret,
        "environment": _environment(found, app),
    }


def _environment(found: Found, app: App) -> dict[str, str]:
    given = found.driver.client(app).environment
    return {name: value.format(directory=DIRECTORY) for name, value in given.items()}


def _text(found: Found, app: App) -> str:
    connection = found.driver.connection(app)
    lines = [
        str(found),
        f"  from inside the cluster  {connection.url}",
        f"  Secret with credentials  {found.namespace}/{connection.secret}",
        f"  with that at {DIRECTORY}:",
        *(f"    {name}={value}" for name, value in _environment(found, app).items()),
    ]
    return "\n".join(lines)


def _prompt(found: Found) -> None:
    """Line by line: engines' clients without a prompt of their own get one."""
    import asyncio
    import contextlib
    import shlex

    from fleet.errors import FleetError

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - makes input() remember and edit lines

    program = found.driver.client(found.app).program
    remark(f"commands of {program}, such as `help`; leave with `exit` or Ctrl-D")
    with asyncio.Runner() as runner:
        while True:
            try:
                words = shlex.split(input(f"{found.name}> "))
            except (EOFError, KeyboardInterrupt):
                remark("")
                return
            except ValueError as problem:
                remark(str(problem))
                continue
            if words[:1] in (["exit"], ["quit"]):
                return
            if not words:
                continue
            try:
                runner.run(_once(found, words[1:] if words[0] == program else words))
            except FleetError as problem:
                click.secho(f"error: {problem}", fg="red", err=True)
            except KeyboardInterrupt:
                remark("stopped")
