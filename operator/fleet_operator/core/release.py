"""An app that is given back: what runs goes on running, and nothing of it is ours any more.

Object by object our fields go off the server's list and our labels off the object; how a StatefulSet updates its pods
is as it was found. Each may be done again, and the finalizer of the custom resource goes last: whoever is ended in
between is followed by one that goes on.
"""

from __future__ import annotations

import json
from typing import Any

from fleet.errors import ConflictError
from fleet.kube import failure
from fleet.kube.managers import MERGE, without_entries
from fleet.kube.runtime import Request
from fleet.model.app import ADOPTION, ON_DELETE, RELEASE
from fleet_operator.core import kinds
from fleet_operator.core.ownership import MANAGER, RELEASED
from fleet_operator.core.roll import under_way
from fleet_operator.core.stateful_set import FOUND
from fleet_operator.core.step import Object

_ORDER = (
    kinds.CRON_JOBS,
    kinds.BUDGETS,
    kinds.STATEFUL_SETS,
    kinds.CLAIMS,
    kinds.SERVICES,
    kinds.SECRETS,
    kinds.CONFIG_MAPS,
)
_LABELS = ("fleet.dev/app", "fleet.dev/kind")
_BY_US = "app.kubernetes.io/managed-by"


def is_asked(manifest: Object) -> bool:
    """By a word; or because it was to be taken over, and nobody has said yet that it was: then it is others' still."""
    if (manifest["metadata"].get("annotations") or {}).get(ON_DELETE) == RELEASE:
        return True
    conditions = manifest.get("status", {}).get("conditions", ())
    taken = any(one["type"] == "Adopted" and one["status"] == "True" for one in conditions)
    return ADOPTION in manifest.get("spec", {}) and not taken


async def released(request: Request) -> None:
    """All of the app's objects. Pods stay as they are: what they carry was in their template."""
    for resource in _ORDER:
        for found in request.owned(resource):
            if resource is kinds.STATEFUL_SETS:
                await _strategy(request, found)
            await without_entries(
                request.client,
                resource,
                found,
                lambda entry: entry.get("manager") == MANAGER,
                by=MANAGER,
                more=_unlabelled(found),
            )


def _unlabelled(found: Object) -> dict[str, Any]:
    labels = found["metadata"].get("labels") or {}
    gone = [name for name in _LABELS if name in labels]
    if labels.get(_BY_US) == MANAGER:
        gone.append(_BY_US)
    patch: dict[str, Any] = {"labels": dict.fromkeys(gone)}
    if found["kind"] in ("ConfigMap", "Secret"):  # made for the app; should it be taken over again, they are of use
        patch["annotations"] = {RELEASED: f"{labels.get('fleet.dev/kind')}/{labels.get('fleet.dev/app')}"}
    elif FOUND in (found["metadata"].get("annotations") or {}):
        patch["annotations"] = {FOUND: None}
    return patch


async def _strategy(request: Request, found: Object) -> None:
    """As it was found. Where pods have two revisions the partition stays: without it they would restart."""
    if under_way(found):
        return
    own = found["metadata"]
    as_found = (own.get("annotations") or {}).get(FOUND)
    wanted = json.loads(as_found) if as_found else {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    if wanted == found["spec"].get("updateStrategy"):
        return
    if wanted.get("type") != "RollingUpdate":
        wanted = {**wanted, "rollingUpdate": None}
    path = kinds.STATEFUL_SETS.path(own["namespace"], own["name"])
    body = {"metadata": {"uid": own["uid"]}, "spec": {"updateStrategy": wanted}}
    answer = await request.client.request(
        "PATCH", f"{path}?fieldManager={MANAGER}", body=body, content_type=MERGE, expect=(409, 422)
    )
    if answer.status >= 300:
        raise ConflictError(f"StatefulSet {own['name']} changed meanwhile: {failure.said(answer.body)}")
