"""The CronJob that makes an app's backups, and the Job that makes one at once. Pure."""

from __future__ import annotations

import copy
import datetime
import hashlib
from typing import Any

from fleet.kit import names
from fleet.kit.backup import stores
from fleet.kit.backup.jobs import (
    Manifest,
    data_mount,
    data_volume,
    job_spec,
    labels,
    operator_command,
)
from fleet.kit.backup.plan import A, BackupPlan
from fleet.kit.backup.records import part_of
from fleet.kit.permissions import place
from fleet.kit.workload.jobs import container, engine_container, secret_volumes
from fleet.model.app_settings import Backup
from fleet.times import seconds

DEADLINE_SECONDS = 3600  # of a whole backup: the pod is ended then
_JOB = {"name": "JOB_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}}


def cron_job_name(app: A) -> str:
    return f"{app.name}-backup"


def cron_job(
    plan: BackupPlan[A],
    app: A,
    backup: Backup,
    *,
    image: str,
    operator_image: str,
    version: str,
    identity: str = "",
    beside: str = "",
) -> Manifest:
    """Return the CronJob. `version` is the one that members run. `identity` tells the app from another of the same
    name: backups of a different identity are never counted or deleted. `beside` is the pod next to whose data the
    backup is made, where the plan wants that; ValueError if it does and none is given."""
    if plan.where == "beside" and not beside:
        raise ValueError("a backup beside a member's data needs the member's pod")
    steps = {"image": image, "operator_image": operator_image, "version": version, "identity": identity}
    spec = (
        _noted(plan, app, backup, **steps)
        if plan.how == "own"
        else _kept(plan, app, backup, beside=beside if plan.where == "beside" else "", **steps)
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {**names.metadata(app, cron_job_name(app)), "labels": labels(plan, app, "backup")},
        "spec": {
            "schedule": backup.schedule,
            "timeZone": "Etc/UTC",
            "suspend": backup.suspended,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": DEADLINE_SECONDS,  # a backup that was missed is made up for, for so long
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"metadata": {"labels": labels(plan, app, "backup")}, "spec": spec},
        },
    }


def _kept(
    plan: BackupPlan[A],
    app: A,
    backup: Backup,
    *,
    image: str,
    operator_image: str,
    version: str,
    identity: str,
    beside: str,
) -> Manifest:
    """Return the spec of a Job whose backup lies in a store: room is made, it is written, checked and named."""
    where = stores.directory(backup.to)
    job = f"{_owner(plan, app, identity)}.$(JOB_NAME)"
    command = plan.save(app, f"{where}/{part_of(app.name, job)}")
    kept = [stores.mount(read_only=False)]
    volumes: list[Manifest] = [stores.volume(backup.to, read_only=False), *secret_volumes(command)]
    saving = list(kept)
    if beside:
        saving.append({**data_mount(plan), "readOnly": True})
        volumes.append(data_volume(plan, app, beside))
    whose = ["--app", app.name, "--job", job, "--directory", where, *stores.arguments(backup.to)]
    variables = [_JOB, *stores.environment(backup.to)]
    prepare = operator_command(plan.kind, "prepare", *whose)
    keep = operator_command(
        plan.kind,
        "keep",
        *whose,
        f"--namespace={app.namespace}",
        f"--identity={identity}",
        f"--version={version}",
        f"--keep={backup.keep}",
        *([f"--keep-for={seconds(backup.keep_for)}"] if backup.keep_for else []),
        f"--place={place(backup.to)}",
    )
    first = [
        container("prepare", operator_image, prepare, kept, environment=variables),
        engine_container("save", image, command, saving, environment=[_JOB]),
    ]
    last = container("keep", operator_image, keep, kept, environment=variables)
    return job_spec(
        plan, app, "backup", first=first, last=last, volumes=volumes, seconds=DEADLINE_SECONDS, beside=beside
    )


def _owner(plan: BackupPlan[A], app: A, identity: str) -> str:
    """Return what tells an app's Jobs from those of another of its name that writes to the same store: of another
    namespace, kind or cluster. CronJobs of one schedule give their Jobs the same name in all of them."""
    return hashlib.sha256(f"{plan.kind}/{app.namespace}/{app.name}/{identity}".encode()).hexdigest()[:10]


def _noted(
    plan: BackupPlan[A], app: A, backup: Backup, *, image: str, operator_image: str, version: str, identity: str
) -> Manifest:
    """Return the spec of a Job whose backup is in the engine's own repository: all that is known is that it ended
    well, and under which name."""
    command = plan.save(app, "$(JOB_NAME)")
    note = operator_command(
        plan.kind,
        "note",
        *("--app", app.name, "--job", "$(JOB_NAME)"),
        f"--namespace={app.namespace}",
        f"--identity={identity}",
        f"--version={version}",
        f"--place={place(backup.to)}",
    )
    return job_spec(
        plan,
        app,
        "backup",
        first=[engine_container("save", image, command, [], environment=[_JOB])],
        last=container("keep", operator_image, note, [], environment=[_JOB]),
        volumes=secret_volumes(command),
        seconds=DEADLINE_SECONDS,
    )


def backup_job(cron_job: dict[str, Any], now: datetime.datetime) -> dict[str, Any]:
    """Return the Job that an app's CronJob would make if its time came now, with the same labels and the CronJob as
    its owner, so that it is counted and cleared up with the others."""
    own, template = cron_job["metadata"], copy.deepcopy(cron_job["spec"]["jobTemplate"])
    metadata = template.get("metadata", {})
    made: dict[str, Any] = {
        "name": f"{own['name']}-{now.astimezone(datetime.UTC):%y%m%d%H%M%S}",
        "namespace": own["namespace"],
        "labels": metadata.get("labels", {}),
        "annotations": {**metadata.get("annotations", {}), "cronjob.kubernetes.io/instantiate": "manual"},
    }
    if "uid" in own:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": own["name"], "uid": own["uid"]}
        made["ownerReferences"] = [{**owner, "controller": True}]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": template["spec"]}
