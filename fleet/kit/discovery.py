"""How a driver recognises its engine in what others set up, and describes it as an app: the part for discovery. Pure.

A driver that can take over has `discovery`. It says which container of a StatefulSet looks like its engine, what to ask
beside each member (the engine's own client, read-only), and what the answers mean: an app, or why there can be none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fleet.kit.driver import Problem
from fleet.kit.workload import Find
from fleet.model.app import App
from fleet.names import MANAGER, OPERATOR

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a StatefulSet in its namespace, as far as it may be seen."""

    pods: Sequence[Object] = ()
    services: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    budgets: Sequence[Object] = ()
    cron_jobs: Sequence[Object] = ()
    find: Find = lambda kind, name: None
    unseen: tuple[str, ...] = ()  # kinds that may not be looked at


@dataclass(frozen=True, slots=True)
class Question:
    """Run beside each member. What it prints is the answer; nothing is changed by it."""

    container: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    identity: str
    role: str
    version: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine that runs and could be an app. `app` describes it; `kept` names what no field of the app says."""

    app: App
    identity: str
    version: str
    members: tuple[Member, ...]
    facts: Mapping[str, str] = field(default_factory=dict)  # for people: configuration, credentials, topology
    kept: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()


class Discovery(Protocol):
    engine: str

    def recognises(self, found: Object, find: Find) -> str | None:
        """By which sign a StatefulSet looks like this engine; None if it does not."""

    def questions(self, found: Object, find: Find) -> Sequence[Question] | Problem:
        """What to ask beside each member."""

    def understands(
        self, found: Object, around: Surroundings, answers: Mapping[str, Sequence[str]]
    ) -> Candidate | Problem:
        """`answers`: by pod, in the order of the questions; a pod that could not be asked has none."""


def services_of(found: Object, around: Surroundings, ports: frozenset[int | str]) -> list[Object]:
    """Services that lead to the pods of a StatefulSet on one of these ports; those with an address first."""
    labels = (found["spec"]["template"].get("metadata") or {}).get("labels") or {}
    leading = []
    for one in around.services:
        selector = one["spec"].get("selector") or {}
        targets = {port.get("targetPort", port["port"]) for port in one["spec"].get("ports") or ()}
        if selector and selector.items() <= labels.items() and targets & ports:
            leading.append(one)
    return sorted(leading, key=lambda one: (one["spec"].get("clusterIP") == "None", str(one["metadata"]["name"])))


def beside(found: Object, around: Surroundings, app: App) -> Iterator[str]:
    """What others put beside the members and stays theirs: budgets for their pods, CronJobs that speak to them."""
    labels = (found["spec"]["template"].get("metadata") or {}).get("labels") or {}
    for one in around.budgets:
        selector = (one["spec"].get("selector") or {}).get("matchLabels") or {}
        if selector and selector.items() <= labels.items():
            yield f"PodDisruptionBudget {one['metadata']['name']}"
    hosts = {found["metadata"]["name"], found["spec"].get("serviceName"), app.connection.host.partition(".")[0]}
    for one in around.cron_jobs:
        words = re.findall(r"[-a-z0-9]+", str(one["spec"]["jobTemplate"]))
        if hosts & set(words):
            yield f"CronJob {one['metadata']['name']}, which speaks to it"


def claimed_by(found: Object, own: tuple[str, str] | None = None) -> str:
    """Who has it already by its labels, an app or a stack that applies it as a manifest; "" if nobody but the app `own`
    (name and kind). What a stack let go of still says whose it was: its label has to go first.
    """
    labels = found["metadata"].get("labels") or {}
    app, stack = labels.get("fleet.dev/app"), labels.get("fleet.dev/stack")
    if app is not None and (app, labels.get("fleet.dev/kind")) != own:
        return f"the app {app}"
    return f"the stack {stack}, as one of its manifests (label fleet.dev/stack)" if stack else ""


def is_updating(found: Object) -> bool:
    """Whether pods of a StatefulSet have two revisions, or its controller has not looked at the last change yet.

    Where pods are updated by whoever deletes them, only their count tells: what it calls its current revision stays.
    """
    status, spec = found.get("status") or {}, found["spec"]
    if not is_observed(found):
        return True
    if status.get("currentRevision") == status.get("updateRevision"):
        return False
    by_hand = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    return not (by_hand and status.get("updatedReplicas", 0) == spec.get("replicas", 1))


def is_observed(found: Object) -> bool:
    """Whether its controller knows of the last change: until then, what it says of revisions is of before."""
    generation = int(found["metadata"].get("generation", 0))
    return int((found.get("status") or {}).get("observedGeneration", generation)) >= generation


def template_managers(found: Object) -> tuple[str, ...]:
    """Return the field managers that own fields of the pod template, which the first roll changes."""
    entries = found["metadata"].get("managedFields") or ()
    return tuple(
        sorted(
            {
                str(entry["manager"])
                for entry in entries
                if "f:template" in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) and entry["manager"] != OPERATOR
            }
        )
    )


def managers_in_the_way(found: Object) -> tuple[str, ...]:
    """Field managers that own what taking over must change: how a StatefulSet updates its pods, and whether its claims
    go with it.
    """
    strategy = found["spec"].get("updateStrategy") or {}
    policy = found["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    named = []
    for entry in found["metadata"].get("managedFields") or ():
        if entry.get("subresource") or entry.get("manager") == OPERATOR:
            continue
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        owned = spec.get("f:updateStrategy") or {}
        keeps = spec.get("f:persistentVolumeClaimRetentionPolicy") or {}
        type_changes = "f:type" in owned and strategy.get("type") != "RollingUpdate"
        loses = [name for name, does in policy.items() if does == "Delete" and f"f:{name}" in keeps]
        if type_changes or loses or "f:partition" in (owned.get("f:rollingUpdate") or {}):
            named.append(str(entry["manager"]))
    return tuple(sorted(set(named)))


def spec_managers(found: Object) -> list[str]:
    """Return the names of those that manage more of an object than its status, fleet and its operator left out."""
    entries = found["metadata"].get("managedFields") or ()
    named = {str(entry.get("manager", "")) for entry in entries if not entry.get("subresource")}
    return sorted(named - {"", MANAGER, OPERATOR})
