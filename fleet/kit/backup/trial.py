"""Restores on trial: by schedule the newest backup is chosen, read, and restored by the engine's own tool into a
scratch volume of the pod, which goes with it. Pure, but for the check of what was restored.
"""

from __future__ import annotations

from pathlib import Path

from fleet.errors import ResourceError
from fleet.kit import names
from fleet.kit.backup import stores
from fleet.kit.backup.jobs import (
    Manifest,
    job_spec,
    labels,
    operator_command,
)
from fleet.kit.backup.plan import A, BackupPlan, PutBack
from fleet.kit.backup.restoration import pick_command
from fleet.kit.backup.shelf import LATEST
from fleet.kit.workload.jobs import container, engine_container, secret_volumes
from fleet.model.app_settings import Backup, Restore

DEADLINE_SECONDS = 6 * 3600
_WORK, _SCRATCH = "/work", "/trial"


def trial_name(app: A) -> str:
    """Return the name of the CronJob."""
    return f"{app.name}-trial"


def trial_cron_job(
    plan: BackupPlan[A], app: A, backup: Backup, *, image: str, operator_image: str, version: str, identity: str
) -> Manifest | None:
    """Return the CronJob that restores the app's newest backup on trial; None if git asks for none, or the backups are
    in a repository of the engine's own."""
    if backup.trial is None or plan.how == "own":
        return None
    needs = plan.role.resources(app)
    requests = {"cpu": needs.cpu, "memory": needs.memory}
    size = {"requests": requests, "limits": {"memory": needs.memory_limit or needs.memory}}
    work = {"name": "work", "mountPath": _WORK}
    scratch = {"name": "trial", "mountPath": _SCRATCH}
    link, target = f"{_WORK}/snapshot.{plan.suffix}", f"{_SCRATCH}/data"
    volumes: list[Manifest] = [
        stores.volume(backup.to, read_only=True),
        {"name": "work", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "trial", "emptyDir": {}},
    ]
    source = Restore(backup.to)
    pick = [
        *pick_command(plan, app, source, snapshot=LATEST, version=version, origins=()),
        f"--identity={identity}",
        f"--link={link}",
        f"--record={_WORK}/record.json",
    ]
    reading = [stores.mount(read_only=not stores.is_fetched(backup.to)), work]
    steps = [container("pick", operator_image, pick, reading, environment=stores.environment(backup.to))]
    prove = operator_command(plan.kind, "prove", f"--record={_WORK}/record.json")
    if plan.put_back is not None and plan.restore != "after":  # a tree that is copied was read as a whole already
        founder = names.pod(app, 0)
        command = plan.put_back(app, PutBack(version, link, founder, (founder,), target))
        volumes += secret_volumes(command)
        mounts = [stores.mount(read_only=True), {**work, "readOnly": True}, scratch]
        steps.append(engine_container("restore", image, command, mounts, resources=size))
        prove.append(f"--restored={target}")
    last = container("prove", operator_image, prove, [{**work, "readOnly": True}, {**scratch, "readOnly": True}])
    spec = job_spec(plan, app, "trial", first=steps, last=last, volumes=volumes, seconds=DEADLINE_SECONDS)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {**names.metadata(app, trial_name(app)), "labels": labels(plan, app, "trial")},
        "spec": {
            "schedule": backup.trial,
            "timeZone": "Etc/UTC",
            "suspend": backup.suspended,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": labels(plan, app, "trial")}, "spec": spec},
        },
    }


def check_restored(plan: BackupPlan[A], restored: Path) -> None:
    """Raise ResourceError unless all is there without which nothing was restored."""
    for needed in (restored, *(restored / path for path in plan.complete)):
        if not needed.exists():
            raise ResourceError(f"nothing was restored: {needed.relative_to(restored.parent)} is missing")
