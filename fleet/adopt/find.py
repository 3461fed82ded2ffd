"""Looks for engines in StatefulSets of a namespace, and asks their members who they are. Read-only: lists, gets, and
the engine's own client run beside members, which only asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.apps.discovery import Candidate, Discovery, Question, Surroundings
from fleet.apps.driver import Problem
from fleet.apps.registry import drivers
from fleet.errors import AccessError, FleetError
from fleet.kube.client.client import Client
from fleet.kube.discovery import Resource
from fleet.kube.exec import Command, execute
from fleet.kube.objects import Scope, pages

Object = dict[str, Any]
SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", True)
AROUND = {
    "pods": Resource("", "v1", "Pod", "pods", True),
    "services": Resource("", "v1", "Service", "services", True),
    "claims": Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True),
    "budgets": Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    "cron_jobs": Resource("batch", "v1", "CronJob", "cronjobs", True),
}
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
SECONDS = 20.0  # for one question


@dataclass(frozen=True, slots=True)
class Finding:
    """One StatefulSet: the app that it could be, or why it cannot. No engine: nobody knows what it runs."""

    namespace: str
    name: str
    engine: str = ""
    sign: str = ""
    candidate: Candidate | None = None
    problem: Problem | None = None


async def look(client: Client, namespace: str, labels: str = "") -> list[Finding]:
    """Every StatefulSet of the namespace ("": of all), or those that the labels select."""
    found = [one async for page in pages(client, Scope(SETS, namespace, labels)) for one in page["items"]]
    by_namespace: dict[str, list[Object]] = {}
    for one in found:
        by_namespace.setdefault(one["metadata"]["namespace"], []).append(one)
    findings: list[Finding] = []
    for where, sets in sorted(by_namespace.items()):
        around = await _around(client, where)
        findings += await asyncio.gather(*(_judge(client, one, around) for one in sets))
    return _apart(findings)


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Members of one cluster in two StatefulSets are candidates for one app, and none of them can be it."""
    whose: dict[str, list[str]] = {}
    for one in findings:
        if one.candidate:
            whose.setdefault(one.candidate.identity, []).append(f"{one.namespace}/{one.name}")
    judged = []
    for one in findings:
        sets = whose.get(one.candidate.identity, []) if one.candidate else []
        if len(sets) > 1:
            told = f"{' and '.join(sets)} are members of one cluster: there are two candidates for one app"
            judged.append(Finding(one.namespace, one.name, one.engine, one.sign, problem=Problem("identity", told)))
        else:
            judged.append(one)
    return judged


async def _around(client: Client, namespace: str) -> Surroundings:
    """What may not be seen is left out and named."""
    unseen: list[str] = []

    async def every(resource: Resource) -> list[Object]:
        try:
            return [one async for page in pages(client, Scope(resource, namespace)) for one in page["items"]]
        except AccessError:
            unseen.append(resource.plural)
            return []

    names = list(AROUND)
    lists = await asyncio.gather(*(every(AROUND[name]) for name in names))
    held = {one["metadata"]["name"]: one.get("data") or {} for one in await every(CONFIG_MAPS)}

    def find(kind: str, name: str) -> Mapping[str, str] | None:
        """Secrets are not read: where they are is known without."""
        return held.get(name) if kind == "ConfigMap" else None

    return Surroundings(**dict(zip(names, lists, strict=True)), find=find, unseen=tuple(sorted(unseen)))


async def _judge(client: Client, found: Object, around: Surroundings) -> Finding:
    """One that nobody foresaw is a problem of its own: the others are described all the same."""
    try:
        return await _judged(client, found, around)
    except (ValueError, LookupError, TypeError, AttributeError) as odd:
        own, told = found["metadata"], f"it cannot be read: {type(odd).__name__}: {odd}"
        return Finding(own["namespace"], own["name"], problem=Problem("engine", told))


async def _judged(client: Client, found: Object, around: Surroundings) -> Finding:
    own = found["metadata"]
    for driver in drivers():
        discovery = driver.discovery()
        sign = discovery.recognises(found, around.find) if discovery else None
        if discovery is not None and sign is not None:
            judged = await _ask(client, found, around, discovery)
            problem = judged if isinstance(judged, Problem) else None
            candidate = judged if isinstance(judged, Candidate) else None
            return Finding(own["namespace"], own["name"], discovery.engine, sign, candidate, problem)
    known = ", ".join(driver.meta.name for driver in drivers() if driver.discovery())
    return Finding(own["namespace"], own["name"], problem=Problem("engine", f"no process is one of: {known}"))


async def _ask(client: Client, found: Object, around: Surroundings, discovery: Discovery) -> Candidate | Problem:
    questions = discovery.questions(found, around.find)
    if isinstance(questions, Problem):
        return _explained(questions, around)
    pods = [one for one in around.pods if _owner(one) == found["metadata"]["uid"] and _runs(one)]
    names = [str(pod["metadata"]["name"]) for pod in pods]
    answered = await asyncio.gather(*(_answers(client, pod, questions) for pod in pods), return_exceptions=True)
    answers: dict[str, Sequence[str]] = {}
    for name, one in zip(names, answered, strict=True):
        if isinstance(one, AccessError):
            return Problem(
                "rights", f"its members cannot be asked: {one.message}", "you need the right to exec in its pods"
            )
        if isinstance(one, FleetError | TimeoutError):
            return Problem("protocol", f"{name} does not answer: {one}")
        if isinstance(one, BaseException):
            raise one
        answers[name] = one
    judged = discovery.understands(found, around, answers)
    return _explained(judged, around) if isinstance(judged, Problem) else judged


def _explained(problem: Problem, around: Surroundings) -> Problem:
    if not around.unseen:
        return problem
    return Problem(problem.field, problem.message, problem.hint or f"you may not see: {', '.join(around.unseen)}")


async def _answers(client: Client, pod: Object, questions: Sequence[Question]) -> Sequence[str]:
    own, answers = pod["metadata"], []
    for one in questions:
        said, complaint = bytearray(), bytearray()
        argv = [word.replace("{pod}", own["name"]) for word in one.argv]
        command = Command(own["namespace"], own["name"], one.container, argv)
        async with asyncio.timeout(SECONDS):
            code = await execute(client, command, out=said.extend, err=complaint.extend)
        answers.append((said if code == 0 else complaint).decode(errors="replace"))
    return answers


def _runs(pod: Object) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"])


def _owner(found: Object) -> str:
    references = found["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in references if one.get("controller")), "")
