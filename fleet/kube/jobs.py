"""Jobs, and the termination messages of their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from fleet.kube.client.client import Client
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.resource import Resource

Object = dict[str, Any]
JOBS = Resource("batch", "v1", "Job", "jobs", True)
CRON_JOBS = Resource("batch", "v1", "CronJob", "cronjobs", True)
PODS = Resource("", "v1", "Pod", "pods", True)
EVERY = 0.5
QUIET = ("", "ContainerCreating", "PodInitializing")


async def pods_of(client: Client, namespace: str, job: str) -> list[Object]:
    """Return the pods of a Job, the newest first."""
    scope = ObjectScope(PODS, namespace, labels=f"batch.kubernetes.io/job-name={job}")
    pods = [pod async for page in pages(client, scope) for pod in page["items"]]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)


def job_output(pods: list[Object]) -> Object | None:
    """Return the JSON object in the termination message of a container that succeeded; None if there is none."""
    for pod in pods:
        for status in _container_statuses(pod):
            terminated = (status.get("state") or {}).get("terminated") or {}
            if terminated.get("exitCode") == 0 and str(terminated.get("message", "")).startswith("{"):
                try:
                    output: Object = orjson.loads(terminated["message"])
                except orjson.JSONDecodeError:
                    continue
                return output
    return None


def job_troubles(pod: Object) -> str:
    """Return why a pod does not get on, in the words of the container or the scheduler; "" if all is well."""
    for status in _container_statuses(pod):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated") or {}, state.get("waiting") or {}
        if terminated.get("exitCode"):
            lines = [line for line in str(terminated.get("message", "")).splitlines() if line.strip()]
            last = lines[-1].strip() if lines else f"exit code {terminated['exitCode']}"
            return f"{status['name']}: {last}"
        if waiting.get("reason", "") not in QUIET:
            return f"{status['name']}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"not scheduled: {condition.get('message', '')}"
    return ""


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()
