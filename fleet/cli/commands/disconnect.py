"""`fleet disconnect`: the release of an app. All of it runs on, nothing of it is ours, and manifests are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import AppQuery, LiveApp, app_options, find_app
from fleet.cli.options import Seconds
from fleet.cli.output import print_message
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.kube.client.client import Client

POLL_INTERVAL = 0.5  # seconds


@click.command()
@app_options
@click.option(
    "--write",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the manifests go. [default: APP.yaml]",
)
@click.option("--timeout", type=Seconds(), default="2m", show_default=True, help="How long the operator may take.")
def disconnect(
    query: AppQuery,
    *,
    file: Path | None,
    timeout: float,
) -> int:
    """Give APP back: its members, Services and volumes run on as they are, and no operator looks after them.

    The manifests of what runs are written to a file, without Secrets; kubectl apply of it changes nothing. Take the app
    out of its stack, too: a sync that still finds it there takes it over again.

    \b
    fleet disconnect registry --cluster eu-1 --write registry.yaml
    """
    import asyncio

    app = find_app(query)
    target = file or Path(f"{query.name}.yaml")
    count = asyncio.run(_release(app, target, timeout))
    click.echo(f"✓ {app}: keeps running, fleet no longer manages it; {count_noun(count, 'manifest')} in {target}")
    print_message("take it out of its stack and commit that, or the next sync takes it over again")
    return 0


async def _release(app: LiveApp, target: Path, seconds: float) -> int:
    """Let the operator release the app, and write its manifests; return how many there are.

    They are written before and after: a run that is ended in between leaves the first file, which says the same.
    """
    from fleet.adopt.export import AppReference, find_parts, read_manifests
    from fleet.errors import ResourceError
    from fleet.kube.objects import delete

    async with app.cluster.client() as client:
        owner = AppReference(app.name, app.resource.kind, app.driver.stateful_sets(app.model))
        objects = await find_parts(client, app.namespace, owner)
        _write_manifests(target, await read_manifests(client, app.namespace, objects))
        await _mark_released(client, app)
        uid = str(app.manifest["metadata"]["uid"])
        response = await delete(client, app.resource, app.namespace, app.name, uid=uid)
        if response.status == 409:
            raise ResourceError(f"{app} is another one than a moment ago", hint="try again")
        await _wait_until_gone(client, app, seconds)
        released = await read_manifests(client, app.namespace, objects)
    _write_manifests(target, released)
    return len(released)


async def _mark_released(client: Client, app: LiveApp) -> None:
    """Mark the app as released before it is deleted: without this annotation, to delete an app is to take it out.

    If this run is ended before the deletion, the operator removes the annotation after a while.
    """
    import datetime

    from fleet.errors import ResourceError
    from fleet.kube.client.errors import error_text
    from fleet.kube.objects import apply
    from fleet.model.app import ON_DELETE, ON_DELETE_SINCE, RELEASE

    now = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {ON_DELETE: RELEASE, ON_DELETE_SINCE: now}
    metadata = {"name": app.name, "namespace": app.namespace, "annotations": annotations}
    manifest = {"apiVersion": app.resource.api_version, "kind": app.resource.kind, "metadata": metadata}
    uid = str(app.manifest["metadata"]["uid"])
    response = await apply(client, app.resource, manifest, force=True, manager="fleet-disconnect", uid=uid)
    if response.status >= 300:
        raise ResourceError(f"{app} changed meanwhile: {error_text(response.body)}", hint="try again")


async def _wait_until_gone(client: Client, app: LiveApp, seconds: float) -> None:
    """Wait until the custom resource is gone; raise a TimeoutError if the operator takes longer."""
    import asyncio
    import time

    from fleet.errors import TimeoutError as LateError
    from fleet.kube.objects import get

    deadline = time.monotonic() + seconds
    while await get(client, app.resource, app.namespace, app.name) is not None:
        if time.monotonic() > deadline:
            raise LateError(
                f"{app} is not given back after {seconds:g} s",
                hint="the operator does it when it runs: `fleet operator status`",
            )
        await asyncio.sleep(POLL_INTERVAL)


def _write_manifests(target: Path, objects: list[dict[str, Any]]) -> None:
    """Write manifests as YAML documents."""
    from fleet.yaml_text import dump_all

    target.write_text(dump_all(objects))
