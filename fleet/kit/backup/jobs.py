"""What the pods of backups and restores have in common: no rights, a root that cannot be written to, an end. Pure.

They have labels of their own: none of the app's Services and budgets may take them for members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fleet.kit import names
from fleet.kit.backup.plan import A, BackupPlan
from fleet.kit.programs import EngineCommand
from fleet.kit.workload.pod_settings import place_job
from fleet.model.pod_settings import pods_of_app

Manifest = dict[str, Any]
TASK = "fleet.dev/task"  # the label that says what a Job is for
NAME = "app.kubernetes.io/name"
Task = Literal["backup", "restore", "trial"]
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
RETRIES = 3


def labels(plan: BackupPlan[A], app: A, task: Task) -> dict[str, str]:
    own = names.labels(app, plan.role.name)
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


def operator_command(kind: str, step: str, *arguments: str) -> list[str]:
    """Return the command line of a step in the operator's image, about an app of a kind (`commands`)."""
    return ["python3", "-P", "-m", "fleet_operator", "backup", step, f"--kind={kind}", *arguments]


def job_spec(
    plan: BackupPlan[A],
    app: A,
    task: Task,
    *,
    first: Sequence[Manifest],
    last: Manifest,
    volumes: Sequence[Manifest],
    seconds: int,
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
            "runAsUser": plan.role.user,
            "runAsGroup": plan.role.user,
            "fsGroup": plan.role.user,
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
        "template": {"metadata": {"labels": labels(plan, app, task)}, "spec": spec},
    }


def data_volume(plan: BackupPlan[A], app: A, pod: str) -> Manifest:
    """Return the volume of a Job's pod that is a member's."""
    return {"name": plan.volume.name, "persistentVolumeClaim": {"claimName": claim_name(plan, app, pod)}}


def data_mount(plan: BackupPlan[A]) -> Manifest:
    """Return where a Job's container has a member's volume: at the place where members have it."""
    return {"name": plan.volume.name, "mountPath": plan.volume.path}


def claim_name(plan: BackupPlan[A], app: A, pod: str) -> str:
    return names.claim(app, pod, plan.volume.name)
