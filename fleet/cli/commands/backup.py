"""`fleet backup`: a backup of an app now, by the same Job that its schedule makes; and which there are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import Found, Wanted, app_options, find, in_one
from fleet.cli.options import wait_options
from fleet.cli.output import emit, output_option, table

if TYPE_CHECKING:
    from fleet.kube.client.client import Client
    from fleet.sync.progress import Progress


@click.command()
@app_options
@click.option("--list", "listed", is_flag=True, help="Make none; show those that the cluster knows of.")
@wait_options
@output_option
def backup(
    *,
    name: str,
    cluster: str | None,
    context: str | None,
    kubeconfig: Path | None,
    stack: str | None,
    namespace: str,
    listed: bool,
    wait: bool,
    timeout: float,
    form: str,
) -> int:
    """Make a backup of APP now, where its `backup` in git says, and wait until it is complete and checked.

    It counts as one of those that are kept. --list shows what the cluster remembers: the last complete one, and recent
    Jobs; the store may have older ones.

    \b
    fleet backup registry --cluster eu-1
    fleet backup registry --list
    """
    import asyncio

    from fleet.sync.progress import shown

    found = asyncio.run(find(Wanted(name, in_one(cluster, context, kubeconfig), stack, namespace)))
    _check_configured(found)
    if listed:
        rows = asyncio.run(_known(found))
        emit(rows, form, lambda: _table(rows))
        return 0
    with shown(quiet=form != "text") as progress:
        made = asyncio.run(_make(found, progress, wait=wait, seconds=timeout))
    emit(made, form, lambda: _text(found, made))
    return 0


def _check_configured(found: Found) -> None:
    from fleet.errors import ConfigurationError

    if found.app.backup is None:  # type: ignore[attr-defined]  # every app that can be backed up has it
        raise ConfigurationError(
            f"{found} has no backup: nobody has said where to",
            hint='give it backup=Backup(schedule="0 3 * * *", to=Claim("backups")) in its stack, commit, and sync',
        )


async def _make(found: Found, progress: Progress, *, wait: bool, seconds: float) -> dict[str, Any]:
    import datetime

    from fleet.apps.backup import backup_job
    from fleet.errors import ResourceError
    from fleet.kube.jobs import ended, last_words, start

    def tell(doing: str) -> None:
        progress.update(found.name, found.place.name, "backup", doing)

    async with found.place.client() as client:
        job = await start(client, backup_job(await _cron_job(client, found), datetime.datetime.now(tz=datetime.UTC)))
        name = str(job["metadata"]["name"])
        tell(name)
        if not wait:
            return {"job": name, "state": "started"}
        record = last_words(await ended(client, job, seconds=seconds, tell=tell))
        if record is None:
            raise ResourceError(f"{found}: Job {name} ended well and did not say what it made")
        progress.update(found.name, found.place.name, "done")
        return {"job": name, "state": "complete", **record}


async def _cron_job(client: Client, found: Found) -> dict[str, Any]:
    from fleet.errors import ResourceError
    from fleet.kube.jobs import CRON_JOBS
    from fleet.kube.objects import Scope, pages

    async for page in pages(client, Scope(CRON_JOBS, found.namespace, labels=_labels(found))):
        for one in page["items"]:
            return dict(one)
    raise ResourceError(
        f"{found}: the operator has not made its CronJob yet", hint="`fleet operator status` says whether it runs"
    )


def _labels(found: Found) -> str:
    return f"fleet.dev/app={found.name},fleet.dev/kind={found.resource.kind},fleet.dev/task=backup"


async def _known(found: Found) -> list[dict[str, Any]]:
    """Recent Jobs, the newest first, and the last complete backup that the operator noted."""
    from fleet.kube.health import judge
    from fleet.kube.jobs import JOBS, last_words, pods_of, troubles
    from fleet.kube.objects import Scope, pages

    rows = []
    async with found.place.client() as client:
        async for page in pages(client, Scope(JOBS, found.namespace, labels=_labels(found))):
            for job in page["items"]:
                own = job["metadata"]
                pods = await pods_of(client, found.namespace, own["name"])
                health = judge({"apiVersion": "batch/v1", "kind": "Job", **job})
                record = last_words(pods) or {}
                state = {"Healthy": "complete", "Degraded": "failed"}.get(str(health.state), "running")
                message = "" if state == "complete" else next(filter(None, map(troubles, pods)), health.message)
                row = {"time": own["creationTimestamp"], "job": own["name"], "state": state, "message": message}
                rows.append({**row, **_named(record)})
    last = found.status.get("lastBackup")
    if last and last["place"] not in {row.get("place") for row in rows}:
        rows.append({"time": last["time"], "job": "", "state": "complete", "message": "", **_named(last)})
    return sorted(rows, key=lambda row: str(row["time"]), reverse=True)


def _named(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: record[key] for key in ("time", "place", "size", "checksum") if key in record}


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no backup is known"
    cells = [
        [row["time"], row["state"], _size(row.get("size")), row.get("place") or row["message"] or row["job"]]
        for row in rows
    ]
    return table(["time", "state", "size", "backup"], cells)


def _text(found: Found, made: Mapping[str, Any]) -> str:
    if made["state"] != "complete":
        return f"• {found}: Job {made['job']} is started"
    return "\n".join(
        [
            f"✓ {found}: {made.get('place', made.get('name'))}",
            f"    size      {_size(made.get('size'))}",
            f"    checksum  {made.get('checksum', '–')}",
            f"    version   {made.get('version', '–')}, reaching revision {made.get('revision', '–')}",
        ]
    )


def _size(count: Any) -> str:
    if count is None:
        return "–"
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
