"""Volumes outlive their StatefulSet: one that would take its claims with it is told otherwise before it goes.

Kubernetes notes whom a claim goes with on the claim itself, and does not always take that back. So whoever is told to
keep its claims is waited for, and what is still noted is taken off.
"""

from __future__ import annotations

from typing import Any

from fleet.errors import ConflictError
from fleet.kit.adoption.hold import KEEPS, is_observed, keeps_claims
from fleet.kit.observe.world import is_leaving
from fleet.kit.step import Object
from fleet.kube.client import errors
from fleet.kube.objects import MERGE, ObjectScope, get, pages
from fleet.kube.runtime import Request
from fleet.names import OPERATOR
from fleet.objects.resource import Resource
from fleet_operator.core import kinds


async def outlived(request: Request) -> bool:
    """Tell whether the claims of the app's StatefulSets stay when these go; if not yet, something was done about it."""
    for cached in request.owned(kinds.STATEFUL_SETS):
        own = cached["metadata"]
        found = await get(request.client, kinds.STATEFUL_SETS, own["namespace"], own["name"])
        if found is None or found["metadata"]["uid"] != own["uid"] or is_leaving(found):
            continue
        if not keeps_claims(found):
            await patched(
                request, kinds.STATEFUL_SETS, found, {"spec": {"persistentVolumeClaimRetentionPolicy": KEEPS}}
            )
            return False
        if not is_observed(found):
            return False
        await _let_go(request, found)
    return True


async def _let_go(request: Request, found: Object) -> None:
    own = found["metadata"]
    async for page in pages(request.client, ObjectScope(kinds.CLAIMS, own["namespace"])):
        for claim in page["items"]:
            owners = claim["metadata"].get("ownerReferences") or ()
            others = [one for one in owners if one["uid"] != own["uid"]]
            if len(others) != len(owners):
                await patched(request, kinds.CLAIMS, claim, {"metadata": {"ownerReferences": others}})


async def patched(request: Request, resource: Resource, found: Object, body: dict[str, Any]) -> None:
    """Patch it only if it is still what was looked at."""
    own = found["metadata"]
    guard = {name: own[name] for name in ("uid", "resourceVersion")}
    answer = await request.client.request(
        "PATCH",
        f"{resource.path(own['namespace'], own['name'])}?fieldManager={OPERATOR}",
        body={**body, "metadata": {**body.get("metadata", {}), **guard}},
        content_type=MERGE,
        expect=(409, 422),
    )
    if answer.status >= 300:
        raise ConflictError(f"{resource.kind} {own['name']} changed meanwhile: {errors.error_text(answer.body)}")
