"""`fleet backup`: a backup of an app now, by the operator and the Job that its schedule makes; a list of backups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fleet.cli.apps import AppQuery, LiveApp, app_options, find_app
from fleet.cli.options import wait_options
from fleet.cli.output import emit_result, format_table, output_option


@click.command()
@app_options
@click.option("--list", "listed", is_flag=True, help="Make none; show those that the cluster knows of.")
@wait_options
@output_option
def backup(
    query: AppQuery,
    *,
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

    from fleet.cli.operations import ask

    app = find_app(query)
    _check_configured(app)
    if listed:
        rows = asyncio.run(_list_backups(app))
        emit_result(rows, form, lambda: _format_backups(rows))
        return 0
    record = _describe_backup(ask(app, "backup", wait=wait, timeout=timeout, form=form))
    emit_result(record, form, lambda: _format_backup(app, record))
    return 0


def _check_configured(app: LiveApp) -> None:
    """Raise ConfigurationError if the app says nothing about backups."""
    from fleet.errors import ConfigurationError

    if getattr(app.model, "backup", None) is None:
        raise ConfigurationError(
            f"{app} has no backup: nobody has said where to",
            hint='give it backup=Backup(schedule="0 3 * * *", to=Claim("backups")) in its stack, commit, and sync',
        )


def _describe_backup(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an operation made, or its name if the user did not wait."""
    name, job = operation["operation"], operation.get("job", "")
    if operation["phase"] != "Succeeded":
        return {"operation": name, "job": job, "state": "started"}
    return {"operation": name, "job": job, "state": "complete", **(operation.get("backup") or {})}


def _format_selector(app: LiveApp) -> str:
    return f"fleet.dev/app={app.name},fleet.dev/kind={app.resource.kind},fleet.dev/task=backup"


async def _list_backups(app: LiveApp) -> list[dict[str, Any]]:
    """Return recent Jobs, the newest first, and the last complete backup that the operator recorded."""
    from fleet.kube.health import judge
    from fleet.kube.jobs import JOBS, job_output, job_troubles, pods_of
    from fleet.kube.objects import ObjectScope, pages

    rows = []
    async with app.cluster.client() as client:
        async for page in pages(client, ObjectScope(JOBS, app.namespace, labels=_format_selector(app))):
            for job in page["items"]:
                metadata = job["metadata"]
                pods = await pods_of(client, app.namespace, metadata["name"])
                health = judge({"apiVersion": "batch/v1", "kind": "Job", **job})
                record = job_output(pods) or {}
                state = {"Healthy": "complete", "Degraded": "failed"}.get(str(health.state), "running")
                message = "" if state == "complete" else next(filter(None, map(job_troubles, pods)), health.message)
                row = {
                    "time": metadata["creationTimestamp"],
                    "job": metadata["name"],
                    "state": state,
                    "message": message,
                }
                rows.append({**row, **_select_fields(record)})
    last = app.status.get("lastBackup")
    if last and last["place"] not in {row.get("place") for row in rows}:
        rows.append({"time": last["time"], "job": "", "state": "complete", "message": "", **_select_fields(last)})
    return sorted(rows, key=lambda row: str(row["time"]), reverse=True)


def _select_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: record[key] for key in ("time", "place", "size", "checksum") if key in record}


def _format_backups(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no backup is known"
    cells = [
        [row["time"], row["state"], _format_size(row.get("size")), row.get("place") or row["message"] or row["job"]]
        for row in rows
    ]
    return format_table(["time", "state", "size", "backup"], cells)


def _format_backup(app: LiveApp, record: Mapping[str, Any]) -> str:
    if record["state"] != "complete":
        return f"• {app}: a backup is asked for ({record['operation']})"
    return "\n".join(
        [
            f"✓ {app}: {record.get('place', record.get('name'))}",
            f"    size      {_format_size(record.get('size'))}",
            f"    checksum  {record.get('checksum', '–')}",
            f"    version   {record.get('version', '–')}{_format_position(record)}",
        ]
    )


def _format_position(record: Mapping[str, Any]) -> str:
    """Return how far a backup reaches; records of a release before have a revision, and no position."""
    position = record.get("position", record.get("revision", ""))
    return f", reaching {position}" if position != "" else ""


def _format_size(count: Any) -> str:
    if count is None:
        return "–"
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
