"""What all Jobs of an app have in common: no rights, a root that cannot be written to, an end, and last words. Pure.

They have labels of their own: none of the app's Services and budgets may take them for members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleet.kit import names
from fleet.kit.programs import EngineCommand
from fleet.kit.workload.pod_settings import place_job
from fleet.model.app import App
from fleet.model.pod_settings import pods_of_app
from fleet.objects.redaction import waiting_message
from fleet.text import quote_output

Object = dict[str, Any]
Manifest = dict[str, Any]
TASK = "fleet.dev/task"  # the label that says what a Job is for
NAME = "app.kubernetes.io/name"
JOB = "batch.kubernetes.io/job-name"  # the label of a Job's pods
PROGRAM = "program"  # the container of an engine's own program that is a Job of its own
TOOLS = frozenset({"save", "restore", PROGRAM})  # containers of the app's own image, which is a tenant's to choose
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
RETRIES = 3


def task_labels(app: App, task: str, role: str = "") -> dict[str, str]:
    own = names.labels(app, role)
    return {**own, NAME: f"{own[NAME]}-{task}", TASK: task}


def container(
    name: str,
    image: str,
    command: Sequence[str],
    mounts: Sequence[Manifest],
    *,
    environment: Sequence[Manifest] = (),
    resources: Mapping[str, Any] = SMALL,
) -> Manifest:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": list(environment),
        "resources": dict(resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",  # why it failed reaches the app's status
        "volumeMounts": list(mounts),
    }


def engine_container(
    name: str,
    image: str,
    command: EngineCommand,
    mounts: Sequence[Manifest],
    *,
    environment: Sequence[Manifest] = (),
    resources: Mapping[str, Any] = SMALL,
) -> Manifest:
    """Return the container of an engine's own program, with the Secrets that it reads; `secret_volumes` has those."""
    secrets = [{"name": _volume_name(path), "mountPath": path, "readOnly": True} for path in command.secrets.values()]
    variables = [{"name": variable, "value": value} for variable, value in command.environment.items()]
    return container(
        name,
        image,
        command.argv,
        [*mounts, *secrets],
        environment=[*environment, *variables],
        resources=resources,
    )


def secret_volumes(command: EngineCommand) -> list[Manifest]:
    """Return the volumes of a pod that has the `engine_container` of a program."""
    return [
        {"name": _volume_name(path), "secret": {"secretName": secret, "defaultMode": 0o440}}
        for secret, path in command.secrets.items()
    ]


def _volume_name(path: str) -> str:
    return path.rpartition("/")[2]


def job_spec(
    app: App,
    labels: Mapping[str, str],
    *,
    user: int,
    last: Manifest,
    volumes: Sequence[Manifest],
    seconds: int,
    first: Sequence[Manifest] = (),
    spread: Sequence[Manifest] = (),
    beside: str = "",
) -> Manifest:
    """Return the spec of a Job that runs `first` one after the other and then `last`, on the node of the pod `beside`
    if one is given."""
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": list(spread),
        "initContainers": list(first),
        "containers": [last],
        "volumes": list(volumes),
        **place_job(pods_of_app(app)),
    }
    if beside:
        pod = {"matchLabels": {"statefulset.kubernetes.io/pod-name": beside}}
        term = {"labelSelector": pod, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "backoffLimit": RETRIES,
        "activeDeadlineSeconds": seconds,
        "podReplacementPolicy": "Failed",  # never two pods of one Job at work
        "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
    }


def is_complete(job: Object) -> bool:
    return (end := find_end(job)) is not None and end[1]


def is_failed(job: Object) -> bool:
    return (end := find_end(job)) is not None and not end[1]


def why_failed(job: Object, pods: Iterable[Object]) -> str:
    """Say why a Job failed, in the words of the container that did, of its last pod that has any."""
    name = job["metadata"]["name"]
    own = [pod for pod in pods if is_of_job(pod, name)]
    for pod in sorted(own, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True):
        if words := troubles(pod):
            return words
    conditions = job.get("status", {}).get("conditions") or ()
    return next((str(one.get("message", "")) for one in conditions if one["type"] == "Failed"), "it said nothing")


def troubles(pod: Object) -> str:
    """Say why a pod does not get on: the last line of a container that failed, or what keeps one from starting."""
    for status in (*statuses_of(pod, "initContainerStatuses"), *statuses_of(pod, "containerStatuses")):
        state = status.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended and ended.get("exitCode"):
            lines = [line for line in str(ended.get("message", "")).splitlines() if line.strip()]
            last = lines[-1].strip()[:500] if lines else f"exit code {ended['exitCode']}"
            return f"{status['name']}: {quote_output(last) if lines and status['name'] in TOOLS else last}"
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"{status['name']}: {waiting['reason']}: {waiting_message(waiting)}"[:500]
    for one in pod.get("status", {}).get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return f"it is not scheduled: {one.get('message', '')}"[:500]
    return ""


def find_end(job: Object) -> tuple[str, bool] | None:
    """Return when a Job ended and whether well; None while it is at work."""
    for one in job.get("status", {}).get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return str(one.get("lastTransitionTime", "")), one["type"] == "Complete"
    return None


def is_of_job(pod: Object, name: str) -> bool:
    return bool(pod["metadata"].get("labels", {}).get(JOB) == name)


def statuses_of(pod: Object, kind: str) -> list[Object]:
    return pod.get("status", {}).get(kind) or []
