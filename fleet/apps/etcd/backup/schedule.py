"""The CronJob that makes an etcd's backups. Pure. A backup by hand is a Job of the same template
(`fleet.kit.backup_job`)."""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.backup import store
from fleet.apps.etcd.backup.keep import DEADLINE_SECONDS, part_of
from fleet.apps.etcd.backup.pod import Manifest, container, job_spec, labels, operator_command
from fleet.apps.etcd.spec import Etcd
from fleet.kit.names import metadata
from fleet.kit.permissions import place
from fleet.model.app_settings import Backup

_CERTIFICATES = "/etc/etcd/client"
_JOB = {"name": "JOB_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}}


def cron_job_name(app: Etcd) -> str:
    return f"{app.name}-backup"


def cron_job(
    app: Etcd, backup: Backup, *, image: str, operator_image: str, version: str, identity: str = ""
) -> Manifest:
    """`version` is the one that members run. `identity` tells the app from another of the same name: backups of a
    different identity are never counted or deleted."""
    where = store.directory(backup.to)
    part = f"{where}/{part_of(app.name, '$(JOB_NAME)')}"
    kept = [store.mount(read_only=False)]
    volumes: list[Manifest] = [store.volume(backup.to, read_only=False)]
    saving = list(kept)
    if names.encrypted(app):
        saving.append({"name": "client", "mountPath": _CERTIFICATES, "readOnly": True})
        volumes.append({"name": "client", "secret": {"secretName": names.connection_secret(app), "defaultMode": 0o440}})
    whose = ["--app", app.name, "--job", "$(JOB_NAME)", "--directory", where]
    prepare = container("prepare", operator_image, operator_command("prepare", *whose), kept, environment=[_JOB])
    save = container("save", image, _save(app, part), saving, environment=[_JOB, {"name": "ETCDCTL_API", "value": "3"}])
    keep = container(
        "keep",
        operator_image,
        operator_command(
            "keep",
            *whose,
            f"--namespace={app.namespace}",
            f"--identity={identity}",
            f"--version={version}",
            f"--keep={backup.keep}",
            f"--place={place(backup.to)}",
        ),
        kept,
        environment=[_JOB],
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {**metadata(app, cron_job_name(app)), "labels": labels(app, "backup")},
        "spec": {
            "schedule": backup.schedule,
            "timeZone": "Etc/UTC",
            "suspend": backup.suspended,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": DEADLINE_SECONDS,  # a backup that was missed is made up for, for so long
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {
                "metadata": {"labels": labels(app, "backup")},
                "spec": job_spec(
                    app, "backup", first=[prepare, save], last=keep, volumes=volumes, seconds=DEADLINE_SECONDS
                ),
            },
        },
    }


def _save(app: Etcd, target: str) -> list[str]:
    """Through the Service: a snapshot is of one member, and any that is ready will do, the leader or another."""
    certificates = [
        f"--cacert={_CERTIFICATES}/ca.crt",
        f"--cert={_CERTIFICATES}/tls.crt",
        f"--key={_CERTIFICATES}/tls.key",
    ]
    endpoint = f"--endpoints={names.scheme(app)}://{app.endpoint}"
    return ["etcdctl", endpoint, *(certificates if names.encrypted(app) else []), "snapshot", "save", target]
