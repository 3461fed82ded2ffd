"""`fleet roll`: every member of an app restarts once, one at a time, in the engine's own order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import Found, Wanted, app_options, find, in_one
from fleet.cli.options import wait_options
from fleet.cli.output import remark

if TYPE_CHECKING:
    from fleet.kube.client.client import Client

EVERY = 1.0  # seconds between two looks


@click.command()
@app_options
@wait_options
def roll(
    *,
    name: str,
    cluster: str | None,
    context: str | None,
    kubeconfig: Path | None,
    stack: str | None,
    namespace: str,
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

    found = asyncio.run(find(Wanted(name, in_one(cluster, context, kubeconfig), stack, namespace)))
    word = asyncio.run(_ask(found))
    if wait:
        asyncio.run(_until_rolled(found, word, timeout))
        click.echo(f"✓ {found}: every member was restarted")
    else:
        click.echo(f"• {found}: members restart one after the other")
    return 0


async def _ask(found: Found) -> str:
    """The word that stands for this roll; another one is another roll."""
    import datetime

    from fleet.kube.objects import apply
    from fleet.model.app import ROLL

    word = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": found.name, "namespace": found.namespace, "annotations": {ROLL: word}}
    resource = found.resource
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    async with found.place.client() as client:
        answer = await apply(
            client, resource, manifest, force=True, manager="fleet-roll", uid=str(found.manifest["metadata"]["uid"])
        )
    _check(found, answer)
    return word


def _check(found: Found, answer: Any) -> None:
    from fleet.errors import ResourceError
    from fleet.kube.client.errors import said

    if answer.status >= 300:
        raise ResourceError(f"{found} changed meanwhile: {said(answer.body)}", hint="try again")


async def _until_rolled(found: Found, word: str, seconds: float) -> None:
    import asyncio
    import time

    from fleet.errors import TimeoutError as LateError

    end, last = time.monotonic() + seconds, ""
    async with found.place.client() as client:
        while True:
            conditions, message = await _conditions(client, found)
            rolled = conditions.get("Rolled", {})
            if rolled.get("message") == word and rolled.get("status") == conditions["Ready"].get("status") == "True":
                return
            if message != last:
                remark(f"  {message}")
                last = message
            if time.monotonic() > end:
                raise LateError(
                    f"{found} is not through after {seconds:g} s: {message}", hint="`fleet status` says how it goes on"
                )
            await asyncio.sleep(EVERY)


async def _conditions(client: Client, found: Found) -> tuple[dict[str, Any], str]:
    from fleet.errors import NotFoundError
    from fleet.kube.objects import get

    now = await get(client, found.resource, found.namespace, found.name)
    if now is None:
        raise NotFoundError(f"{found} was deleted")
    status = now.get("status") or {}
    by_type = {one["type"]: one for one in status.get("conditions", ())}
    return {"Ready": {}, **by_type}, str(status.get("message", "no operator has said anything yet"))
