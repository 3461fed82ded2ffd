"""What the pods of backups and restores have in common: nobody's rights, a root that cannot be written to, an end.
Pure.

They have labels of their own: none of the app's Services and budgets may take them for members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fleet.apps.etcd.spec import Etcd
from fleet.kit import names
from fleet.kit.app_type import USER

Manifest = dict[str, Any]
TASK = "fleet.dev/task"  # the label that says what a Job is for
Task = Literal["backup", "restore"]
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
RETRIES = 3


def labels(app: Etcd, task: Task) -> dict[str, str]:
    return {**names.labels(app), "app.kubernetes.io/name": f"etcd-{task}", TASK: task}


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


def operator_command(*arguments: str) -> list[str]:
    return ["python3", "-P", "-m", "fleet_operator", "backup", *arguments]


def job_spec(
    app: Etcd,
    task: Task,
    *,
    first: Sequence[Manifest],
    last: Manifest,
    volumes: Sequence[Manifest],
    seconds: int,
    spread: Sequence[Manifest] = (),
) -> Manifest:
    """Of a Job that runs `first` one after the other and then `last`."""
    return {
        "backoffLimit": RETRIES,
        "activeDeadlineSeconds": seconds,
        "podReplacementPolicy": "Failed",  # never two pods of one Job at work
        "template": {
            "metadata": {"labels": labels(app, task)},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "fsGroup": USER,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "topologySpreadConstraints": list(spread),
                "initContainers": list(first),
                "containers": [last],
                "volumes": list(volumes),
            },
        },
    }
