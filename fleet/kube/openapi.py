"""Kinds as a server publishes them (OpenAPI v3): the documents, each read once, and the fields that are secret.

Which fields of a custom kind are secret the server's definitions decide, not those in the user's files. They are read
only for kinds of which something is to be shown. If the server does not say which fields of a kind are secret, none of
them are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from fleet.errors import FleetError
from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.objects.compare import is_builtin
from fleet.objects.redaction import EVERYTHING, Secrecy, Trail, marked_fields
from fleet.plan.step import Plan, Step

GroupVersion = tuple[str, str]
Document = Mapping[str, Any]
_documents: WeakKeyDictionary[Client, dict[GroupVersion, Document | None]] = WeakKeyDictionary()


async def openapi_document(client: Client, which: GroupVersion) -> Document | None:
    """Return the schemas of a group and version, read once per client; None if the server does not give them."""
    documents = _documents.setdefault(client, {})
    if which not in documents:
        group, version = which
        path = f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}"
        try:
            answer = await client.request("GET", path, expect=(404,))
        except FleetError:
            return None
        documents[which] = answer.body if answer.status == 200 and isinstance(answer.body, dict) else None
    return documents[which]


async def read_secret_fields(client: Client, plans: Iterable[Plan]) -> Secrecy:
    """Return what the server says about the kinds of which these plans show values."""
    return await secret_fields_for(client, [step for plan in plans for step in plan.steps if step.changes])


async def secret_fields_for(client: Client, steps: Iterable[Step]) -> Secrecy:
    """Return what the server says about the kinds of these objects."""
    kinds: dict[GroupVersion, set[str]] = defaultdict(set)
    for step in steps:
        if step.entry and not is_builtin(step.key):
            kinds[step.key.group, step.entry.version].add(step.key.kind)
    trails: dict[tuple[str, str], tuple[Trail, ...]] = {}
    schemas = await gather([_read_schemas(client, group_version) for group_version in kinds])
    for (group, names), by_kind in zip(
        ((group_version[0], names) for group_version, names in kinds.items()), schemas, strict=True
    ):
        for kind in names:
            marked = EVERYTHING if by_kind is None else marked_fields(by_kind.get(kind))
            if marked:
                trails[group, kind] = (*trails.get((group, kind), ()), *marked)
    return Secrecy(trails)


async def _read_schemas(client: Client, which: GroupVersion) -> dict[str, Any] | None:
    """Read the schema of each kind of a group and version; None if the server does not give them."""
    document = await openapi_document(client, which)
    return _index_by_kind(document, which) if document is not None else None


def _index_by_kind(document: Any, which: GroupVersion) -> dict[str, Any] | None:
    schemas = (document.get("components") or {}).get("schemas") if isinstance(document, dict) else None
    if not isinstance(schemas, dict):
        return None
    return {
        group_version_kind["kind"]: schema
        for schema in schemas.values()
        for group_version_kind in schema.get("x-kubernetes-group-version-kind") or ()
        if (group_version_kind.get("group"), group_version_kind.get("version")) == which
    }
