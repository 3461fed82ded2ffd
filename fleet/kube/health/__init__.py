"""Health of objects. Pure: an object as the server shows it → a state and the reason in words.

Objects are judged as `kubectl rollout status` and Argo CD do; each kind with a judge of its own is one line in
`_JUDGES`. All other kinds are judged by their conditions, and an object without any is healthy by existing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fleet.kube.health import builtin, custom
from fleet.kube.health.builtin import NOTHING, Around
from fleet.kube.health.state import Health, State, healthy, strange
from fleet.objects.desired import Key

__all__ = ["WELL", "Health", "State", "is_inert", "judge", "needed_around"]

_JUDGES: dict[tuple[str, str], Callable[[dict[str, Any]], Health]] = {
    ("", "Namespace"): builtin.namespace,
    ("", "PersistentVolume"): builtin.volume,
    ("", "Pod"): builtin.pod,
    ("", "ReplicationController"): builtin.replica_set,
    ("", "Service"): builtin.service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): builtin.definition,
    ("apiregistration.k8s.io", "APIService"): builtin.api_service,
    ("apps", "DaemonSet"): builtin.daemon_set,
    ("apps", "Deployment"): builtin.deployment,
    ("apps", "ReplicaSet"): builtin.replica_set,
    ("apps", "StatefulSet"): builtin.stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): builtin.autoscaler,
    ("batch", "CronJob"): builtin.cron_job,
    ("batch", "Job"): builtin.job,
    ("networking.k8s.io", "Ingress"): builtin.ingress,
    ("policy", "PodDisruptionBudget"): builtin.disruption_budget,
}


def needed_around(found: dict[str, Any] | None) -> Key | None:
    """Return the key of the object that is needed besides to judge this one; None for nearly all."""
    is_claim = found is not None and (found["apiVersion"], found["kind"]) == ("v1", "PersistentVolumeClaim")
    return builtin.class_of(found) if found is not None and is_claim else None


def judge(found: dict[str, Any] | None, around: Around = NOTHING) -> Health:
    """Return the health of an object; None stands for one that certainly does not exist.

    `around` has the other objects by which it is judged (`needed_around`).
    """
    if found is None:
        return Health(State.MISSING, "it does not exist")
    metadata = found["metadata"]
    if (
        "status" not in found
        and "deletionTimestamp" not in metadata
        and _is_well_by_being(found["apiVersion"], found["kind"])
    ):
        return WELL
    if found["metadata"].get("deletionTimestamp"):
        waits = ", ".join(found["metadata"].get("finalizers", ()))
        return Health(State.PROGRESSING, f"being deleted{f', waiting for {waits}' if waits else ''}")
    if unclear := strange(found):
        return unclear
    group = found["apiVersion"].rpartition("/")[0]
    if (group, found["kind"]) == ("", "PersistentVolumeClaim"):
        return builtin.claim(found, around)
    judge_of_kind = _JUDGES.get((group, found["kind"]), custom.resource_health)
    return judge_of_kind(found)


WELL = healthy()  # by existing, as nearly all objects are


@lru_cache(maxsize=1024)  # thousands of objects are of a few kinds
def _is_well_by_being(api_version: str, kind: str) -> bool:
    """Return whether the kind has no judge and is not fleet's own: without a status it is healthy by existing."""
    group = api_version.rpartition("/")[0]
    claim = (group, kind) == ("", "PersistentVolumeClaim")
    return (group, kind) not in _JUDGES and group != custom.OWN_GROUP and not claim


def is_inert(found: dict[str, Any] | None) -> bool:
    """Return whether an object is healthy by existing: its kind has no judge, and no controller reports on it."""
    if found is None or "status" in found or found["metadata"].get("deletionTimestamp"):
        return False
    return (found["apiVersion"].rpartition("/")[0], found["kind"]) not in _JUDGES and judge(
        found
    ).state is State.HEALTHY
