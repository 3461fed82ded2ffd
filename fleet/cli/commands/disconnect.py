"""`fleet disconnect`: an app is given back. All of it runs on, nothing of it is ours, and manifests are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import Found, Wanted, app_options, find, in_one
from fleet.cli.options import Seconds
from fleet.cli.output import remark
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.kube.client.client import Client

EVERY = 0.5


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
    *,
    name: str,
    cluster: str | None,
    context: str | None,
    kubeconfig: Path | None,
    stack: str | None,
    namespace: str,
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

    found = asyncio.run(find(Wanted(name, in_one(cluster, context, kubeconfig), stack, namespace)))
    target = file or Path(f"{name}.yaml")
    count = asyncio.run(_give_back(found, target, timeout))
    click.echo(f"✓ {found}: runs on, and is fleet's no more; {count_noun(count, 'manifest')} in {target}")
    remark("take it out of its stack and commit that, or the next sync takes it over again")
    return 0


async def _give_back(found: Found, target: Path, seconds: float) -> int:
    """Written down before and after: whoever is ended in between has the first, which says the same."""
    from fleet.adopt.export import Whose, manifests, parts
    from fleet.errors import ResourceError
    from fleet.kube.objects import delete
    from fleet.model.app import ADOPTION

    async with found.place.client() as client:
        taken = found.manifest.get("spec", {}).get(ADOPTION) or {}
        whose = Whose(found.name, found.resource.kind, taken.get("statefulSet") or found.name)
        wanted = await parts(client, found.namespace, whose)
        _write(target, await manifests(client, found.namespace, wanted))
        await _mark(client, found)
        own = found.manifest["metadata"]
        answer = await delete(client, found.resource, found.namespace, found.name, uid=str(own["uid"]))
        if answer.status == 409:
            raise ResourceError(f"{found} is another one than a moment ago", hint="try again")
        await _until_gone(client, found, seconds)
        made = await manifests(client, found.namespace, wanted)
    _write(target, made)
    return len(made)


async def _mark(client: Client, found: Found) -> None:
    """Before it is deleted: without this word, to delete an app is to take it out.

    Whoever is ended before the next word is followed by the operator, which takes this one back after a while.
    """
    import datetime

    from fleet.errors import ResourceError
    from fleet.kube.client.errors import said
    from fleet.kube.objects import apply
    from fleet.model.app import ON_DELETE, ON_DELETE_SINCE, RELEASE

    now = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {ON_DELETE: RELEASE, ON_DELETE_SINCE: now}
    metadata = {"name": found.name, "namespace": found.namespace, "annotations": annotations}
    manifest = {"apiVersion": found.resource.api_version, "kind": found.resource.kind, "metadata": metadata}
    uid = str(found.manifest["metadata"]["uid"])
    answer = await apply(client, found.resource, manifest, force=True, manager="fleet-disconnect", uid=uid)
    if answer.status >= 300:
        raise ResourceError(f"{found} changed meanwhile: {said(answer.body)}", hint="try again")


async def _until_gone(client: Client, found: Found, seconds: float) -> None:
    import asyncio
    import time

    from fleet.errors import TimeoutError as LateError
    from fleet.kube.objects import get

    end = time.monotonic() + seconds
    while await get(client, found.resource, found.namespace, found.name) is not None:
        if time.monotonic() > end:
            raise LateError(
                f"{found} is not given back after {seconds:g} s",
                hint="the operator does it when it runs: `fleet operator status`",
            )
        await asyncio.sleep(EVERY)


def _write(target: Path, made: list[dict[str, Any]]) -> None:
    from fleet.yaml_text import dump_all

    target.write_text(dump_all(made))
