"""What each verb of an Operation needs before it begins, and what it does next. Pure.

Nothing is remembered but the Operation's status: what was there when it began, by which its effect is known when it is
observed. So each move may be repeated, and an operator that died in between finds out what is left to do.

An objection that a person has to settle refuses an operation; what passes by itself is waited for. None of them can be
overruled by an Operation: git alone overrules, since git is where it is decided what an app may lose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from fleet.kit.adoption.convergence import as_found
from fleet.kit.decide.health import describe, describe_pods
from fleet.kit.decide.replace import can_be_replaced, replacement
from fleet.kit.decide.roll import find_objections
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import Object, is_leaving
from fleet.kit.operations.operation import Operation, OperationProgress, OperationSpec, Phase, Verb
from fleet.kit.status import LastBackup
from fleet.kit.step import Act, Delete, Step
from fleet.kit.workload.roll import under_way
from fleet.kit.workload.stateful_set import partition_of, updates_on_delete
from fleet.model.app import App

A = TypeVar("A", bound=App)


@dataclass(frozen=True, slots=True)
class OperationObjection:
    """What speaks against an operation now. `passes`: it may settle by itself, so it is waited for."""

    name: str
    message: str
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of an operation in a reconcile: the steps to take, what is remembered of them, what is said."""

    message: str
    phase: Phase = "Running"
    reason: str = ""
    steps: tuple[Step, ...] = ()
    progress: OperationProgress | None = None  # None: as it was
    objections: tuple[str, ...] = ()  # by name: what it is refused for, or waits for
    backup: LastBackup | None = None


def done(message: str, backup: LastBackup | None = None) -> Move:
    return Move(message, "Succeeded", "Done", backup=backup)


def failed(reason: str, message: str) -> Move:
    return Move(message, "Failed", reason)


def list_verbs(answers: Answers[A]) -> frozenset[Verb]:
    """Return what can be asked of an app of this type: it follows from what its engine can do."""
    verbs: set[Verb] = {"roll", "restart"}
    if "lead" in answers.acts:
        verbs.add("switchover")
    if "drain" in answers.acts and answers.app_type.quorum == "majority":
        verbs.add("rebuild")
    if "defragment" in answers.acts:
        verbs.add("defragment")
    if answers.app_type.caps.backup:
        verbs.add("backup")
    return frozenset(verbs)


def find_role(observation: Observation[A], pod: str | None) -> Observation[A] | None:
    """Return the role that has a pod; the one that has a leader, else the first, if none is named."""
    if pod is not None:
        return next((role for role in observation.roles if pod in role.pods), None)
    return next((role for role in observation.roles if role.leader is not None), observation)


def wait_for_others(role: Observation[A], besides: str = "") -> list[OperationObjection]:
    """Return the members that are not well, one excepted, and a roll that is under way."""
    unwell = [pod for pod in role.unwell_pods if pod != besides]
    objections = [OperationObjection("members-unwell", describe_pods(role, unwell), passes=True)] if unwell else []
    found = role.stateful_set
    if found is not None and is_rolling(found):
        objections.append(OperationObjection("roll-under-way", "members restart for something else", passes=True))
    return objections


def is_rolling(found: Object) -> bool:
    """Tell whether pods of a StatefulSet are being made anew. Those that are held are not, whatever its revisions are:
    others may have left pods behind with the template of before."""
    is_held = updates_on_delete(found) or partition_of(found) >= int(found["spec"].get("replicas", 1))
    return under_way(found) and not is_held


def wait_for_all(observation: Observation[A]) -> list[OperationObjection]:
    return [objection for role in observation.roles for objection in wait_for_others(role)]


def stop_objections(role: Observation[A], answers: Answers[A], pod: str) -> list[OperationObjection]:
    """Return why a member must not be stopped; nothing where it is the only one: there is no other time for it."""
    if len(role.pods) < 2:
        return []
    return [OperationObjection(found.name, found.message) for found in find_objections(role, answers, pod)]


def hand_over(role: Observation[A], answers: Answers[A], pod: str) -> Act | None:
    """Return the request that has another member lead before this one stops; None where that is not needed."""
    others = [other for other in role.healthy_pods if other != pod]
    if role.leader != pod or not others or "lead" not in answers.acts:
        return None
    return Act("lead", {"pod": others[0]}, "LeaderMoved", f"{others[0]} takes over before {pod} stops")


# A switchover


def object_to_switchover(observation: Observation[A], spec: OperationSpec) -> list[OperationObjection]:
    role = find_role(observation, spec.to)
    if role is None:
        return [no_member(observation, str(spec.to))]
    if len(role.pods) < 2:
        return [OperationObjection("one-member", "there is no other member that could lead")]
    if spec.to is not None and spec.to in role.learners:
        return [OperationObjection("no-vote", f"{spec.to} has no vote, so it cannot lead", passes=True)]
    if role.leader is None:
        return [OperationObjection("no-leader", "no member says that it leads", passes=True)]
    return wait_for_all(observation)


def begin_switchover(observation: Observation[A], spec: OperationSpec) -> OperationProgress | Move:
    role = find_role(observation, spec.to) or observation
    if role.leader is not None and role.leader == spec.to:
        return done(f"{spec.to} leads already")
    others = [pod for pod in role.healthy_pods if pod != role.leader]
    target = spec.to or (others[0] if others else "")
    if not target:
        return Move("it waits: no other member is well", "Pending", "Waiting", objections=("members-unwell",))
    return OperationProgress(before=role.leader or "", target=target)


def switch_over(observation: Observation[A], operation: Operation, spec: OperationSpec) -> Move:
    progress = operation.progress
    role = find_role(observation, progress.target) or observation
    is_moved = role.leader is not None and role.leader != progress.before
    if role.leader == progress.target or (is_moved and spec.to is None):
        return done(f"{role.leader} leads, after {progress.before}")
    if role.leader is None or not role.is_healthy(progress.target):
        return Move(f"{progress.target} is to lead: {describe(role, progress.target)}")
    note = f"{progress.target} takes over from {role.leader}: a person asked for it"
    return Move(note, steps=(Act("lead", {"pod": progress.target}, "LeaderMoved", note),))


# A restart of one member


def object_to_restart(
    observation: Observation[A], answers: Answers[A], spec: OperationSpec
) -> list[OperationObjection]:
    pod = str(spec.member)
    role = find_role(observation, pod)
    if role is None:
        return [no_member(observation, pod)]
    return stop_objections(role, answers, pod) or wait_for_others(role, pod)


def begin_restart(observation: Observation[A], spec: OperationSpec) -> OperationProgress:
    found = observation.world.pod(str(spec.member))
    return OperationProgress(before=str(found["metadata"]["uid"]) if found is not None else "none")


def restart(observation: Observation[A], answers: Answers[A], operation: Operation, spec: OperationSpec) -> Move:
    pod = str(spec.member)
    role, found = find_role(observation, pod), observation.world.pod(pod)
    if role is None:
        return failed("NoMember", f"{pod} is no member any more")
    if found is not None and found["metadata"]["uid"] == operation.progress.before and not is_leaving(found):
        if objections := stop_objections(role, answers, pod):
            return Move(f"{pod} cannot be stopped now: {objections[0].message}")
        if (handing := hand_over(role, answers, pod)) is not None:
            return Move(handing.note, steps=(handing,))
        note = f"{pod} restarts: a person asked for it"
        return Move(note, steps=(Delete(found, "Restarting", note),))
    if found is not None and not is_leaving(found) and role.is_healthy(pod):
        return done(f"{pod} was restarted")
    return Move(f"{pod} restarts: {describe(role, pod)}")


# A member with an empty volume and its data from the others


def object_to_rebuild(
    observation: Observation[A], answers: Answers[A], spec: OperationSpec
) -> list[OperationObjection]:
    pod = str(spec.member)
    role = find_role(observation, pod)
    if role is None:
        return [no_member(observation, pod)]
    if as_found(role):
        words = "others set it up, and a member that joins needs what the first roll brings"
        return [OperationObjection("as-found", words)]
    if pod not in role.members or pod not in role.records:
        return [OperationObjection("joining", f"{pod} is not on the list of members", passes=True)]
    if len(role.pods) < 2 or not can_be_replaced(role, answers, pod):
        return [
            OperationObjection(
                "no-majority", f"without {pod} the others are no majority, and nobody has its data for certain"
            )
        ]
    return stop_objections(role, answers, pod) or wait_for_others(role, pod)


def begin_rebuild(observation: Observation[A], spec: OperationSpec) -> OperationProgress:
    pod = str(spec.member)
    return OperationProgress(before=_identity(find_role(observation, pod) or observation, pod))


def rebuild(observation: Observation[A], answers: Answers[A], operation: Operation, spec: OperationSpec) -> Move:
    pod = str(spec.member)
    role = find_role(observation, pod)
    if role is None:
        return failed("NoMember", f"{pod} is no member any more")
    if _identity(role, pod) != operation.progress.before:
        if role.is_healthy(pod):
            return done(f"{pod} has its data anew from the others")
        return Move(f"{pod} gets its data from the others: {describe(role, pod)}")
    objections = stop_objections(role, answers, pod)
    if objections or not can_be_replaced(role, answers, pod):
        why = objections[0].message if objections else "the others are no majority"
        return Move(f"{pod} cannot be replaced now: {why}")
    if (handing := hand_over(role, answers, pod)) is not None:
        return Move(handing.note, steps=(handing,))
    step = replacement(role, answers, pod, "a person asked for it")
    return Move(f"{pod} is replaced", steps=(step,) if step is not None else ())


def _identity(role: Observation[A], pod: str) -> str:
    """Return what is another one when a member has come back as a new one: the engine's id where it is announced as a
    new member, else its volume."""
    if role.role.joining == "announced":
        return role.members.get(pod, "")
    claim = role.claim_of(pod)
    return str(claim["metadata"]["uid"]) if claim is not None else ""


# Files made smaller


def defragment(observation: Observation[A], answers: Answers[A], operation: Operation) -> Move:
    through = operation.progress.done
    left = [(role, pod) for role in observation.roles for pod in role.pods if pod not in through]
    if not left:
        return done(f"the files of {len(through)} members were made smaller")
    role, pod = min(left, key=lambda found: found[1] == found[0].leader)  # the one that leads comes last
    words = f"{len(through)} of {len(through) + len(left)} members are through"
    if objections := (wait_for_all(observation) or stop_objections(role, answers, pod)):
        return Move(f"{words}; {pod} is next: {objections[0].message}")
    if (handing := hand_over(role, answers, pod)) is not None:
        return Move(handing.note, steps=(handing,))
    note = f"the file of {pod} is made smaller; it answers nothing meanwhile"
    after = replace(operation.progress, done=(*through, pod))
    return Move(f"{words}; {note}", steps=(Act("defragment", {"pod": pod}, "Defragmented", note),), progress=after)


def no_member(observation: Observation[A], pod: str) -> OperationObjection:
    pods = [known for role in observation.roles for known in role.pods]
    return OperationObjection("no-such-member", f"{pod} is no member of {observation.app.name}: {', '.join(pods)} are")
