"""A Job from its beginning to its end, and what its pods left as their last words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from fleet.errors import ResourceError
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.health import State, judge
from fleet.kube.objects import Scope, get, pages

Object = dict[str, Any]
JOBS = Resource("batch", "v1", "Job", "jobs", True)
CRON_JOBS = Resource("batch", "v1", "CronJob", "cronjobs", True)
PODS = Resource("", "v1", "Pod", "pods", True)
EVERY = 0.5
QUIET = ("", "ContainerCreating", "PodInitializing")


async def start_job(client: Client, job: Object) -> Object:
    answer = await client.request("POST", JOBS.collection(job["metadata"]["namespace"]), body=job)
    made: Object = answer.body
    return made


async def wait_for_job(client: Client, job: Object, *, seconds: float, tell: Callable[[str], None]) -> list[Object]:
    """Its pods, once it has ended well; ResourceError with the words of the container that failed."""
    own = job["metadata"]
    deadline = time.monotonic() + seconds
    while True:
        found = await get(client, JOBS, own["namespace"], own["name"])
        if found is None or found["metadata"]["uid"] != own["uid"]:
            raise ResourceError(f"{client.place}: Job {own['namespace']}/{own['name']} was deleted before it ended")
        pods = await pods_of(client, own["namespace"], own["name"])
        health = judge({"apiVersion": "batch/v1", "kind": "Job", **found})
        if health.state is State.HEALTHY:
            return pods
        why = next((words for pod in pods if (words := job_troubles(pod))), "")
        if health.final:
            raise ResourceError(f"{client.place}: Job {own['namespace']}/{own['name']} failed: {why or health.message}")
        if time.monotonic() > deadline:
            raise FleetTimeoutError(
                f"{client.place}: Job {own['namespace']}/{own['name']} has not ended after {seconds:.0f} s"
                + (f": {why}" if why else ""),
                hint="it goes on by itself",
            )
        tell(why or next((words for pod in pods if (words := _doing(pod))), "waits for a place to run"))
        await asyncio.sleep(EVERY)


async def pods_of(client: Client, namespace: str, job: str) -> list[Object]:
    """The newest first."""
    scope = Scope(PODS, namespace, labels=f"batch.kubernetes.io/job-name={job}")
    found = [pod async for page in pages(client, scope) for pod in page["items"]]
    return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)


def job_output(pods: list[Object]) -> Object | None:
    """What a container that ended well said, if it is JSON."""
    for pod in pods:
        for status in _containers(pod):
            terminated = (status.get("state") or {}).get("terminated") or {}
            if terminated.get("exitCode") == 0 and str(terminated.get("message", "")).startswith("{"):
                try:
                    said: Object = orjson.loads(terminated["message"])
                except orjson.JSONDecodeError:
                    continue
                return said
    return None


def job_troubles(pod: Object) -> str:
    """Why a pod does not get on, in the words of whoever holds it up; "" when all is well."""
    for status in _containers(pod):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated") or {}, state.get("waiting") or {}
        if terminated.get("exitCode"):
            lines = [line for line in str(terminated.get("message", "")).splitlines() if line.strip()]
            last = lines[-1].strip() if lines else f"exit code {terminated['exitCode']}"
            return f"{status['name']}: {last}"
        if waiting.get("reason", "") not in QUIET:
            return f"{status['name']}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return f"not scheduled: {one.get('message', '')}"
    return ""


def _doing(pod: Object) -> str:
    running = [status["name"] for status in _containers(pod) if "running" in (status.get("state") or {})]
    return running[0] if running else ""


def _containers(pod: Object) -> Iterator[Object]:
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()
