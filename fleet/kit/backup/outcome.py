"""What pods of backups and restores left as their last words, for the app's status. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.kit.backup.jobs import TASK
from fleet.kit.backup.records import Record, read
from fleet.kit.status import LastBackup
from fleet.objects.redaction import waiting_message
from fleet.text import quote_output

TOOLS = frozenset({"save", "restore"})  # containers of the app's own image, which is a tenant's to choose

Object = dict[str, Any]


def read_record(pod: Object, container: str) -> Record | None:
    """What a container that ended well wrote about a backup."""
    for status in (*_statuses(pod, "initContainerStatuses"), *_statuses(pod, "containerStatuses")):
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
        if _end(job) is None and (why := _why_not_begun(job, there)):
            return "BackedUp", "False", "BackupWaits", f"{job['metadata']['name']} waits: {why}"
    ended = [(end, job) for job in own if (end := _end(job))]
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
    ended = [(end, job) for job in jobs if _is(job, "trial") and (end := _end(job))]
    if not ended:
        return "Recoverable", "Unknown", "NoTrial", "no backup has been restored on trial yet"
    (time, success), job = max(ended, key=lambda one: one[0])
    name, own = job["metadata"]["name"], list(pods)
    if not success:
        return "Recoverable", "False", "TrialFailed", f"{name} failed: {why_failed(job, own)}"
    records = [record for pod in own if _of_job(pod, name) and (record := read_record(pod, "prove"))]
    if not records:  # its pod is gone, and with it which one it was
        return "Recoverable", "True", "TrialComplete", f"{name} restored the newest backup, at {time}"
    reaching = f", reaching {records[0].position}" if records[0].position else ""
    return "Recoverable", "True", "TrialComplete", f"{records[0].place} was restored on trial at {time}{reaching}"


def is_complete(job: Object) -> bool:
    return (end := _end(job)) is not None and end[1]


def is_failed(job: Object) -> bool:
    return (end := _end(job)) is not None and not end[1]


def why_failed(job: Object, pods: Iterable[Object]) -> str:
    """In the words of the container that failed, of the Job's last pod that has any."""
    name = job["metadata"]["name"]
    own = [pod for pod in pods if _of_job(pod, name)]
    for pod in sorted(own, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True):
        if words := troubles(pod):
            return words
    conditions = job.get("status", {}).get("conditions") or ()
    return next((str(one.get("message", "")) for one in conditions if one["type"] == "Failed"), "it said nothing")


def troubles(pod: Object) -> str:
    """Why a pod does not get on: the last line of a container that failed, or what keeps one from starting."""
    for status in (*_statuses(pod, "initContainerStatuses"), *_statuses(pod, "containerStatuses")):
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


def _why_not_begun(job: Object, pods: Iterable[Object]) -> str:
    """Why a container of a Job's pod cannot be made, such as a Secret that is not there; "" while all is well."""
    for pod in pods:
        for status in _statuses(pod, "initContainerStatuses"):
            waiting = status.get("state", {}).get("waiting") or {}
            if _of_job(pod, job["metadata"]["name"]) and waiting.get("reason") == "CreateContainerConfigError":
                return f"{status['name']}: {waiting_message(waiting)}"[:500]
    return ""


def _end(job: Object) -> tuple[str, bool] | None:
    """When a Job ended and whether well; None while it is at work."""
    for one in job.get("status", {}).get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return str(one.get("lastTransitionTime", "")), one["type"] == "Complete"
    return None


def _is(found: Object, task: str) -> bool:
    return bool(found["metadata"].get("labels", {}).get(TASK) == task)


def _of_job(pod: Object, name: str) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == name)


def _statuses(pod: Object, kind: str) -> list[Object]:
    return pod.get("status", {}).get(kind) or []
