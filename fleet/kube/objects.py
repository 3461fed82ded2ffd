"""The verbs on objects: get, list in pages, apply, delete; and edits of their field managers.

Each verb is one request, or a loop over pages. Applying is always server-side with one field manager. A create carries
a resourceVersion that no object ever has, so the server itself refuses it and changes nothing if the object appeared
meanwhile; an update carries the UID, so that a deleted object is not created again by accident.

`drop_managers` takes field managers off the server's list: the fields stay, and no manager owns them. An apply of
nothing would remove the fields together with their owner; this edits the list itself, and may be repeated.
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
from fleet.names import MANAGER
from fleet.objects.resource import Resource

APPLY = "application/apply-patch+yaml"
PAGE = 500


class ListExpiredError(Exception):
    """Error for a list whose moment was compacted away before its last page: the list has to begin again."""


async def get(client: Client, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the object, or None if the server says that it does not exist."""
    answer = await client.request("GET", resource.path(namespace, name), expect=(404,))
    if answer.status == 404:
        require_absence(client, answer, f"{resource.kind} {namespace}/{name}")
        return None
    return drop_other_fields(answer.body)


def require_absence(client: Client, answer: Response, what: str) -> None:
    """Raise ResourceError unless the 404 in `answer` names the object.

    A 404 that names the object is an absence. One without a name is for a path that is not served, and says nothing.
    """
    details = answer.body.get("details") if isinstance(answer.body, dict) else None
    if not details or not details.get("name"):
        raise ResourceError(f"{client.place}: it is not certain whether {what} exists: its kind is not served there")


@dataclass(frozen=True, slots=True)
class ObjectScope:
    """Selection of objects of a kind: those of a namespace ("": of all), chosen by labels and fields."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def path(self, **query: str) -> str:
        """Return the path of the list, with the selectors and `query` as its query."""
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields, **query}
        text = urlencode({name: value for name, value in chosen.items() if value})
        return f"{self.resource.collection(self.namespace)}?{text}"


async def pages(client: Client, scope: ObjectScope, *, limit: int = PAGE) -> AsyncIterator[dict[str, Any]]:
    """Yield a whole list, page by page, as of one moment. It ends after the last page or with an error, never early."""
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
    """Send a server-side apply, and return its answer, also with status 404, 409 or 422.

    `metadata` (uid, resourceVersion) are preconditions.

    The server refuses an object with another UID with 422 (the UID is immutable), and one that is gone with 409. With
    `dry`, it does everything except storing the object.
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
    """Delete exactly the object that was read. Return 404 and 409 (it is another one, or it changed) too."""
    preconditions = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": propagation,
        **({"dryRun": ["All"]} if dry else {}),
    }
    return await client.request("DELETE", resource.path(namespace, name), body=options, expect=(404, 409))


def drop_other_fields(live: dict[str, Any]) -> dict[str, Any]:
    """Return the object, with the managed fields of other managers dropped: they are most of its size.

    Our own entries in managedFields are kept whole; of those of other managers only the time and the fields are
    dropped.
    """
    metadata = live.get("metadata", {})
    managed = metadata.get("managedFields")
    if not managed or (len(managed) == 1 and managed[0].get("manager") == MANAGER):  # nearly all objects
        return live
    if any(entry.get("manager") != MANAGER for entry in metadata.get("managedFields") or ()):
        metadata["managedFields"] = [
            entry
            if entry.get("manager") == MANAGER
            else {k: v for k, v in entry.items() if k not in ("fieldsV1", "time")}
            for entry in metadata["managedFields"]
        ]
    return live


def managers(live: dict[str, Any]) -> list[str]:
    """Return the names of all field managers of an object except ours, for messages."""
    entries = live.get("metadata", {}).get("managedFields", ())
    return sorted({entry["manager"] for entry in entries if entry.get("manager")} - {MANAGER})


MERGE = "application/merge-patch+json"
Entry = dict[str, Any]
Object = dict[str, Any]


async def drop_managers(
    client: Client,
    resource: Resource,
    known_object: Object,
    leaves: Callable[[Entry], bool],
    *,
    by: str,
    more: dict[str, Any] | None = None,
) -> Object:
    """Remove the managedFields entries that `leaves` matches, change `more` in the metadata, and return the object.

    `known_object` says which object it is, by name and UID. The list is read again, and swapped only if it has not
    changed since; ConflictError if the object is another one or changed meanwhile.
    """
    own = known_object["metadata"]
    path = resource.path(own.get("namespace", ""), own["name"])
    title = f"{resource.kind} {own['name']}"
    live: Object = (await client.request("GET", path)).body
    if live["metadata"]["uid"] != own["uid"]:
        raise ConflictError(f"{title} is another one than a moment ago")
    before = live["metadata"].get("managedFields") or []
    entries = [entry for entry in before if not leaves(entry)]
    if len(entries) == len(before) and not more:
        return live
    metadata: dict[str, Any] = {
        "uid": own["uid"],
        "resourceVersion": live["metadata"]["resourceVersion"],
        "managedFields": entries or [{}],  # the server would ignore an empty list
        **(more or {}),
    }
    answer = await client.request(
        "PATCH", f"{path}?fieldManager={by}", body={"metadata": metadata}, content_type=MERGE, expect=(409, 422)
    )
    if answer.status >= 300:
        raise ConflictError(f"{title} changed meanwhile: {errors.error_text(answer.body)}")
    changed: Object = answer.body
    return changed


def owned_by(names: Iterable[str]) -> Callable[[Entry], bool]:
    """Return a predicate for entries of these managers, entries of their status excepted."""
    owners = frozenset(names)
    return lambda entry: entry.get("manager") in owners and not entry.get("subresource")
