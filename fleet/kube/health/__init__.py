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
from fleet.kube.health.state import Health, State, healthy, judge_shape
from fleet.objects.desired import Key

__all__ = ["WELL", "Health", "State", "is_inert", "judge", "related_key"]

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


def related_key(live: dict[str, Any] | None) -> Key | None:
    """Return the key of the object that is needed besides to judge this one; None for nearly all."""
    is_claim = live is not None and (live["apiVersion"], live["kind"]) == ("v1", "PersistentVolumeClaim")
    return builtin.class_of(live) if live is not None and is_claim else None


def judge(live: dict[str, Any] | None, around: Around = NOTHING) -> Health:
    """Return the health of an object; None stands for one that certainly does not exist.

    `around` has the other objects by which it is judged (`related_key`).
    """
    if live is None:
        return Health(State.MISSING, "it does not exist")
    metadata = live["metadata"]
    if (
        "status" not in live
        and "deletionTimestamp" not in metadata
        and _is_well_by_being(live["apiVersion"], live["kind"])
    ):
        return WELL
    if live["metadata"].get("deletionTimestamp"):
        waits = ", ".join(live["metadata"].get("finalizers", ()))
        return Health(State.PROGRESSING, f"being deleted{f', waiting for {waits}' if waits else ''}")
    if unclear := judge_shape(live):
        return unclear
    group = live["apiVersion"].rpartition("/")[0]
    if (group, live["kind"]) == ("", "PersistentVolumeClaim"):
        return builtin.claim(live, around)
    judge_of_kind = _JUDGES.get((group, live["kind"]), custom.resource_health)
    return judge_of_kind(live)


WELL = healthy()  # by existing, as nearly all objects are


@lru_cache(maxsize=1024)  # thousands of objects are of a few kinds
def _is_well_by_being(api_version: str, kind: str) -> bool:
    """Return whether the kind has no judge and is not fleet's own: without a status it is healthy by existing."""
    group = api_version.rpartition("/")[0]
    claim = (group, kind) == ("", "PersistentVolumeClaim")
    return (group, kind) not in _JUDGES and group != custom.OWN_GROUP and not claim


def is_inert(live: dict[str, Any] | None) -> bool:
    """Return whether an object is healthy by existing: its kind has no judge, and no controller reports on it."""
    if live is None or "status" in live or live["metadata"].get("deletionTimestamp"):
        return False
    return (live["apiVersion"].rpartition("/")[0], live["kind"]) not in _JUDGES and judge(live).state is State.HEALTHY
