"""Which fields of custom kinds are secret, asked of the server: its definitions are what counts, not the file's words.

Asked only for kinds of which something is to be shown. A server that does not say which fields are secret lets none of
them be shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.schema import GroupVersion, openapi_document
from fleet.objects.compare import is_builtin
from fleet.objects.redaction import EVERYTHING, Secrecy, Trail, marked_fields
from fleet.plan.step import Plan, Step


async def read_secret_fields(client: Client, plans: Iterable[Plan]) -> Secrecy:
    """What the server says about the kinds of which these plans show values."""
    return await secret_fields_for(client, [step for plan in plans for step in plan.steps if step.changes])


async def secret_fields_for(client: Client, steps: Iterable[Step]) -> Secrecy:
    """What the server says about the kinds of these objects."""
    kinds: dict[GroupVersion, set[str]] = defaultdict(set)
    for step in steps:
        if step.entry and not is_builtin(step.key):
            kinds[step.key.group, step.entry.version].add(step.key.kind)
    found: dict[tuple[str, str], tuple[Trail, ...]] = {}
    schemas = await gather([_schemas(client, one) for one in kinds])
    for (group, names), known in zip(((one[0], names) for one, names in kinds.items()), schemas, strict=True):
        for kind in names:
            marked = EVERYTHING if known is None else marked_fields(known.get(kind))
            if marked:
                found[group, kind] = (*found.get((group, kind), ()), *marked)
    return Secrecy(found)


async def _schemas(client: Client, which: GroupVersion) -> dict[str, Any] | None:
    """The schema of each kind of a group and version; None when the server does not tell."""
    known = await openapi_document(client, which)
    return _by_kind(known, which) if known is not None else None


def _by_kind(document: Any, which: GroupVersion) -> dict[str, Any] | None:
    schemas = (document.get("components") or {}).get("schemas") if isinstance(document, dict) else None
    if not isinstance(schemas, dict):
        return None
    return {
        one["kind"]: schema
        for schema in schemas.values()
        for one in schema.get("x-kubernetes-group-version-kind") or ()
        if (one.get("group"), one.get("version")) == which
    }
