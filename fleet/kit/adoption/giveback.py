"""What is given back, in which order, and what changes on each object: nothing that a member could notice. Pure.

Each change may be made again, and the custom resource goes last: whoever is ended in between is followed by one that
goes on.
"""

from __future__ import annotations

from typing import Any

from fleet.kit.adoption.hold import FOUND, RETENTION, before
from fleet.names import OPERATOR

Object = dict[str, Any]
RELEASED = "fleet.dev/released"  # the annotation of what an app gave back: whose it was
ORDER = (
    "CronJob",
    "PodDisruptionBudget",
    "StatefulSet",
    "PersistentVolumeClaim",
    "NetworkPolicy",
    "Service",
    "EndpointSlice",
    "Secret",
    "ConfigMap",
    "RoleBinding",
    "ServiceAccount",
)
_MADE = ("ConfigMap", "Secret", "CronJob")  # for the app alone; should it be taken over again, they are of use
_LABELS = ("fleet.dev/app", "fleet.dev/kind")
_BY_US = "app.kubernetes.io/managed-by"


def list_spec_changes(found: Object) -> Object:
    """Return what a StatefulSet's spec gets so that it updates its pods and keeps its claims as it was found; nothing
    when it does. Only of one whose controller has looked at the last change (`hold.is_observed`): a roll that it does
    not know of yet is no reason to restart every pod at once.
    """
    wanted = {name: value for name, value in before(found).items() if value != found["spec"].get(name)}
    if wanted.get("updateStrategy", {}).get("type") not in (None, "RollingUpdate"):
        wanted["updateStrategy"] = {**wanted["updateStrategy"], "rollingUpdate": None}
    return wanted


def list_metadata_changes(found: Object) -> Object:
    """Return what changes in an object's metadata, None for what goes: our labels, and what we noted on it."""
    labels = found["metadata"].get("labels") or {}
    gone = [name for name in _LABELS if name in labels]
    if labels.get(_BY_US) == OPERATOR:
        gone.append(_BY_US)
    patch: Object = {"labels": dict.fromkeys(gone)}
    if found["kind"] in _MADE:
        patch["annotations"] = {RELEASED: f"{labels.get('fleet.dev/kind')}/{labels.get('fleet.dev/app')}"}
    elif noted := {FOUND, RETENTION} & set(found["metadata"].get("annotations") or {}):
        patch["annotations"] = dict.fromkeys(sorted(noted))
    return patch
