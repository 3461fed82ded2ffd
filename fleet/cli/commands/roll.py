"""`fleet roll`: a restart of every member of an app, one at a time, in the engine's own order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import AppQuery, LiveApp, app_options, find_app
from fleet.cli.options import wait_options
from fleet.cli.output import print_message

if TYPE_CHECKING:
    from fleet.kube.client.client import Client

POLL_INTERVAL = 1.0  # seconds between two reads of the status


@click.command()
@app_options
@wait_options
def roll(
    query: AppQuery,
    *,
    wait: bool,
    timeout: float,
) -> int:
    """Restart every member of APP once, one at a time, the one that leads last, each when all others are well.

    What was waiting for a restart comes with it: an app that was taken over gets the operator's labels and files, which
    members that join need. It is said in the resource's status: kubectl describe shows the condition Converged.

    \b
    fleet roll registry --cluster eu-1
    """
    import asyncio

    app = find_app(query)
    token = asyncio.run(_request_roll(app))
    if wait:
        asyncio.run(_wait_until_rolled(app, token, timeout))
        click.echo(f"✓ {app}: every member was restarted")
    else:
        click.echo(f"• {app}: members restart one after the other")
    return 0


async def _request_roll(app: LiveApp) -> str:
    """Ask the operator for a roll; return the token that stands for it: another token is another roll."""
    import datetime

    from fleet.kube.objects import apply
    from fleet.model.app import ROLL

    token = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": app.name, "namespace": app.namespace, "annotations": {ROLL: token}}
    resource = app.resource
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    async with app.cluster.client() as client:
        response = await apply(
            client, resource, manifest, force=True, manager="fleet-roll", uid=str(app.manifest["metadata"]["uid"])
        )
    _check_applied(app, response)
    return token


def _check_applied(app: LiveApp, response: Any) -> None:
    """Raise ResourceError if the API server refused the annotation."""
    from fleet.errors import ResourceError
    from fleet.kube.client.errors import error_text

    if response.status >= 300:
        raise ResourceError(f"{app} changed meanwhile: {error_text(response.body)}", hint="try again")


async def _wait_until_rolled(app: LiveApp, token: str, seconds: float) -> None:
    """Wait until the operator reports the roll as done, and print its messages; raise a TimeoutError if it is late."""
    import asyncio
    import time

    from fleet.errors import TimeoutError as LateError

    deadline, last_message = time.monotonic() + seconds, ""
    async with app.cluster.client() as client:
        while True:
            conditions, message = await _read_conditions(client, app)
            rolled = conditions.get("Rolled", {})
            if rolled.get("message") == token and rolled.get("status") == conditions["Ready"].get("status") == "True":
                return
            if message != last_message:
                print_message(f"  {message}")
                last_message = message
            if time.monotonic() > deadline:
                raise LateError(
                    f"{app} is not through after {seconds:g} s: {message}", hint="`fleet status` says how it goes on"
                )
            await asyncio.sleep(POLL_INTERVAL)


async def _read_conditions(client: Client, app: LiveApp) -> tuple[dict[str, Any], str]:
    """Return the conditions of the app by type, and its message; raise NotFoundError if it was deleted."""
    from fleet.errors import NotFoundError
    from fleet.kube.objects import get

    manifest = await get(client, app.resource, app.namespace, app.name)
    if manifest is None:
        raise NotFoundError(f"{app} was deleted")
    status = manifest.get("status") or {}
    by_type = {condition["type"]: condition for condition in status.get("conditions", ())}
    return {"Ready": {}, **by_type}, str(status.get("message", "no operator has said anything yet"))
