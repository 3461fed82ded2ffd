"""Discovery of engines in the StatefulSets of a namespace, whose members are asked who they are.

Read-only: lists, gets, and the engine's own client run beside members, which only asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.apps.registry import usable_drivers
from fleet.errors import AccessError, FleetError
from fleet.kit.adoption.discovery import Candidate, Discovery, Question, RoleDiscovery
from fleet.kit.adoption.surroundings import Surroundings
from fleet.kit.driver import Problem
from fleet.kube.client.client import Client
from fleet.kube.exec import Command, execute
from fleet.kube.objects import ObjectScope, pages
from fleet.objects.resource import Resource

Object = dict[str, Any]
SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", True)
SURROUNDING_RESOURCES = {
    "pods": Resource("", "v1", "Pod", "pods", True),
    "services": Resource("", "v1", "Service", "services", True),
    "claims": Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True),
    "budgets": Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    "cron_jobs": Resource("batch", "v1", "CronJob", "cronjobs", True),
    "sets": SETS,
}
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
QUESTION_SECONDS = 20.0  # for one question


@dataclass(frozen=True, slots=True)
class AdoptionFinding:
    """One StatefulSet: the app that it could be, or why it cannot. Without an engine it is unknown what it runs."""

    namespace: str
    name: str
    engine: str = ""
    sign: str = ""
    candidate: Candidate | None = None
    problem: Problem | None = None
    role: str = ""  # of its pods, if it is a part of an app: the StatefulSet of the first role stands for all


async def find_engines(client: Client, namespace: str, labels: str = "") -> list[AdoptionFinding]:
    """Judge every StatefulSet of the namespace ("": of all), or those that the labels select."""
    stateful_sets = [obj async for page in pages(client, ObjectScope(SETS, namespace, labels)) for obj in page["items"]]
    by_namespace: dict[str, list[Object]] = {}
    for stateful_set in stateful_sets:
        by_namespace.setdefault(stateful_set["metadata"]["namespace"], []).append(stateful_set)
    findings: list[AdoptionFinding] = []
    for namespace_name, sets in sorted(by_namespace.items()):
        surroundings = await _read_surroundings(client, namespace_name)
        judged = await asyncio.gather(*(_judge(client, stateful_set, surroundings) for stateful_set in sets))
        findings += leave_out_parts(judged)
    return _refuse_split_clusters(findings)


def leave_out_parts(findings: Sequence[AdoptionFinding]) -> list[AdoptionFinding]:
    """Return the findings without StatefulSets that are a part of another one's app; of no app they are a problem."""
    apps = [finding for finding in findings if finding.candidate is not None]
    parts = {name for finding in apps if finding.candidate for name in finding.candidate.stateful_sets.values()}
    return [finding for finding in findings if not (finding.role and finding.name in parts)]


def _refuse_split_clusters(findings: Sequence[AdoptionFinding]) -> list[AdoptionFinding]:
    """Refuse candidates for one app in two StatefulSets: they are members of one cluster, and none can be it."""
    sets_by_identity: dict[str, list[str]] = {}
    for finding in findings:
        if finding.candidate:
            sets_by_identity.setdefault(finding.candidate.identity, []).append(f"{finding.namespace}/{finding.name}")
    judged = []
    for finding in findings:
        sets = sets_by_identity.get(finding.candidate.identity, []) if finding.candidate else []
        if len(sets) > 1:
            message = f"{' and '.join(sets)} are members of one cluster: there are two candidates for one app"
            judged.append(
                AdoptionFinding(
                    finding.namespace, finding.name, finding.engine, finding.sign, problem=Problem("identity", message)
                )
            )
        else:
            judged.append(finding)
    return judged


async def _read_surroundings(client: Client, namespace: str) -> Surroundings:
    """Read the objects beside the StatefulSets; kinds that may not be read are left out and named."""
    unseen: list[str] = []

    async def every(resource: Resource) -> list[Object]:
        try:
            return [obj async for page in pages(client, ObjectScope(resource, namespace)) for obj in page["items"]]
        except AccessError:
            unseen.append(resource.plural)
            return []

    names = list(SURROUNDING_RESOURCES)
    lists = await asyncio.gather(*(every(SURROUNDING_RESOURCES[name]) for name in names))
    config_maps = {obj["metadata"]["name"]: obj.get("data") or {} for obj in await every(CONFIG_MAPS)}

    def find(kind: str, name: str) -> Mapping[str, str] | None:
        """Return the data of a ConfigMap. Secrets are not read: what is known of them needs no content."""
        return config_maps.get(name) if kind == "ConfigMap" else None

    return Surroundings(**dict(zip(names, lists, strict=True)), find=find, unseen=tuple(sorted(unseen)))


async def _judge(client: Client, stateful_set: Object, surroundings: Surroundings) -> AdoptionFinding:
    """Judge one StatefulSet. An unforeseen error is a problem of its own: the others are described all the same."""
    try:
        return await _recognise(client, stateful_set, surroundings)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        metadata, message = stateful_set["metadata"], f"it cannot be read: {type(error).__name__}: {error}"
        return AdoptionFinding(metadata["namespace"], metadata["name"], problem=Problem("engine", message))


async def _recognise(client: Client, stateful_set: Object, surroundings: Surroundings) -> AdoptionFinding:
    metadata = stateful_set["metadata"]
    for driver in usable_drivers():
        discovery = driver.discovery()
        sign = discovery.recognises(stateful_set, surroundings.find) if discovery else None
        if discovery is not None and sign is not None:
            role = discovery.role_of(stateful_set, surroundings.find) if isinstance(discovery, RoleDiscovery) else ""
            if role:
                alone = Problem("roles", f"its pods are {role} of {driver.meta.name}, and no such app is beside them")
                return AdoptionFinding(
                    metadata["namespace"], metadata["name"], discovery.engine, sign, problem=alone, role=role
                )
            judged = await _ask_members(client, stateful_set, surroundings, discovery)
            problem = judged if isinstance(judged, Problem) else None
            candidate = judged if isinstance(judged, Candidate) else None
            return AdoptionFinding(metadata["namespace"], metadata["name"], discovery.engine, sign, candidate, problem)
    engines = ", ".join(driver.meta.name for driver in usable_drivers() if driver.discovery())
    return AdoptionFinding(
        metadata["namespace"], metadata["name"], problem=Problem("engine", f"no process is one of: {engines}")
    )


async def _ask_members(
    client: Client, stateful_set: Object, surroundings: Surroundings, discovery: Discovery
) -> Candidate | Problem:
    questions = discovery.questions(stateful_set, surroundings.find)
    if isinstance(questions, Problem):
        return _add_unseen(questions, surroundings)
    pods = [pod for pod in surroundings.pods if _owner(pod) == stateful_set["metadata"]["uid"] and _is_running(pod)]
    names = [str(pod["metadata"]["name"]) for pod in pods]
    outcomes = await asyncio.gather(*(_run_questions(client, pod, questions) for pod in pods), return_exceptions=True)
    answers: dict[str, Sequence[str]] = {}
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, AccessError):
            return Problem(
                "rights", f"its members cannot be asked: {outcome.message}", "you need the right to exec in its pods"
            )
        if isinstance(outcome, FleetError | TimeoutError):
            return Problem("protocol", f"{name} does not answer: {outcome}")
        if isinstance(outcome, BaseException):
            raise outcome
        answers[name] = outcome
    judged = discovery.understands(stateful_set, surroundings, answers)
    return _add_unseen(judged, surroundings) if isinstance(judged, Problem) else judged


def _add_unseen(problem: Problem, surroundings: Surroundings) -> Problem:
    if not surroundings.unseen:
        return problem
    return Problem(problem.field, problem.message, problem.hint or f"you may not see: {', '.join(surroundings.unseen)}")


async def _run_questions(client: Client, pod: Object, questions: Sequence[Question]) -> Sequence[str]:
    metadata, answers = pod["metadata"], []
    for question in questions:
        stdout, stderr = bytearray(), bytearray()
        argv = [argument.replace("{pod}", metadata["name"]) for argument in question.argv]
        command = Command(metadata["namespace"], metadata["name"], question.container, argv)
        async with asyncio.timeout(QUESTION_SECONDS):
            code = await execute(client, command, out=stdout.extend, err=stderr.extend)
        answers.append((stdout if code == 0 else stderr).decode(errors="replace"))
    return answers


def _is_running(pod: Object) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"])


def _owner(obj: Object) -> str:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")
