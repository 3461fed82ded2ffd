"""Health of Kubernetes' own kinds, one judge for each.

There are judges for workloads (Deployments, StatefulSets, DaemonSets, ReplicaSets) and what goes with them; for pods by
themselves, since those of a workload are judged with it; for Jobs, which end, and CronJobs, which create them; for
namespaces, definitions and added API servers; for Services and Ingresses, which wait for an address from outside; and
for volumes and the claims on them.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    waiting_message,
)
from fleet.objects.desired import Key
from fleet.text import count_noun, quote_output


def deployment(found: dict[str, Any]) -> Health:
    """Judge a Deployment."""
    spec, status = found["spec"], status_of(found)
    if spec.get("paused"):
        return suspended("its rollout is paused")
    if waiting := not_observed(found):
        return waiting
    rollout = condition(found, "Progressing")
    if rollout and rollout.get("reason") == "ProgressDeadlineExceeded":
        why = said(condition(found, "ReplicaFailure")) or said(rollout) or "its progress deadline passed"
        return degraded(why, final=True)  # as `kubectl rollout status`: the controller gave up, so waiting ends
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
    """Judge a StatefulSet."""
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
    """Judge a DaemonSet."""
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
    """Judge a ReplicaSet or ReplicationController."""
    if waiting := not_observed(found):
        return waiting
    if holds(found, "ReplicaFailure"):
        return degraded(said(condition(found, "ReplicaFailure")))
    replicas, available = found["spec"].get("replicas", 1), status_of(found).get("availableReplicas", 0)
    if available < replicas:
        return progressing(f"{available} of {replicas} replicas are available")
    return healthy(count_noun(available, "replica"))


def disruption_budget(found: dict[str, Any]) -> Health:
    """Judge a PodDisruptionBudget.

    That it allows no disruption is no fault: with one pod it never does. Fewer healthy pods than it wants is one.
    """
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
    """Judge a HorizontalPodAutoscaler."""
    for kind in ("AbleToScale", "ScalingActive"):
        scaling = condition(found, kind)
        if scaling and scaling.get("status") == "False":
            return suspended(said(scaling)) if scaling.get("reason") == "ScalingDisabled" else degraded(said(scaling))
    if not status_of(found).get("conditions"):
        return progressing("waiting for its first look at the metrics")
    return healthy(count_noun(status_of(found).get("currentReplicas", 0), "replica"))


def pod(found: dict[str, Any]) -> Health:
    """Judge a pod by itself."""
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Succeeded":
        return healthy("complete")
    if phase == "Failed":
        return degraded(
            status.get("message") or _describe_exit(status) or status.get("reason") or "it failed", final=True
        )
    stuck = _startup_failure(status)
    if stuck:
        return degraded(stuck)
    if phase == "Running":
        return _judge_running_pod(found)
    scheduled = condition(found, "PodScheduled")
    if scheduled and scheduled.get("status") == "False":
        return progressing(f"not scheduled: {said(scheduled)}")
    return progressing("its containers are being made")


def _judge_running_pod(live: dict[str, Any]) -> Health:
    if live["spec"].get("restartPolicy", "Always") != "Always":
        return progressing("running to its end")
    if holds(live, "Ready"):
        return healthy("ready")
    for container in _container_statuses(status_of(live)):
        terminated = (container.get("lastState") or {}).get("terminated")
        if terminated:
            reason = (
                _last_line(terminated.get("message"))
                or terminated.get("reason")
                or f"exit code {terminated.get('exitCode')}"
            )
            return degraded(f"container {container['name']} ended and was restarted: {reason}")
    return progressing("not ready yet")


def _last_line(printed: Any) -> str:
    lines = [line for line in str(printed or "").splitlines() if line.strip()]
    return quote_output(lines[-1][:300]) if lines else ""


def _startup_failure(status: dict[str, Any]) -> str:
    """Return why a container cannot start, by the reasons that kubelet gives while it tries again and again."""
    for container in _container_statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason.startswith("Err") or reason.endswith(("Error", "BackOff", "ImageName", "NeverPull")):
            message = waiting_message(waiting)
            return f"container {container['name']}: {reason}{f': {message}' if message else ''}"
    return ""


def _describe_exit(status: dict[str, Any]) -> str:
    for container in _container_statuses(status):
        end = (container.get("state") or {}).get("terminated")
        if end and end.get("exitCode"):
            return f"container {container['name']}: {end.get('reason', 'Error')}, exit code {end['exitCode']}"
    return ""


def _container_statuses(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def job(found: dict[str, Any]) -> Health:
    """Judge a Job."""
    if holds(found, "Failed"):
        return degraded(said(condition(found, "Failed")) or "it failed", final=True)
    if holds(found, "Complete"):
        return healthy("complete")
    if found["spec"].get("suspend") or holds(found, "Suspended"):
        return suspended("it is suspended")
    status = status_of(found)
    active, done = status.get("active", 0), status.get("succeeded", 0)
    return progressing(
        f"{count_noun(active, 'pod')} running, {done} of {found['spec'].get('completions') or 1} complete"
    )


def cron_job(found: dict[str, Any]) -> Health:
    """Judge a CronJob by its last run."""
    if found["spec"].get("suspend"):
        return suspended("it is suspended")
    status = status_of(found)
    if status.get("active"):
        return healthy("a run is under way")
    last, good = status.get("lastScheduleTime"), status.get("lastSuccessfulTime")
    if last and (not good or good < last):  # both RFC 3339 in UTC, so they compare as text
        return degraded(f"the run of {last} did not succeed")
    return healthy(f"last success {good}" if good else "not run yet")


def namespace(found: dict[str, Any]) -> Health:
    """Judge a namespace."""
    if status_of(found).get("phase") != "Terminating":
        return healthy()
    obstacles = [said(active) for active in status_of(found).get("conditions") or () if active.get("status") == "True"]
    return progressing("; ".join(["being deleted", *obstacles]))


def definition(found: dict[str, Any]) -> Health:
    """Judge a CustomResourceDefinition."""
    names = condition(found, "NamesAccepted")
    if names and names.get("status") == "False":
        return degraded(said(names))
    if holds(found, "NonStructuralSchema"):
        return degraded(said(condition(found, "NonStructuralSchema")))
    if holds(found, "Terminating"):
        return progressing("being deleted")
    return healthy("established") if holds(found, "Established") else progressing("not established yet")


def api_service(found: dict[str, Any]) -> Health:
    """Judge an APIService."""
    available = condition(found, "Available")
    if available and available.get("status") == "True":
        return healthy("available")
    return progressing(said(available) or "not available yet")


def service(found: dict[str, Any]) -> Health:
    """Judge a Service: one of type LoadBalancer waits for its address."""
    if (found.get("spec") or {}).get("type") != "LoadBalancer":
        return healthy()
    return _judge_address(found, "waiting for the address of its load balancer")


def ingress(found: dict[str, Any]) -> Health:
    """Judge an Ingress, which waits for its address."""
    return _judge_address(found, "waiting for an address from its controller")


def _judge_address(live: dict[str, Any], message: str) -> Health:
    points = (status_of(live).get("loadBalancer") or {}).get("ingress") or ()
    addresses = [point.get("ip") or point.get("hostname") for point in points]
    return healthy(", ".join(address for address in addresses if address)) if points else progressing(message)


Around = Mapping[Key, dict[str, Any] | None]  # other objects that were read; a key that is not in it was not read
NOTHING: Around = {}
_BEGUN = (  # annotations of a claim that a pod uses, and whose volume is being created
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)


def claim(found: dict[str, Any], around: Around = NOTHING) -> Health:
    """Judge a PersistentVolumeClaim. `around` has its StorageClass, if that was read."""
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Lost":
        return degraded(f"its volume {found['spec'].get('volumeName', '')} is lost")
    if phase != "Bound":
        return _judge_pending_claim(found, around)
    wanted = (found["spec"].get("resources") or {}).get("requests", {}).get("storage")
    size = (status.get("capacity") or {}).get("storage")
    resizing = [active["type"] for active in status.get("conditions") or () if active.get("status") == "True"]
    if "FileSystemResizePending" in resizing or "Resizing" in resizing:
        return progressing(f"growing from {size} to {wanted}")
    return healthy(f"bound, {size}" if size else "bound")


def class_of(found: dict[str, Any]) -> Key | None:
    """Return the key of the StorageClass that says whether a pending claim is at rest; None if none decides that."""
    spec = found["spec"]
    is_begun = any(name in (found["metadata"].get("annotations") or {}) for name in _BEGUN)
    if status_of(found).get("phase") != "Pending" or spec.get("volumeName") or is_begun:
        return None
    name = spec.get("storageClassName")
    return Key("storage.k8s.io", "StorageClass", "", name) if name else None


def _judge_pending_claim(live: dict[str, Any], around: Around) -> Health:
    """Judge a pending claim.

    If its class binds when a pod first uses it, the claim is at rest until then: nothing else happens to it.
    """
    key = class_of(live)
    if key is None:
        has_class = live["spec"].get("storageClassName") is not None
        return progressing("not bound to a volume yet" + ("" if has_class else ", and it has no StorageClass"))
    if key not in around:
        return progressing(f"not bound to a volume yet; StorageClass {key.name} was not seen")
    storage_class = around[key]
    if storage_class is None:
        return degraded(f"StorageClass {key.name} does not exist")
    if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        return healthy("waits for its first consumer")
    return progressing("not bound to a volume yet")


def volume(found: dict[str, Any]) -> Health:
    """Judge a PersistentVolume."""
    status = status_of(found)
    phase = status.get("phase")
    if phase == "Failed":
        return degraded(status.get("message") or "it could not be reclaimed")
    if phase in ("Available", "Bound", "Released"):
        return healthy(str(phase).lower())
    return progressing("not available yet")
