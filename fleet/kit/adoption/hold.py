"""How a StatefulSet that others made is held while it is an app's, and what it was like before. Pure.

Its pods are updated by us alone, and its volumes outlive it: whoever made it may have had its claims go with it, or
with members that leave. Both are noted on it as they were found, and are so again when it is given back.
"""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]
FOUND = "fleet.dev/found-strategy"  # the annotation: how it updated its pods
RETENTION = "fleet.dev/found-retention"  # the annotation: what became of its claims, if that was not to stay
KEEPS = {"whenDeleted": "Retain", "whenScaled": "Retain"}
_POLICY = "persistentVolumeClaimRetentionPolicy"
_AT_ONCE = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


def keeps_claims(found: Object) -> bool:
    return {**KEEPS, **(found["spec"].get(_POLICY) or {})} == KEEPS


def is_held(found: Object, replicas: int) -> bool:
    strategy = found["spec"].get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    return strategy.get("type") == "RollingUpdate" and int(partition) >= replicas and keeps_claims(found)


def held(found: Object, replicas: int) -> tuple[dict[str, str], Object]:
    """Return the annotations and the fields of its spec that hold it. What was noted before stays: we came this far
    then."""
    noted = found["metadata"].get("annotations") or {}
    spec: Object = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": replicas}}}
    annotations = {FOUND: noted.get(FOUND) or _text(found["spec"].get("updateStrategy"))}
    if RETENTION in noted or not keeps_claims(found):
        spec[_POLICY] = KEEPS
        annotations[RETENTION] = noted.get(RETENTION) or _text(found["spec"].get(_POLICY))
    return annotations, spec


def before(found: Object) -> Object:
    """Return the fields of its spec as they were found, or as nobody minds them of one that fleet made.

    Where pods have two revisions how it updates them stays: without the partition they would restart.
    """
    noted = found["metadata"].get("annotations") or {}
    spec: Object = (
        {} if is_updating(found) else {"updateStrategy": json.loads(noted[FOUND]) if FOUND in noted else _AT_ONCE}
    )
    return spec | ({_POLICY: json.loads(noted[RETENTION])} if RETENTION in noted else {})


def is_updating(found: Object) -> bool:
    """Tell whether pods of a StatefulSet have two revisions, or its controller has not looked at the last change yet.

    Where pods are updated by whoever deletes them, only their count tells: what it calls its current revision stays.
    """
    status, spec = found.get("status") or {}, found["spec"]
    if not is_observed(found):
        return True
    if status.get("currentRevision") == status.get("updateRevision"):
        return False
    by_hand = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    return not (by_hand and status.get("updatedReplicas", 0) == spec.get("replicas", 1))


def is_observed(found: Object) -> bool:
    """Tell whether its controller knows of the last change: until then, what it says of revisions is of before."""
    generation = int(found["metadata"].get("generation", 0))
    return int((found.get("status") or {}).get("observedGeneration", generation)) >= generation


def _text(value: Any) -> str:
    return json.dumps(value or {}, sort_keys=True)
