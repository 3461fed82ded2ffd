"""What pods of backups and restores left as their last words, for the app's status. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.kit.backup.records import Record, read
from fleet.kit.status import LastBackup
from fleet.kit.workload.jobs import TASK, find_end, is_of_job, statuses_of, why_failed
from fleet.objects.redaction import waiting_message

Object = dict[str, Any]


def read_record(pod: Object, container: str) -> Record | None:
    """What a container that ended well wrote about a backup."""
    for status in (*statuses_of(pod, "initContainerStatuses"), *statuses_of(pod, "containerStatuses")):
        ended = status.get("state", {}).get("terminated")
        if status.get("name") == container and ended and ended.get("exitCode") == 0:
            return read(str(ended.get("message", "")))
    return None


def read_manifest(pod: Object) -> LastBackup | None:
    """The backup that a pod made; None if it made none, or is none of those."""
    record = read_record(pod, "keep")
    if record is None or not _is(pod, "backup"):
        return None
    return LastBackup(
        time=record.time,
        place=record.place,
        version=record.version,
        size=record.size if record.checksum else None,
        checksum=record.checksum or None,
        position=record.position or None,
    )


def newest(pods: Iterable[Object], known: LastBackup | None = None) -> LastBackup | None:
    """The newest complete backup that the pods tell of, or `known`, from the status: pods go, and backups stay."""
    found = [backup for pod in pods if (backup := read_manifest(pod))]
    return max([*found, *([known] if known else [])], key=lambda backup: backup.time, default=None)


def backed_up(jobs: Iterable[Object], pods: Iterable[Object], known: LastBackup | None) -> tuple[str, str, str, str]:
    """The condition BackedUp (type, status, reason, message): how the last Job ended, or why one cannot begin."""
    own, there = [job for job in jobs if _is(job, "backup")], list(pods)
    for job in own:
        if find_end(job) is None and (why := _why_not_begun(job, there)):
            return "BackedUp", "False", "BackupWaits", f"{job['metadata']['name']} waits: {why}"
    ended = [(end, job) for job in own if (end := find_end(job))]
    if ended:
        (_, success), job = max(ended, key=lambda one: one[0])
        if not success:
            why = why_failed(job, there)
            return "BackedUp", "False", "BackupFailed", f"{job['metadata']['name']} failed: {why}"
    if known is not None:
        read = " and was read back" if known.checksum else ""  # not what is in an engine's own repository
        return "BackedUp", "True", "BackupComplete", f"{known.place} is complete{read}"
    return "BackedUp", "Unknown", "NoBackup", "no backup has been made yet"


def recoverable(jobs: Iterable[Object], pods: Iterable[Object]) -> tuple[str, str, str, str]:
    """The condition Recoverable (type, status, reason, message): how the last trial of a restore ended."""
    ended = [(end, job) for job in jobs if _is(job, "trial") and (end := find_end(job))]
    if not ended:
        return "Recoverable", "Unknown", "NoTrial", "no backup has been restored on trial yet"
    (time, success), job = max(ended, key=lambda one: one[0])
    name, own = job["metadata"]["name"], list(pods)
    if not success:
        return "Recoverable", "False", "TrialFailed", f"{name} failed: {why_failed(job, own)}"
    records = [record for pod in own if is_of_job(pod, name) and (record := read_record(pod, "prove"))]
    if not records:  # its pod is gone, and with it which one it was
        return "Recoverable", "True", "TrialComplete", f"{name} restored the newest backup, at {time}"
    reaching = f", reaching {records[0].position}" if records[0].position else ""
    return "Recoverable", "True", "TrialComplete", f"{records[0].place} was restored on trial at {time}{reaching}"


def _why_not_begun(job: Object, pods: Iterable[Object]) -> str:
    """Why a container of a Job's pod cannot be made, such as a Secret that is not there; "" while all is well."""
    for pod in pods:
        for status in statuses_of(pod, "initContainerStatuses"):
            waiting = status.get("state", {}).get("waiting") or {}
            if is_of_job(pod, job["metadata"]["name"]) and waiting.get("reason") == "CreateContainerConfigError":
                return f"{status['name']}: {waiting_message(waiting)}"[:500]
    return ""


def _is(found: Object, task: str) -> bool:
    return bool(found["metadata"].get("labels", {}).get(TASK) == task)
