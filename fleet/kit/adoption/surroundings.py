"""What stands around a StatefulSet in its namespace: Services that lead to it, claims, and what others put beside it.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.kit.adoption.workload import Find
from fleet.model.app import App

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a StatefulSet in its namespace, as far as it may be seen."""

    pods: Sequence[Object] = ()
    services: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    budgets: Sequence[Object] = ()
    cron_jobs: Sequence[Object] = ()
    sets: Sequence[Object] = ()  # all StatefulSets of the namespace: an app may have several
    find: Find = lambda kind, name: None
    unseen: tuple[str, ...] = ()  # kinds that may not be looked at


def services_of(found: Object, around: Surroundings, ports: frozenset[int | str]) -> list[Object]:
    """Return services that lead to the pods of a StatefulSet on one of these ports; those with an address first."""
    labels = (found["spec"]["template"].get("metadata") or {}).get("labels") or {}
    leading = []
    for one in around.services:
        selector = one["spec"].get("selector") or {}
        targets = {port.get("targetPort", port["port"]) for port in one["spec"].get("ports") or ()}
        if selector and selector.items() <= labels.items() and targets & ports:
            leading.append(one)
    return sorted(leading, key=lambda one: (one["spec"].get("clusterIP") == "None", str(one["metadata"]["name"])))


def beside(found: Object, around: Surroundings, app: App) -> Iterator[str]:
    """Return what others put beside the members and stays theirs: budgets for their pods, CronJobs that speak
    to them."""
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


def whereabouts(found: Object, around: Surroundings) -> dict[str, str]:
    """Say on which nodes members run, and how large their claims are; without what may not be seen."""
    name = found["metadata"]["name"]
    templates = [one["metadata"]["name"] for one in found["spec"].get("volumeClaimTemplates") or ()]
    nodes = {
        str(one["metadata"]["name"]): str(one["spec"]["nodeName"])
        for one in around.pods
        if _is_numbered(one, [name]) and (one.get("spec") or {}).get("nodeName")
    }
    claims = {
        str(one["metadata"]["name"]): _size(one)
        for one in around.claims
        if _is_numbered(one, [f"{template}-{name}" for template in templates])
    }
    return {
        title: ", ".join(f"{one} {word} {what}" for one, what in sorted(told.items()))
        for title, word, told in (("nodes", "on", nodes), ("volumes", "of", claims))
        if told
    }


def _is_numbered(one: Object, names: list[str]) -> bool:
    begin, _, number = str(one["metadata"]["name"]).rpartition("-")
    return begin in names and number.isdecimal()


def _size(claim: Object) -> str:
    spec, status = claim["spec"], claim.get("status") or {}
    size = (status.get("capacity") or spec["resources"]["requests"])["storage"]
    return f"{size} {spec['storageClassName']}" if spec.get("storageClassName") else str(size)
