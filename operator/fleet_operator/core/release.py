"""An app that is given back: what runs goes on running, and nothing of it is ours any more.

Object by object our fields go off the server's list and our labels off the object; how a StatefulSet updates its pods
and keeps its claims is as it was found. Each may be done again, and the finalizer of the custom resource goes last:
whoever is ended in between is followed by one that goes on.
"""

from __future__ import annotations

import datetime
from typing import Any

from fleet.kit.adoption.giveback import ORDER, list_metadata_changes, list_spec_changes
from fleet.kit.adoption.hold import is_observed
from fleet.kit.observe.world import is_leaving, when
from fleet.kit.operate.engine import Engine
from fleet.kit.step import Object
from fleet.kube.objects import drop_managers, get
from fleet.kube.runtime import Request
from fleet.model.app import ADOPTION, ON_DELETE, ON_DELETE_SINCE, RELEASE
from fleet.names import OPERATOR
from fleet.objects.resource import Resource
from fleet_operator.core import kinds
from fleet_operator.core.outlive import patched
from fleet_operator.core.sight import owned_if_seen

ABANDONED = datetime.timedelta(hours=1)


def is_asked(manifest: Object) -> bool:
    """Tell whether it is asked for: by a word; or because it was to be taken over, and nobody has said yet that it was:
    then it is others' still."""
    if (manifest["metadata"].get("annotations") or {}).get(ON_DELETE) == RELEASE:
        return True
    conditions = manifest.get("status", {}).get("conditions", ())
    taken = any(one["type"] == "Adopted" and one["status"] == "True" for one in conditions)
    return ADOPTION in manifest.get("spec", {}) and not taken


def is_abandoned(manifest: Object, now: datetime.datetime) -> bool:
    """Tell whether a command that was to delete it next never came to that: then nobody means it any more."""
    since = (manifest["metadata"].get("annotations") or {}).get(ON_DELETE_SINCE)
    try:
        return since is not None and now - when(since) > ABANDONED
    except (ValueError, TypeError):
        return True


async def taken_back(request: Request, resource: Resource, manifest: Object) -> None:
    """Return the word that it is to be given back."""
    words: dict[str, Any] = dict.fromkeys((ON_DELETE, ON_DELETE_SINCE))
    await patched(request, resource, manifest, {"metadata": {"annotations": words}})
    request.event("Kept", "giving it back was begun long ago and not gone on with; the app stays")


async def released(request: Request, engine: Engine[Any, Any]) -> bool:
    """Tell whether all of the app's objects are. Pods stay as they are: what they carry was in their template."""
    made = (*kinds.children(engine), *kinds.SPARED)
    for resource in (kinds.BY_KIND[kind] for kind in ORDER if kinds.BY_KIND[kind] in made):
        for found in owned_if_seen(request, resource) if resource in kinds.SPARED else request.owned(resource):
            if resource is kinds.STATEFUL_SETS and not await _as_before(request, found):
                return False
            await drop_managers(
                request.client,
                resource,
                found,
                lambda entry: entry.get("manager") == OPERATOR,
                by=OPERATOR,
                more=list_metadata_changes(found),
            )
    return True


async def _as_before(request: Request, cached: Object) -> bool:
    """Tell whether it updates its pods, and keeps its claims, as it was found.

    Not before its controller has looked at the last change: a roll that it does not know of yet is no reason to restart
    every pod at once.
    """
    own = cached["metadata"]
    found = await get(request.client, kinds.STATEFUL_SETS, own["namespace"], own["name"])
    if found is None or found["metadata"]["uid"] != own["uid"] or is_leaving(found):
        return True
    if not is_observed(found):
        return False
    if wanted := list_spec_changes(found):
        await patched(request, kinds.STATEFUL_SETS, found, {"spec": wanted})
    return True
