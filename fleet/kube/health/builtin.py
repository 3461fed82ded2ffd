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
    condition_message,
    degraded,
    has_condition,
    healthy,
    judge_observation,
    progressing,
    status_of,
    suspended,
)
from fleet.objects.desired import Key
from fleet.objects.redaction import waiting_message
from fleet.text import count_noun, quote_output


def deployment(live: dict[str, Any]) -> Health:
    """Judge a Deployment."""
    spec, status = live["spec"], status_of(live)
    if spec.get("paused"):
        return suspended("its rollout is paused")
    if waiting := judge_observation(live):
        return waiting
    rollout = condition(live, "Progressing")
    if rollout and rollout.get("reason") == "ProgressDeadlineExceeded":
        why = condition_message(condition(live, "ReplicaFailure")) or condition_message(rollout)
        why = why or "its progress deadline passed"
        return degraded(why, final=True)  # as `kubectl rollout status`: the controller gave up, so waiting ends
    replicas = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    failure = condition(live, "ReplicaFailure")
    why = f": {condition_message(failure)}" if failure and failure.get("status") == "True" else ""
    if updated < replicas:
        return progressing(f"{updated} of {replicas} new replicas are made{why}")
    if total > updated:
        return progressing(f"{count_noun(total - updated, 'old replica')} still to go")
    if available < updated:
        return progressing(f"{available} of {updated} replicas are available{why}")
    return healthy(count_noun(available, "replica"))


def stateful_set(live: dict[str, Any]) -> Health:
    """Judge a StatefulSet."""
    spec, status = live["spec"], status_of(live)
    if waiting := judge_observation(live):
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


def daemon_set(live: dict[str, Any]) -> Health:
    """Judge a DaemonSet."""
    status = status_of(live)
    if waiting := judge_observation(live):
        return waiting
    wanted = status.get("desiredNumberScheduled", 0)
    available = status.get("numberAvailable", 0)
    if (live["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        return healthy(f"{count_noun(available, 'pod')}, updated when they are deleted")
    updated = status.get("updatedNumberScheduled", 0)
    if updated < wanted:
        return progressing(f"{updated} of {wanted} pods are updated")
    if available < wanted:
        return progressing(f"{available} of {wanted} pods are available")
    return healthy(count_noun(available, "pod"))


def replica_set(live: dict[str, Any]) -> Health:
    """Judge a ReplicaSet or ReplicationController."""
    if waiting := judge_observation(live):
        return waiting
    if has_condition(live, "ReplicaFailure"):
        return degraded(condition_message(condition(live, "ReplicaFailure")))
    replicas, available = live["spec"].get("replicas", 1), status_of(live).get("availableReplicas", 0)
    if available < replicas:
        return progressing(f"{available} of {replicas} replicas are available")
    return healthy(count_noun(available, "replica"))


def disruption_budget(live: dict[str, Any]) -> Health:
    """Judge a PodDisruptionBudget.

    That it allows no disruption is no fault: with one pod it never does. Fewer healthy pods than it wants is one.
    """
    if waiting := judge_observation(live):
        return waiting
    allowed = condition(live, "DisruptionAllowed")
    if allowed and allowed.get("reason") == "SyncFailed":
        return degraded(condition_message(allowed))
    status = status_of(live)
    now, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if now < wanted:
        return progressing(f"{now} of {wanted} pods are healthy")
    return healthy(f"{count_noun(status.get('disruptionsAllowed', 0), 'disruption')} allowed")


def autoscaler(live: dict[str, Any]) -> Health:
    """Judge a HorizontalPodAutoscaler."""
    for kind in ("AbleToScale", "ScalingActive"):
        scaling = condition(live, kind)
        if scaling and scaling.get("status") == "False":
            judge = suspended if scaling.get("reason") == "ScalingDisabled" else degraded
            return judge(condition_message(scaling))
    if not status_of(live).get("conditions"):
        return progressing("waiting for its first look at the metrics")
    return healthy(count_noun(status_of(live).get("currentReplicas", 0), "replica"))


def pod(live: dict[str, Any]) -> Health:
    """Judge a pod by itself."""
    status = status_of(live)
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
        return _judge_running_pod(live)
    scheduled = condition(live, "PodScheduled")
    if scheduled and scheduled.get("status") == "False":
        return progressing(f"not scheduled: {condition_message(scheduled)}")
    return progressing("its containers are being made")


def _judge_running_pod(live: dict[str, Any]) -> Health:
    if live["spec"].get("restartPolicy", "Always") != "Always":
        return progressing("running to its end")
    if has_condition(live, "Ready"):
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


def job(live: dict[str, Any]) -> Health:
    """Judge a Job."""
    if has_condition(live, "Failed"):
        return degraded(condition_message(condition(live, "Failed")) or "it failed", final=True)
    if has_condition(live, "Complete"):
        return healthy("complete")
    if live["spec"].get("suspend") or has_condition(live, "Suspended"):
        return suspended("it is suspended")
    status = status_of(live)
    active, done = status.get("active", 0), status.get("succeeded", 0)
    return progressing(
        f"{count_noun(active, 'pod')} running, {done} of {live['spec'].get('completions') or 1} complete"
    )


def cron_job(live: dict[str, Any]) -> Health:
    """Judge a CronJob by its last run."""
    if live["spec"].get("suspend"):
        return suspended("it is suspended")
    status = status_of(live)
    if status.get("active"):
        return healthy("a run is under way")
    last, good = status.get("lastScheduleTime"), status.get("lastSuccessfulTime")
    if last and (not good or good < last):  # both RFC 3339 in UTC, so they compare as text
        return degraded(f"the run of {last} did not succeed")
    return healthy(f"last success {good}" if good else "not run yet")


def namespace(live: dict[str, Any]) -> Health:
    """Judge a namespace."""
    if status_of(live).get("phase") != "Terminating":
        return healthy()
    conditions = status_of(live).get("conditions") or ()
    obstacles = [condition_message(active) for active in conditions if active.get("status") == "True"]
    return progressing("; ".join(["being deleted", *obstacles]))


def definition(live: dict[str, Any]) -> Health:
    """Judge a CustomResourceDefinition."""
    names = condition(live, "NamesAccepted")
    if names and names.get("status") == "False":
        return degraded(condition_message(names))
    if has_condition(live, "NonStructuralSchema"):
        return degraded(condition_message(condition(live, "NonStructuralSchema")))
    if has_condition(live, "Terminating"):
        return progressing("being deleted")
    return healthy("established") if has_condition(live, "Established") else progressing("not established yet")


def api_service(live: dict[str, Any]) -> Health:
    """Judge an APIService."""
    available = condition(live, "Available")
    if available and available.get("status") == "True":
        return healthy("available")
    return progressing(condition_message(available) or "not available yet")


def service(live: dict[str, Any]) -> Health:
    """Judge a Service: one of type LoadBalancer waits for its address."""
    if (live.get("spec") or {}).get("type") != "LoadBalancer":
        return healthy()
    return _judge_address(live, "waiting for the address of its load balancer")


def ingress(live: dict[str, Any]) -> Health:
    """Judge an Ingress, which waits for its address."""
    return _judge_address(live, "waiting for an address from its controller")


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


def claim(live: dict[str, Any], around: Around = NOTHING) -> Health:
    """Judge a PersistentVolumeClaim. `around` has its StorageClass, if that was read."""
    status = status_of(live)
    phase = status.get("phase")
    if phase == "Lost":
        return degraded(f"its volume {live['spec'].get('volumeName', '')} is lost")
    if phase != "Bound":
        return _judge_pending_claim(live, around)
    wanted = (live["spec"].get("resources") or {}).get("requests", {}).get("storage")
    size = (status.get("capacity") or {}).get("storage")
    resizing = [active["type"] for active in status.get("conditions") or () if active.get("status") == "True"]
    if "FileSystemResizePending" in resizing or "Resizing" in resizing:
        return progressing(f"growing from {size} to {wanted}")
    return healthy(f"bound, {size}" if size else "bound")


def class_of(live: dict[str, Any]) -> Key | None:
    """Return the key of the StorageClass that says whether a pending claim is at rest; None if none decides that."""
    spec = live["spec"]
    is_begun = any(name in (live["metadata"].get("annotations") or {}) for name in _BEGUN)
    if status_of(live).get("phase") != "Pending" or spec.get("volumeName") or is_begun:
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


def volume(live: dict[str, Any]) -> Health:
    """Judge a PersistentVolume."""
    status = status_of(live)
    phase = status.get("phase")
    if phase == "Failed":
        return degraded(status.get("message") or "it could not be reclaimed")
    if phase in ("Available", "Bound", "Released"):
        return healthy(str(phase).lower())
    return progressing("not available yet")
