"""Reasons why a workload is not healthy, from what it created: its pods, their events, and its own events.

A Deployment says "1 of 3 replicas are available" whatever the reason is. The reason is with its pods: a missing Secret,
an image that cannot be pulled, a node without room; or a quota that forbids the pods. Only texts that Kubernetes itself
writes are shown, and reasons instead of free text where that text may come from a container. This module only reads,
and leaves out what it has no right to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fleet.errors import FleetError
from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.health import Health, State, judge
from fleet.kube.health.state import condition
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.desired import Key
from fleet.objects.redaction import waiting_message
from fleet.objects.resource import Resource
from fleet.text import count_noun

PODS = Resource("", "v1", "Pod", "pods", True)
EVENTS = Resource("", "v1", "Event", "events", True)
KINDS = frozenset(
    {
        ("", "Pod"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
    }
)
MOST = 5  # unhealthy objects whose causes are read
ENOUGH = 50  # pods of an object, and events of each
LETTERS = 250
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
# The messages of these events are about what Kubernetes did; those of others may be output of a container.
_SAFE_REASONS = re.compile(
    r"Failed(Scheduling|Mount|AttachVolume|Create|Binding|CreatePodSandBox)|ProvisioningFailed|Evicted"
)


class CauseReader(NamedTuple):
    """Pods of one object, and the events about it and about them."""

    pods: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()


async def explain_health(
    client: Client, live: Mapping[Key, dict[str, Any] | None], keys: Iterable[Key]
) -> dict[Key, str]:
    """Return the causes of unhealthiness that can be found, of at most `MOST` of these objects."""
    workloads = ((key, live.get(key)) for key in keys if (key.group, key.kind) in KINDS)
    unhealthy = [(key, workload) for key, workload in workloads if workload and _is_open(judge(workload))][:MOST]
    readings = await gather([_read_causes(client, key, workload) for key, workload in unhealthy])
    causes = {key: find_cause(workload, reading) for (key, workload), reading in zip(unhealthy, readings, strict=True)}
    return {key: text for key, text in causes.items() if text}


def add_cause(health: Health, text: str) -> Health:
    """Return the health with the cause added to its message; unchanged if the cause is empty."""
    return replace(health, message=f"{health.message}: {text}" if health.message else text) if text else health


def find_cause(workload: dict[str, Any], reading: CauseReader) -> str:
    """Return the first thing that keeps a pod from starting, newest pods first; else why there are none. Pure."""
    newest = sorted(reading.pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True)
    unwell = [pod for pod in newest if "deletionTimestamp" not in pod["metadata"] and not _is_ready(pod)]
    for pod in unwell:
        if text := _explain_pod(pod, reading.events):
            message = text if workload["kind"] == "Pod" else f"pod {pod['metadata']['name']}: {text}"
            return message[:LETTERS]
    failure = condition(workload, "ReplicaFailure")
    if failure and failure.get("status") == "True":
        return ""  # its health message has the reason already
    return _newest_warning(reading.events, workload)[:LETTERS]


def _is_open(health: Health) -> bool:
    return health.state in (State.PROGRESSING, State.DEGRADED)


def _is_ready(pod: dict[str, Any]) -> bool:
    if (pod.get("status") or {}).get("phase") == "Succeeded":
        return True
    ready = condition(pod, "Ready")
    return bool(ready and ready.get("status") == "True")


def _explain_pod(pod: dict[str, Any], events: Iterable[dict[str, Any]]) -> str:
    status = pod.get("status") or {}
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', 'no node was workload for it')}"
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"{status['reason']}: {status.get('message', '')}".rstrip(": ")
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _STARTING:
            return f"container {container['name']}: {waiting['reason']}{_waiting_detail(container, waiting)}"
    for container in containers:
        if text := _describe_exit(container):
            return f"container {container['name']}: {text}"
    warning = _newest_warning(events, pod)
    return warning or ("its containers run, and it is not ready" if status.get("phase") == "Running" else "")


def _waiting_detail(container: dict[str, Any], waiting: dict[str, Any]) -> str:
    """Return why a container waits.

    One that crashes again and again gives its reason as its own output, which is not shown: only its exit code is.
    """
    if waiting["reason"] == "CrashLoopBackOff":
        text = _describe_exit(container)
        return f", {text}" if text else ""
    message = waiting_message(waiting)
    return f": {message}" if message else ""


def _describe_exit(container: dict[str, Any]) -> str:
    terminated = (
        (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    )
    if not terminated or not (terminated.get("exitCode") or terminated.get("reason") not in (None, "Completed")):
        return ""
    count = container.get("restartCount", 0)
    times = f", {count_noun(count, 'restart')}" if count else ""
    return f"{terminated.get('reason', 'Error')}, exit code {terminated.get('exitCode', 0)}{times}"


def _newest_warning(events: Iterable[dict[str, Any]], about: dict[str, Any]) -> str:
    """Return the newest warning about an object whose text Kubernetes itself wrote."""
    uid = about["metadata"].get("uid")
    warnings = [
        event
        for event in events
        if event.get("type") == "Warning"
        and (event.get("involvedObject") or {}).get("uid") == uid
        and _SAFE_REASONS.fullmatch(str(event.get("reason", "")))
    ]
    newest = max(warnings, key=_event_time, default=None)
    return f"{newest['reason']}: {newest.get('message', '')}" if newest else ""


def _event_time(event: dict[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


async def _read_causes(client: Client, key: Key, workload: dict[str, Any]) -> CauseReader:
    """Read the pods and events of an object; empty if fleet has no right to read them or the server gives no answer."""
    try:
        if key.kind == "Pod":
            pods = [workload]
        else:
            selector = selector_of(workload)
            pods = await _read_page(client, ObjectScope(PODS, key.namespace, labels=selector)) if selector else []
        subjects = [workload, *(pod for pod in pods if not _is_ready(pod))][:3]
        lists = [
            _read_page(client, ObjectScope(EVENTS, key.namespace, fields=_event_selector(subject)))
            for subject in subjects
        ]
        return CauseReader(tuple(pods), tuple(event for events in await gather(lists) for event in events))
    except FleetError:
        return CauseReader()


def _event_selector(subject: dict[str, Any]) -> str:
    return f"involvedObject.uid={subject['metadata'].get('uid', '')},type=Warning"


async def _read_page(client: Client, scope: ObjectScope) -> list[dict[str, Any]]:
    async for page in pages(client, scope, limit=ENOUGH):
        items: list[dict[str, Any]] = page["items"]
        return items
    return []


def selector_of(workload: dict[str, Any]) -> str:
    """Return a workload's selector in the form of a query; "" if it has none."""
    selector = (workload.get("spec") or {}).get("selector") or {}
    labels = (
        selector.get("matchLabels") or {} if "matchLabels" in selector or "matchExpressions" in selector else selector
    )
    parts = [f"{name}={value}" for name, value in sorted(labels.items())]
    for term in selector.get("matchExpressions") or () if isinstance(selector.get("matchExpressions"), list) else ():
        values = ",".join(term.get("values") or ())
        operators = {"In": f"{term['key']} in ({values})", "NotIn": f"{term['key']} notin ({values})"}
        parts.append(
            operators.get(term["operator"], f"{'!' if term['operator'] == 'DoesNotExist' else ''}{term['key']}")
        )
    return ",".join(parts)
