"""`fleet operations`: what was asked of apps once, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import AppQuery, LiveApp, app_options, find_app
from fleet.cli.options import Seconds
from fleet.cli.output import emit_result, format_table, output_option

if TYPE_CHECKING:
    from fleet.cli.clusters import ClusterRef
    from fleet.kube.client.client import Client
    from fleet.sync.progress import Progress


def _app_is_optional(command: Any) -> Any:
    return app_options(command, required=False)


@click.command()
@_app_is_optional
@click.option(
    "--wait/--no-wait", default=False, help="Wait until all that was asked of APP has ended. [default: no-wait]"
)
@click.option(
    "--timeout", type=Seconds(), default="10m", show_default=True, help="How long to wait, as 90s, 5m or 1h30m."
)
@output_option
def operations(query: AppQuery, *, wait: bool, timeout: float, form: str) -> int:
    """Show what was asked of APP, or of all apps, and what became of it: the newest last.

    An operation that has ended is kept for a week. With --wait the exit code is that of the last one: 4 if it was
    refused or failed.

    \b
    fleet operations
    fleet operations registry --wait
    """
    import asyncio

    from fleet.sync.progress import show_progress

    if not query.name:
        if wait:
            raise click.UsageError("--wait is about one app: name it")
        rows = asyncio.run(_list_everywhere(query))
        emit_result(rows, form, lambda: _format_rows(rows))
        return 0
    app = find_app(query)
    with show_progress(quiet=form != "text" or not wait) as progress:
        rows = asyncio.run(_list_of_app(app, progress, wait=wait, seconds=timeout))
    emit_result(rows, form, lambda: _format_rows(rows))
    if wait and rows:
        from fleet.cli.operations import require_success

        require_success(app, rows[-1])
    return 0


async def _list_everywhere(query: AppQuery) -> list[dict[str, Any]]:
    """Return the operations of all clusters; raise the first error if no cluster answered."""
    from fleet.cli.clusters import resolve_clusters, run_in_each
    from fleet.cli.operations import describe_operation
    from fleet.cli.output import print_message

    clusters = resolve_clusters([query.cluster] if query.cluster else [], query.context, query.kubeconfig)

    async def read(cluster: ClusterRef, client: Client) -> list[dict[str, Any]]:
        return [describe_operation(cluster.name, found) for found in await _read(client, query.namespace)]

    results, errors = await run_in_each(clusters, read)
    if errors and not results:
        raise errors[0]
    for error in errors:
        print_message(f"not asked: {error.message}")
    return sorted((row for rows in results.values() for row in rows), key=_order)


async def _list_of_app(app: LiveApp, progress: Progress, *, wait: bool, seconds: float) -> list[dict[str, Any]]:
    """Return the operations of an app; with `wait` when all of them have ended."""
    import time

    from fleet.cli.operations import describe_operation, follow
    from fleet.kit.operations.operation import ENDED, app_of

    identity, deadline = (app.resource.group, app.resource.kind, app.name), time.monotonic() + seconds
    async with app.cluster.client() as client:
        operations = [made for made in await _read(client, app.namespace) if app_of(made) == identity]
        rows = [describe_operation(app.cluster.name, operation) for operation in operations]
        for position, operation in enumerate(operations):
            if wait and rows[position]["phase"] not in ENDED:
                rows[position] = await follow(client, app, operation, progress, max(0.0, deadline - time.monotonic()))
    return sorted(rows, key=_order)


async def _read(client: Client, namespace: str) -> list[dict[str, Any]]:
    """Return the Operations of a namespace, or of all; raise ResourceError where the kind is not known."""
    from fleet.cli.operations import make_unknown_kind_error
    from fleet.kit.operations.operation import RESOURCE
    from fleet.kube.client.errors import NoRightError
    from fleet.kube.objects import ObjectScope, pages

    if (await client.discovery()).find(RESOURCE.group, RESOURCE.kind, RESOURCE.version) is None:
        raise make_unknown_kind_error(client)
    try:
        return [found async for page in pages(client, ObjectScope(RESOURCE, namespace)) for found in page["items"]]
    except NoRightError as error:
        if not namespace:
            error.hint = "name the namespace with -n if you may look in that one only"
        raise


def _order(row: dict[str, Any]) -> tuple[str, str]:
    return row["asked"], row["operation"]


def _format_rows(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "nothing was asked"
    cells = [
        [row["asked"], row["cluster"], f"{row['namespace']}/{row['app']}", _what(row), _outcome(row)] for row in rows
    ]
    return format_table(["asked", "cluster", "app", "do", "phase"], cells)


def _what(row: dict[str, Any]) -> str:
    return " ".join(str(part) for part in (row["do"], row.get("member") or row.get("to") or "") if part)


def _outcome(row: dict[str, Any]) -> str:
    names = f" ({', '.join(row['objections'])})" if row["phase"] == "Refused" and row["objections"] else ""
    return f"{row['phase']}{names}" + (f": {row['message']}" if row["message"] else "")
