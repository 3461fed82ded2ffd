"""Jobs from their creation to their end, and the termination messages of their pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from fleet.errors import ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.kube.client.client import Client
from fleet.kube.health import State, judge
from fleet.kube.objects import ObjectScope, get, pages
from fleet.objects.resource import Resource

Object = dict[str, Any]
JOBS = Resource("batch", "v1", "Job", "jobs", True)
CRON_JOBS = Resource("batch", "v1", "CronJob", "cronjobs", True)
PODS = Resource("", "v1", "Pod", "pods", True)
EVERY = 0.5
QUIET = ("", "ContainerCreating", "PodInitializing")


async def start_job(client: Client, job: Object) -> Object:
    """Create the Job and return it as the server has it."""
    answer = await client.request("POST", JOBS.collection(job["metadata"]["namespace"]), body=job)
    created: Object = answer.body
    return created


async def wait_for_job(client: Client, job: Object, *, seconds: float, tell: Callable[[str], None]) -> list[Object]:
    """Wait until a Job succeeds and return its pods, the newest first.

    Raise ResourceError with the message of the container that failed, or if the Job was deleted; TimeoutError after
    `seconds`.
    """
    metadata = job["metadata"]
    deadline = time.monotonic() + seconds
    while True:
        live = await get(client, JOBS, metadata["namespace"], metadata["name"])
        if live is None or live["metadata"]["uid"] != metadata["uid"]:
            raise ResourceError(
                f"{client.place}: Job {metadata['namespace']}/{metadata['name']} was deleted before it ended"
            )
        pods = await pods_of(client, metadata["namespace"], metadata["name"])
        health = judge({"apiVersion": "batch/v1", "kind": "Job", **live})
        if health.state is State.HEALTHY:
            return pods
        trouble = next((text for pod in pods if (text := job_troubles(pod))), "")
        if health.final:
            raise ResourceError(
                f"{client.place}: Job {metadata['namespace']}/{metadata['name']} failed: {trouble or health.message}"
            )
        if time.monotonic() > deadline:
            raise FleetTimeoutError(
                f"{client.place}: Job {metadata['namespace']}/{metadata['name']} has not ended after {seconds:.0f} s"
                + (f": {trouble}" if trouble else ""),
                hint="it goes on by itself",
            )
        tell(trouble or next((text for pod in pods if (text := _running_container(pod))), "waits for a place to run"))
        await asyncio.sleep(EVERY)


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


def _running_container(pod: Object) -> str:
    running = [status["name"] for status in _container_statuses(pod) if "running" in (status.get("state") or {})]
    return running[0] if running else ""


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()
