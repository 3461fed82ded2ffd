"""Deployments, StatefulSets, DaemonSets, ReplicaSets and what stands beside them."""

from __future__ import annotations

from typing import Any

from fleet.kube.health.state import (
    Health,
    condition,
    degraded,
    healthy,
    holds,
    not_observed,
    progressing,
    said,
    status_of,
    suspended,
)
from fleet.printable import count_noun


def deployment(found: dict[str, Any]) -> Health:
    spec, status = found["spec"], status_of(found)
    if spec.get("paused"):
        return suspended("its rollout is paused")
    if waiting := not_observed(found):
        return waiting
    rollout = condition(found, "Progressing")
    if rollout and rollout.get("reason") == "ProgressDeadlineExceeded":
        why = said(condition(found, "ReplicaFailure")) or said(rollout) or "its progress deadline passed"
        return degraded(why, final=True)  # as `kubectl rollout status`: it gave up, and nobody waits for more
    replicas = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    failure = condition(found, "ReplicaFailure")
    why = f": {said(failure)}" if failure and failure.get("status") == "True" else ""
    if updated < replicas:
        return progressing(f"{updated} of {replicas} new replicas are made{why}")
    if total > updated:
        return progressing(f"{count_noun(total - updated, 'old replica')} still to go")
    if available < updated:
        return progressing(f"{available} of {updated} replicas are available{why}")
    return healthy(count_noun(available, "replica"))


def stateful_set(found: dict[str, Any]) -> Health:
    spec, status = found["spec"], status_of(found)
    if waiting := not_observed(found):
        return waiting
    replicas, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    if ready < replicas:
        return progressing(f"{ready} of {replicas} pods are ready")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return healthy(f"{count_noun(ready, 'pod')}, updated when they are deleted")
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    updated = status.get("updatedReplicas", 0)
    if partition > 0:
        # Pods below the partition are held at the old revision on purpose.
        if updated < replicas - partition:
            return progressing(f"{updated} of {replicas - partition} pods of this step are updated")
        return healthy(f"{count_noun(ready, 'pod')}, rolled out down to ordinal {min(partition, replicas)}")
    if status.get("updateRevision") != status.get("currentRevision"):
        return progressing(f"{updated} of {replicas} pods are at the new revision")
    return healthy(count_noun(ready, "pod"))


def daemon_set(found: dict[str, Any]) -> Health:
    status = status_of(found)
    if waiting := not_observed(found):
        return waiting
    wanted = status.get("desiredNumberScheduled", 0)
    available = status.get("numberAvailable", 0)
    if (found["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        return healthy(f"{count_noun(available, 'pod')}, updated when they are deleted")
    updated = status.get("updatedNumberScheduled", 0)
    if updated < wanted:
        return progressing(f"{updated} of {wanted} pods are updated")
    if available < wanted:
        return progressing(f"{available} of {wanted} pods are available")
    return healthy(count_noun(available, "pod"))


def replica_set(found: dict[str, Any]) -> Health:
    if waiting := not_observed(found):
        return waiting
    if holds(found, "ReplicaFailure"):
        return degraded(said(condition(found, "ReplicaFailure")))
    replicas, available = found["spec"].get("replicas", 1), status_of(found).get("availableReplicas", 0)
    if available < replicas:
        return progressing(f"{available} of {replicas} replicas are available")
    return healthy(count_noun(available, "replica"))


def disruption_budget(found: dict[str, Any]) -> Health:
    """That it allows no disruption is no fault: with one pod it never does. Fewer pods than it wants is one."""
    if waiting := not_observed(found):
        return waiting
    allowed = condition(found, "DisruptionAllowed")
    if allowed and allowed.get("reason") == "SyncFailed":
        return degraded(said(allowed))
    status = status_of(found)
    now, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if now < wanted:
        return progressing(f"{now} of {wanted} pods are healthy")
    return healthy(f"{count_noun(status.get('disruptionsAllowed', 0), 'disruption')} allowed")


def autoscaler(found: dict[str, Any]) -> Health:
    for kind in ("AbleToScale", "ScalingActive"):
        one = condition(found, kind)
        if one and one.get("status") == "False":
            return suspended(said(one)) if one.get("reason") == "ScalingDisabled" else degraded(said(one))
    if not status_of(found).get("conditions"):
        return progressing("waiting for its first look at the metrics")
    return healthy(count_noun(status_of(found).get("currentReplicas", 0), "replica"))
