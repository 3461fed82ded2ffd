"""What the cluster holds of one app, as plain data, and the questions that every engine asks about it. Pure."""

from __future__ import annotations

import datetime
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.kit.workload.template import mark_of
from fleet.objects.redaction import waiting_message
from fleet.text import count_noun, quote_output

Object = dict[str, Any]
Data = dict[str, bytes]  # of a Secret
CRASHES = 3  # starts in vain after which a container counts as one that cannot start

PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})  # in vain so far: registries are away at times
HOPELESS = frozenset(
    {
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
    }
)


@dataclass(frozen=True, slots=True)
class World:
    """The app's children by kind and name, and the nodes. Everything is as the caches have it: perhaps a little old."""

    objects: Mapping[str, Mapping[str, Object]]
    nodes: frozenset[str] | None = None  # names of the hosts; None when it is not known which there are
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(tz=datetime.UTC))

    @classmethod
    def of(cls, objects: Iterable[Object], nodes: frozenset[str] | None, now: datetime.datetime) -> World:
        found: dict[str, dict[str, Object]] = {}
        for one in objects:
            found.setdefault(one["kind"], {})[one["metadata"]["name"]] = one
        return cls(found, nodes, now)

    def all(self, kind: str) -> list[Object]:
        return list(self.objects.get(kind, {}).values())

    def get(self, kind: str, name: str) -> Object | None:
        return self.objects.get(kind, {}).get(name)

    def pod(self, name: str) -> Object | None:
        return self.get("Pod", name)

    def claim(self, name: str) -> Object | None:
        return self.get("PersistentVolumeClaim", name)

    def secret(self, name: str) -> Data:
        """Return what a Secret holds; nothing if it is not there."""
        return secret_data(self.get("Secret", name) or {})

    def volume(self, claim: Object) -> Object | None:
        """Return the volume that is bound to a claim, if a pod without a node waits for it: others are not
        asked for."""
        return self.get("PersistentVolume", str(claim["spec"].get("volumeName", "")))

    def age(self, found: Object) -> float:
        """Return the age in seconds since it was made."""
        made = found["metadata"].get("creationTimestamp")
        return (self.now - when(made)).total_seconds() if made else 0.0

    def unready_for(self, pod: Object) -> float:
        """Return for how many seconds it is not ready: since when its kubelet calls it unready, or since it was made; 0
        while it is called ready."""
        if is_ready(pod):
            return 0.0
        changes = [
            one.get("lastTransitionTime")
            for one in pod.get("status", {}).get("conditions", ())
            if one["type"] == "Ready"
        ]
        since = [when(change) for change in changes if change]
        return (self.now - max(since)).total_seconds() if since else self.age(pod)


def secret_data(secret: Object) -> Data:
    return {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}


def make_secret(metadata: Mapping[str, Any], data: Data) -> Object:
    encoded = {key: b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": dict(metadata), "type": "Opaque", "data": encoded}


def when(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def is_leaving(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def is_ready(pod: Object | None) -> bool:
    if pod is None or is_leaving(pod):
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def address(pod: Object | None) -> str | None:
    """Return where it is reached; None while it is nowhere, or on its way out."""
    if pod is None or pod.get("status", {}).get("phase") != "Running":
        return None
    return str(pod["status"].get("podIP", "")) or None


def template_of(found: Object | None) -> str:
    """Return the hash of the template that a pod was made with, or that a StatefulSet has."""
    if found is None:
        return ""
    return mark_of(found["spec"]["template"] if found["kind"] == "StatefulSet" else found)


def container(pod: Object, name: str) -> Object:
    """Return the status of the container of that name; {} while there is none.

    Kubelets sort statuses by name, and whoever may change pods can put another container beside the engine's: so it is
    found by its name and not by its place.
    """
    statuses: list[Object] = pod.get("status", {}).get("containerStatuses") or []
    return next((status for status in statuses if status["name"] == name), {})


def last_words(pod: Object, name: str) -> str:
    """Return what its container of that name said when it last ended."""
    status = container(pod, name)
    ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated") or {}
    return str(ended.get("message", ""))


def is_crashing(pod: Object, name: str) -> bool:
    """Tell whether its container of that name was started again and again and does not stay."""
    status = container(pod, name)
    gone = "running" not in status.get("state", {})
    return gone and int(status.get("restartCount", 0)) + 1 >= CRASHES


def is_unscheduled(pod: Object) -> bool:
    """Tell whether the scheduler found no node for it."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def why_not_started(pod: Object, name: str) -> str:
    """Say why its container of that name does not run, as the scheduler or the kubelet has it; "" when it runs."""
    for one in pod.get("status", {}).get("conditions", ()):
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return f"it is not scheduled: {one.get('message', one.get('reason', ''))}"
    waiting = container(pod, name).get("state", {}).get("waiting") or {}
    reason = waiting.get("reason", "")
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return ""
    if reason == "CrashLoopBackOff":
        times = count_noun(container(pod, name).get("restartCount", 0), "time")
        return f"its container ended {times}: {_last_line(last_words(pod, name))}"
    return f"{reason}: {waiting_message(waiting)}"


def cannot_start(pod: Object, name: str) -> bool:
    """Tell whether it does not start, and has not for a while: its image is not to be had, or its container ends each
    time."""
    return _waits_for(pod, name) in HOPELESS | PULLING or is_crashing(pod, name)


def never_starts(pod: Object, name: str) -> bool:
    """Tell whether waiting will not help."""
    return cannot_start(pod, name) and _waits_for(pod, name) not in PULLING


def _waits_for(pod: Object, name: str) -> str:
    return str((container(pod, name).get("state", {}).get("waiting") or {}).get("reason", ""))


def complaints(log: str) -> str:
    """Return what of the last lines of a log says why it ended: errors in JSON as most engines write it, or a panic."""
    found = []
    for line in log.splitlines():
        if re.search(r'"level":"(error|fatal|panic|dpanic)"', line):
            said = [re.search(rf'"{field}":"((?:[^"\\]|\\.)*)"', line) for field in ("msg", "error")]
            found.append(": ".join(one[1].replace('\\"', '"') for one in said if one))
        elif re.match(r"(panic|fatal error|runtime error|error|Error)\b", line):
            found.append(line)
    return "; ".join(found[-2:])[:400]


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    said = complaints(log) or (lines[-1][:300] if lines else "")
    return quote_output(said) if said else "it said nothing"
