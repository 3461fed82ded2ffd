"""What is said of a decision to people: what was observed, which concern decided, and who or what is waited for.

It is plain data, made where the observation is, by the operator or in a replay; the command line only shows it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.kit.decide.health import describe
from fleet.kit.observe.observation import Observation, in_order
from fleet.kit.operate.record import mark_content
from fleet.kit.order import Concern
from fleet.kit.step import Act, Annotate, Apply, Decision, Delete, Revert, SetStatus, State, Step, Take

ABOUT = {
    Concern.ADOPTION: "taking over what runs already",
    Concern.FOUNDING: "the first start of its members",
    Concern.IDENTITY: "whether all members are of one cluster",
    Concern.RECOVERY: "the end of a recovery that was begun",
    Concern.STAFF: "pods for all members that stay",
    Concern.ROLLBACK: "the way back from a change with which members do not come back",
    Concern.REVIVAL: "members that cannot start as they are",
    Concern.QUORUM: "whether those whose word counts can be asked",
    Concern.CORRUPTION: "members whose data is corrupt",
    Concern.SPACE: "space for data",
    Concern.REPAIR: "members that are lost for certain",
    Concern.LEAVING: "members that leave",
    Concern.JOINING: "members that join",
    Concern.TIDYING: "what is left over",
    Concern.OPERATIONS: "what people asked for",
    Concern.VOLUMES: "the size of volumes",
    Concern.CREDENTIALS: "the users of members and their passwords",
    Concern.SETTINGS: "settings that members take while they run",
    Concern.SCALE: "the number of members",
    Concern.ROLL: "the configuration and version of members",
    Concern.HEALTH: "members that are not well",
}
PUBLIC_ARGUMENTS = ("pod", "member", "user")  # of requests to the engine; others may be anything, also a password


def explain(observation: Observation[Any], concern: Concern | None, decision: Decision) -> dict[str, Any]:
    """Return what is said of a decision. `concern` is the one that decided; None if all were satisfied."""
    roles = list(observation.roles)
    asked = list(Concern)[: list(Concern).index(concern)] if concern is not None else list(Concern)
    ledger = observation.ledger
    return {
        "members": [_describe_member(role, pod) for role in roles for pod in _pods(role)],
        "agreed": None if observation.agreement is None else in_order(observation.members),
        "strangers": list(observation.strangers),
        "identity": ledger.identity if ledger is not None else "",
        "wanted": sum(role.role.count for role in roles),
        "paused": bool(observation.app.paused),
        "barred": [str(problem) for problem in observation.barred],
        "concern": concern.name if concern is not None else "",
        "about": ABOUT[concern] if concern is not None else "all concerns are satisfied",
        "satisfied": [one.name for one in asked],
        "waits": [{"name": name, "why": why} for name, why in _list_waits(roles, decision)],
    }


def describe_step(step: Step) -> dict[str, Any]:
    """Return a step in short. Of an object that is made it has a mark that tells whether another one is the same."""
    more = {"reason": step.reason, "note": step.note}
    match step:
        case Apply(manifest=manifest):
            return {"verb": "apply", "object": _name(manifest), "mark": mark_content(manifest), **more}
        case Delete(object=found):
            return {"verb": "delete", "object": _name(found), "mark": "", **more}
        case Revert(stateful_set=found):
            return {"verb": "revert", "object": _name(found), "mark": "", **more}
        case Take(object=found, manifest=manifest):
            return {"verb": "take", "object": _name(found), "mark": mark_content(manifest or {}), **more}
        case Act(what=what, arguments=arguments):
            named = [str(arguments[name]) for name in PUBLIC_ARGUMENTS if name in arguments]
            return {"verb": "ask", "object": " ".join([what, *named]), "mark": "", **more}
        case Annotate(annotations=annotations):
            return {
                "verb": "annotate",
                "object": " ".join(annotations),
                "mark": mark_content(dict(annotations)),
                **more,
            }
        case SetStatus(object=found, status=status):
            return {"verb": "report", "object": _name(found), "mark": str(status.get("phase", "")), **more}


def describe_decision(decision: Decision) -> dict[str, Any]:
    """Return a decision as records have it."""
    return {
        "state": decision.state.value,
        "reason": decision.reason,
        "message": decision.message,
        "after": decision.after,
        "steps": [describe_step(step) for step in decision.steps],
    }


def _name(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _pods(role: Observation[Any]) -> list[str]:
    return in_order({*role.pods, *role.recorded_pods, *role.members})


def _describe_member(role: Observation[Any], pod: str) -> dict[str, Any]:
    state, record = role.states.get(pod), role.records.get(pod)
    well = role.is_healthy(pod)
    return {
        "pod": pod,
        "role": state.role if state is not None else "",
        "version": state.version if state is not None else "",
        "phase": record.phase if record is not None else "",
        "answers": state is not None,
        "well": well,
        "says": "in step" if well else describe(role, pod),
    }


def _list_waits(roles: list[Observation[Any]], decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield by name who or what is waited for; nothing while there are steps to take, or nothing is left to do."""
    if decision.state is State.BLOCKED:
        yield "a person", decision.message
        return
    if decision.steps or decision.state is State.OK:
        return
    unwell = [(pod, describe(role, pod)) for role in roles for pod in _pods(role) if not role.is_healthy(pod)]
    yield from unwell
    if roles[0].role.quorum != "none" and roles[0].agreement is None:
        yield "a majority of members", "nobody whose word counts could be asked who the members are"
    elif not unwell:
        yield "the cluster", decision.message
