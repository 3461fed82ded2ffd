"""Operations as commands ask for them: made, followed to their end, and shown. The operator does the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet.cli.apps import AppQuery, LiveApp, find_app
from fleet.cli.output import emit_result

if TYPE_CHECKING:
    from fleet.kit.operations.operation import Verb
    from fleet.kube.client.client import Client
    from fleet.sync.progress import Progress

POLL_INTERVAL = 0.5  # seconds between two reads of the status
SILENCE = 15.0  # seconds without a word of an operator, until the user is told
MOST_TRIES = 3


def run_operation(
    query: AppQuery,
    do: Verb,
    *,
    wait: bool,
    timeout: float,
    form: str,
    to: str | None = None,
    member: str | None = None,
) -> int:
    """Ask for an operation, and say what became of it; return the exit code.

    Raise ResourceError if it is refused or fails, TimeoutError if it has not ended in time.
    """
    app = find_app(query)
    record = ask(app, do, wait=wait, timeout=timeout, form=form, to=to, member=member)
    emit_result(record, form, lambda: format_operation(app, record))
    return 0


def ask(
    app: LiveApp,
    do: Verb,
    *,
    wait: bool,
    timeout: float,
    form: str,
    to: str | None = None,
    member: str | None = None,
) -> dict[str, Any]:
    """Make an Operation about an app, and return it with its end, or as it was made if the user does not wait."""
    import asyncio

    from fleet.sync.progress import show_progress

    fields = {name: value for name, value in (("to", to), ("member", member)) if value is not None}

    async def run(progress: Progress) -> dict[str, Any]:
        async with app.cluster.client() as client:
            made = await _make(client, app, do, fields)
            if not wait:
                return describe_operation(app.cluster.name, made)
            return await follow(client, app, made, progress, timeout)

    with show_progress(quiet=form != "text") as progress:
        record = asyncio.run(run(progress))
    if wait:
        require_success(app, record)
    return record


async def _make(client: Client, app: LiveApp, do: Verb, fields: Mapping[str, str]) -> dict[str, Any]:
    """Make the Operation; its name is chosen here, so that a request whose answer is lost makes none twice."""
    import secrets

    from fleet.kit.operations.operation import RESOURCE
    from fleet.kube.client.errors import NoRightError

    named = {"kind": app.resource.kind, "group": app.resource.group, "name": app.name}
    metadata = {"name": f"{app.name}-{do}-{secrets.token_hex(4)}", "namespace": app.namespace}
    manifest = {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "metadata": metadata,
        "spec": {"app": named, "do": do, **fields},
    }
    try:
        answer = await client.request("POST", RESOURCE.collection(app.namespace), body=manifest, expect=(404, 409))
    except NoRightError as error:
        error.hint = (
            f"it takes the ClusterRole fleet-operations in namespace {app.namespace}; an administrator gives it with: "
            f"kubectl create rolebinding fleet-operations -n {app.namespace} --clusterrole=fleet-operations "
            f"--user=NAME{client.place.flag}"
        )
        raise
    if answer.status == 404:
        raise make_unknown_kind_error(client)
    if answer.status == 409:  # an earlier try of this very request was the one
        answer = await client.request("GET", RESOURCE.path(app.namespace, metadata["name"]))
    made: dict[str, Any] = answer.body
    return made


def make_unknown_kind_error(client: Client) -> Exception:
    """Return the error for a cluster whose definitions are older than Operations."""
    from fleet.errors import ResourceError

    return ResourceError(
        f"{client.place} does not know Operations: the operator there is of an older release, or there is none",
        hint="`fleet operator install` brings it to this release; `fleet operator status` says what is there",
    )


async def follow(
    client: Client, app: LiveApp, made: Mapping[str, Any], progress: Progress, seconds: float
) -> dict[str, Any]:
    """Wait for the end of an operation, and tell meanwhile what it does or waits for.

    Raise TimeoutError after so many seconds, and NotFoundError if somebody deletes it.
    """
    import asyncio
    import time

    from fleet.errors import NotFoundError
    from fleet.errors import TimeoutError as LateError
    from fleet.kit.operations.operation import ENDED, RESOURCE
    from fleet.kube.objects import get

    name, began = str(made["metadata"]["name"]), time.monotonic()
    said = "is asked for"
    while True:
        found = await get(client, RESOURCE, app.namespace, name)
        if found is None:
            raise NotFoundError(f"{app}: the operation {name} was deleted before it ended")
        record = describe_operation(app.cluster.name, found)
        if record["phase"] in ENDED:
            progress.update(app.name, app.cluster.name, "done" if record["phase"] == "Succeeded" else "failed")
            return record
        waited = time.monotonic() - began
        is_silent = not found.get("status") and waited > SILENCE
        said = (
            "no operator has taken it up: `fleet operator status` says whether one runs"
            if is_silent
            else (record["message"] or said)
        )
        progress.update(app.name, app.cluster.name, record["do"], said)
        if waited > seconds:
            raise LateError(
                f"{app}: {record['do']} has not ended after {seconds:g} s: {said}",
                hint=f"it goes on by itself; `fleet operations {app.name_in_git}` says how it ends",
            )
        await asyncio.sleep(POLL_INTERVAL)


def require_success(app: LiveApp, record: Mapping[str, Any]) -> None:
    """Raise ResourceError for an operation that was refused or has failed."""
    from fleet.errors import ResourceError

    if record["phase"] == "Refused":
        names = f" ({', '.join(record['objections'])})" if record["objections"] else ""
        raise ResourceError(f"{app}: {record['do']} is refused{names}: {record['message']}")
    if record["phase"] == "Failed":
        raise ResourceError(
            f"{app}: {record['do']} failed ({record['reason']}): {record['message']}",
            hint=f"`fleet explain {app.name_in_git}` says how the app is",
        )


def describe_operation(cluster: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an Operation as commands print it as data."""
    spec, status, metadata = found.get("spec") or {}, found.get("status") or {}, found["metadata"]
    record = {
        "operation": str(metadata["name"]),
        "cluster": cluster,
        "namespace": str(metadata.get("namespace", "")),
        "app": str((spec.get("app") or {}).get("name", "")),
        "kind": str((spec.get("app") or {}).get("kind", "")),
        "do": str(spec.get("do", "")),
        "phase": str(status.get("phase") or "Pending"),
        "reason": str(status.get("reason") or ""),
        "message": str(status.get("message") or ""),
        "waitsFor": str(status.get("waitsFor") or ""),
        "objections": list(status.get("objections") or ()),
        "asked": str(metadata.get("creationTimestamp", "")),
        "begun": str(status.get("begun") or ""),
        "ended": str(status.get("ended") or ""),
    }
    optional = {
        "to": spec.get("to"),
        "member": spec.get("member"),
        "job": status.get("job"),
        "backup": status.get("backup"),
    }
    return {**record, **{name: value for name, value in optional.items() if value is not None}}


def format_operation(app: LiveApp, record: Mapping[str, Any]) -> str:
    """Return an operation as a line for people."""
    if record["phase"] == "Succeeded":
        return f"✓ {app}: {record['message']}"
    return f"• {app}: {record['do']} is asked for ({record['operation']})"
