"""Why a workload is not healthy, from what it made: its pods, their events, and the events about itself.

A Deployment says "1 of 3 replicas are available" whatever the reason is. Its pods have it: a Secret that is not there,
an image that cannot be had, a node that has no room; and a quota forbids them to be. Only words of Kubernetes are told,
and reasons instead of free text where that may come from a container. Reads only. What may not be read is not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fleet.errors import FleetError
from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.discovery import Resource
from fleet.kube.health import Health, State, judge
from fleet.kube.health.state import condition, waiting_message
from fleet.kube.objects import Scope, pages
from fleet.objects.desired import Key
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
MOST = 5  # objects that are asked about at once
ENOUGH = 50  # pods and events of each
LETTERS = 250
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
# Of these events the message is about what Kubernetes did; of others it may be what a container said.
_TOLD = re.compile(r"Failed(Scheduling|Mount|AttachVolume|Create|Binding|CreatePodSandBox)|ProvisioningFailed|Evicted")


class CauseReader(NamedTuple):
    """What was found about one object: its pods, and the events about it and about them."""

    pods: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()


async def explain_health(
    client: Client, live: Mapping[Key, dict[str, Any] | None], keys: Iterable[Key]
) -> dict[Key, str]:
    """The cause of what is not healthy among these objects, as far as one can be told; a few of them at most."""
    workloads = ((key, live.get(key)) for key in keys if (key.group, key.kind) in KINDS)
    asked = [(key, found) for key, found in workloads if found and _is_open(judge(found))][:MOST]
    readings = await gather([_read(client, key, found) for key, found in asked])
    causes = {key: find_cause(found, reading) for (key, found), reading in zip(asked, readings, strict=True)}
    return {key: text for key, text in causes.items() if text}


def add_cause(health: Health, text: str) -> Health:
    return replace(health, message=f"{health.message}: {text}" if health.message else text) if text else health


def find_cause(found: dict[str, Any], reading: CauseReader) -> str:
    """Pure. The first thing that keeps a pod from starting, the newest pods first; else why there are none."""
    newest = sorted(reading.pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True)
    unwell = [pod for pod in newest if "deletionTimestamp" not in pod["metadata"] and not _is_ready(pod)]
    for pod in unwell:
        if text := _of_pod(pod, reading.events):
            named = text if found["kind"] == "Pod" else f"pod {pod['metadata']['name']}: {text}"
            return named[:LETTERS]
    failure = condition(found, "ReplicaFailure")
    if failure and failure.get("status") == "True":
        return ""  # its own judge has told that
    return _event(reading.events, found)[:LETTERS]


def _is_open(health: Health) -> bool:
    return health.state in (State.PROGRESSING, State.DEGRADED)


def _is_ready(pod: dict[str, Any]) -> bool:
    if (pod.get("status") or {}).get("phase") == "Succeeded":
        return True
    ready = condition(pod, "Ready")
    return bool(ready and ready.get("status") == "True")


def _of_pod(pod: dict[str, Any], events: Iterable[dict[str, Any]]) -> str:
    status = pod.get("status") or {}
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', 'no node was found for it')}"
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"{status['reason']}: {status.get('message', '')}".rstrip(": ")
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for one in containers:
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _STARTING:
            return f"container {one['name']}: {waiting['reason']}{_why(one, waiting)}"
    for one in containers:
        if text := _ended(one):
            return f"container {one['name']}: {text}"
    told = _event(events, pod)
    return told or ("its containers run, and it is not ready" if status.get("phase") == "Running" else "")


def _why(container: dict[str, Any], waiting: dict[str, Any]) -> str:
    """A container that ends again and again says why in its own words, which are not told: its exit code is."""
    if waiting["reason"] == "CrashLoopBackOff":
        text = _ended(container)
        return f", {text}" if text else ""
    message = waiting_message(waiting)
    return f": {message}" if message else ""


def _ended(container: dict[str, Any]) -> str:
    ended = (
        (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    )
    if not ended or not (ended.get("exitCode") or ended.get("reason") not in (None, "Completed")):
        return ""
    count = container.get("restartCount", 0)
    times = f", {count_noun(count, 'restart')}" if count else ""
    return f"{ended.get('reason', 'Error')}, exit code {ended.get('exitCode', 0)}{times}"


def _event(events: Iterable[dict[str, Any]], about: dict[str, Any]) -> str:
    """The newest warning about an object that Kubernetes itself speaks in."""
    uid = about["metadata"].get("uid")
    warnings = [
        one
        for one in events
        if one.get("type") == "Warning"
        and (one.get("involvedObject") or {}).get("uid") == uid
        and _TOLD.fullmatch(str(one.get("reason", "")))
    ]
    newest = max(warnings, key=_time, default=None)
    return f"{newest['reason']}: {newest.get('message', '')}" if newest else ""


def _time(event: dict[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


async def _read(client: Client, key: Key, found: dict[str, Any]) -> CauseReader:
    """Empty where it may not be read, and where the server does not say."""
    try:
        if key.kind == "Pod":
            pods = [found]
        else:
            selector = selector_of(found)
            pods = await _some(client, Scope(PODS, key.namespace, labels=selector)) if selector else []
        about = [found, *(pod for pod in pods if not _is_ready(pod))][:3]
        lists = [_some(client, Scope(EVENTS, key.namespace, fields=_about(one))) for one in about]
        return CauseReader(tuple(pods), tuple(event for events in await gather(lists) for event in events))
    except FleetError:
        return CauseReader()


def _about(one: dict[str, Any]) -> str:
    return f"involvedObject.uid={one['metadata'].get('uid', '')},type=Warning"


async def _some(client: Client, scope: Scope) -> list[dict[str, Any]]:
    async for page in pages(client, scope, limit=ENOUGH):
        items: list[dict[str, Any]] = page["items"]
        return items
    return []


def selector_of(found: dict[str, Any]) -> str:
    """A workload's selector, as a query has it; "" when it has none."""
    selector = (found.get("spec") or {}).get("selector") or {}
    labels = (
        selector.get("matchLabels") or {} if "matchLabels" in selector or "matchExpressions" in selector else selector
    )
    parts = [f"{name}={value}" for name, value in sorted(labels.items())]
    for one in selector.get("matchExpressions") or () if isinstance(selector.get("matchExpressions"), list) else ():
        values = ",".join(one.get("values") or ())
        words = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})"}
        parts.append(words.get(one["operator"], f"{'!' if one['operator'] == 'DoesNotExist' else ''}{one['key']}"))
    return ",".join(parts)
