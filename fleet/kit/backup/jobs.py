"""What the Jobs of backups and restores have in common beside what all Jobs of an app have. Pure.

They have labels of their own: none of the app's Services and budgets may take them for members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fleet.kit import names
from fleet.kit.backup.plan import A, BackupPlan
from fleet.kit.workload import jobs
from fleet.kit.workload.jobs import task_labels

Manifest = dict[str, Any]
Task = Literal["backup", "restore", "trial"]


def labels(plan: BackupPlan[A], app: A, task: Task) -> dict[str, str]:
    return task_labels(app, task, plan.role.name)


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
    return jobs.job_spec(
        app,
        labels(plan, app, task),
        user=plan.role.user,
        first=first,
        last=last,
        volumes=volumes,
        seconds=seconds,
        spread=spread,
        beside=beside,
    )


def data_volume(plan: BackupPlan[A], app: A, pod: str) -> Manifest:
    """Return the volume of a Job's pod that is a member's."""
    return {"name": plan.volume.name, "persistentVolumeClaim": {"claimName": claim_name(plan, app, pod)}}


def data_mount(plan: BackupPlan[A]) -> Manifest:
    """Return where a Job's container has a member's volume: at the place where members have it."""
    return {"name": plan.volume.name, "mountPath": plan.volume.path}


def claim_name(plan: BackupPlan[A], app: A, pod: str) -> str:
    return names.claim(app, pod, plan.volume.name)
