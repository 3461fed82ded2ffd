"""Field managers of an object, taken off the server's list: their fields stay, and are nobody's.

An apply of nothing would remove the fields with their owner; this edits the list itself. It may be done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleet.errors import ConflictError
from fleet.kube import failure
from fleet.kube.client import Client
from fleet.kube.discovery import Resource

MERGE = "application/merge-patch+json"
Entry = dict[str, Any]
Object = dict[str, Any]


async def without_entries(
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
        raise ConflictError(f"{what} changed meanwhile: {failure.said(answer.body)}")
    changed: Object = answer.body
    return changed


def are(names: Iterable[str]) -> Callable[[Entry], bool]:
    """Entries of these managers; what they report in a status is left to them."""
    named = frozenset(names)
    return lambda entry: entry.get("manager") in named and not entry.get("subresource")
