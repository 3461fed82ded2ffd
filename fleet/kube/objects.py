"""Get, list, apply, delete; field managers.

The verbs on objects: get, list in pages, apply, delete. Thin: each is one request, or a loop over pages.

Applying is always server-side with one field manager. A create carries a resourceVersion that no object ever has,
so the server itself refuses it, untouched, if the object turned up meanwhile; an update carries the UID, so that a
deleted object is not made anew by accident.

Field managers of an object, taken off the server's list: their fields stay, and are nobody's.

An apply of nothing would remove the fields with their owner; this edits the list itself. It may be done again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from fleet.errors import ConflictError, ResourceError
from fleet.kube.client import errors
from fleet.kube.client.client import Client, Response
from fleet.kube.discovery import Resource

MANAGER = "fleet"
APPLY = "application/apply-patch+yaml"
NEVER = "1"  # etcd's first revision holds no object: applied with it, an object is created or refused
PAGE = 500


class ListExpiredError(Exception):
    """The moment that a list shows is compacted away before its last page: begin it again."""


async def get(client: Client, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
    """The object, or None when the server says that it does not exist."""
    answer = await client.request("GET", resource.path(namespace, name), expect=(404,))
    if answer.status == 404:
        is_certainly_absent(client, answer, f"{resource.kind} {namespace}/{name}")
        return None
    return drop_other_fields(answer.body)


def is_certainly_absent(client: Client, answer: Response, what: str) -> None:
    """A 404 that names the object is an absence. One without is a path that is not served, and says nothing."""
    details = answer.body.get("details") if isinstance(answer.body, dict) else None
    if not details or not details.get("name"):
        raise ResourceError(f"{client.place}: it is not certain whether {what} exists: its kind is not served there")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a kind: those of a namespace ("": of all), chosen by labels and fields."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def path(self, **query: str) -> str:
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields, **query}
        text = urlencode({name: value for name, value in chosen.items() if value})
        return f"{self.resource.collection(self.namespace)}?{text}"


async def pages(client: Client, scope: Scope, *, limit: int = PAGE) -> AsyncIterator[dict[str, Any]]:
    """A whole list, page by page, as of one moment. It ends after the last page or with an error, never early."""
    token = ""
    while True:
        path = scope.path(limit=str(limit), **{"continue": token})
        answer = await client.request("GET", path, expect=(410,) if token else ())
        if answer.status == 410:
            raise ListExpiredError
        if not isinstance(answer.body, dict) or "items" not in answer.body:
            raise ResourceError(f"{client.place}: the list of {scope.resource.plural} is not a list")
        answer.body["items"] = answer.body["items"] or []  # some servers write an empty list as null
        yield answer.body
        token = answer.body.get("metadata", {}).get("continue", "")
        if not token:
            return


async def apply(
    client: Client,
    resource: Resource,
    manifest: dict[str, Any],
    *,
    force: bool,
    dry: bool = False,
    manager: str = MANAGER,
    **metadata: str,
) -> Response:
    """Server-side apply, with `metadata` (uid, resourceVersion) as preconditions. 404, 409 and 422 are returned.

    An object with another UID is refused with 422 (the UID is immutable), one that is gone with 409. `dry`: the server
    does all but to store it.
    """
    if metadata:
        manifest = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
    own = manifest["metadata"]
    path = resource.path(own.get("namespace", ""), own["name"])
    return await client.request(
        "PATCH",
        f"{path}?fieldManager={manager}&force={'true' if force else 'false'}{'&dryRun=All' if dry else ''}",
        body=orjson.dumps(manifest),
        content_type=APPLY,
        expect=(404, 409, 422),
    )


async def delete(
    client: Client,
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str,
    resource_version: str | None = None,
    propagation: str = "Background",
    dry: bool = False,
) -> Response:
    """Delete exactly the object that was seen. 404 and 409 (it is another one, or it changed) are returned."""
    preconditions = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": propagation,
        **({"dryRun": ["All"]} if dry else {}),
    }
    return await client.request("DELETE", resource.path(namespace, name), body=options, expect=(404, 409))


def drop_other_fields(found: dict[str, Any]) -> dict[str, Any]:
    """The object with what we own in managedFields; of other managers only the names: their fields are most of it."""
    metadata = found.get("metadata", {})
    managed = metadata.get("managedFields")
    if not managed or (len(managed) == 1 and managed[0].get("manager") == MANAGER):  # so are nearly all
        return found
    if any(entry.get("manager") != MANAGER for entry in metadata.get("managedFields") or ()):
        metadata["managedFields"] = [
            entry
            if entry.get("manager") == MANAGER
            else {k: v for k, v in entry.items() if k not in ("fieldsV1", "time")}
            for entry in metadata["managedFields"]
        ]
    return found


def managers(found: dict[str, Any]) -> list[str]:
    """Who manages an object, for messages: the names of all its field managers, ours left out."""
    entries = found.get("metadata", {}).get("managedFields", ())
    return sorted({entry["manager"] for entry in entries if entry.get("manager")} - {MANAGER})


MERGE = "application/merge-patch+json"
Entry = dict[str, Any]
Object = dict[str, Any]


async def drop_managers(
    client: Client,
    resource: Resource,
    found: Object,
    leaves: Callable[[Entry], bool],
    *,
    by: str,
    more: dict[str, Any] | None = None,
) -> Object:
    """The object without the entries that `leaves` names, and with `more` changed in its metadata; the rest stays.

    `found` says which object it is, by name and UID; the list is read anew, and swapped only if it is still that one.
    """
    own = found["metadata"]
    path = resource.path(own.get("namespace", ""), own["name"])
    what = f"{resource.kind} {own['name']}"
    whole: Object = (await client.request("GET", path)).body
    if whole["metadata"]["uid"] != own["uid"]:
        raise ConflictError(f"{what} is another one than a moment ago")
    before = whole["metadata"].get("managedFields") or []
    entries = [entry for entry in before if not leaves(entry)]
    if len(entries) == len(before) and not more:
        return whole
    metadata: dict[str, Any] = {
        "uid": own["uid"],
        "resourceVersion": whole["metadata"]["resourceVersion"],
        "managedFields": entries or [{}],  # an empty list would be taken for no word about it
        **(more or {}),
    }
    answer = await client.request(
        "PATCH", f"{path}?fieldManager={by}", body={"metadata": metadata}, content_type=MERGE, expect=(409, 422)
    )
    if answer.status >= 300:
        raise ConflictError(f"{what} changed meanwhile: {errors.error_text(answer.body)}")
    changed: Object = answer.body
    return changed


def owned_by(names: Iterable[str]) -> Callable[[Entry], bool]:
    """Entries of these managers; what they report in a status is left to them."""
    named = frozenset(names)
    return lambda entry: entry.get("manager") in named and not entry.get("subresource")
