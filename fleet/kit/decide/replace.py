"""Members whose data is lost for certain are taken out, and come back as new ones with empty volumes. Pure.

The evidence is the engine's (`Answers.corrupt`) or Kubernetes' (a volume that is gone), and never silence alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fleet.kit.decide.health import find_lost_volume
from fleet.kit.decide.join import mark_spoiled
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.step import Act, Decision, State, Step, blocked, step
from fleet.model.app import App

A = TypeVar("A", bound=App)


def find_corrupt(observation: Observation[A], answers: Answers[A], pod: str) -> str | None:
    """Say why the data of a settled or joining member is of no use for certain; None while there is any doubt."""
    return answers.corrupt(observation, pod) or find_lost_volume(observation, pod)


def replace_member(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Take out the first member whose data is lost for certain; None when there is none."""
    for pod in observation.recorded_pods:
        reason = find_corrupt(observation, answers, pod)
        if reason is None or not _is_the_member_that_was(observation, pod):
            continue
        if not can_be_replaced(observation, answers, pod):
            return blocked("CannotReplace", f"{pod} must be replaced ({reason}), but the others are no majority")
        if (taken_out := replacement(observation, answers, pod, reason)) is not None:
            return step(State.DEGRADED, "Replacing", f"{pod} is replaced: {reason}", taken_out)
    return None


def replacement(observation: Observation[A], answers: Answers[A], pod: str, reason: str) -> Step | None:
    """Return the step that takes a member out so that it comes back as a new one; None if it is out already."""
    if observation.role.joining != "announced" and not observation.records[pod].spoiled:
        # Noted before it is taken out: it may come back by itself, and then nothing says what its data is worth
        return mark_spoiled(observation, answers, pod, f"is replaced: {reason}")
    if pod not in observation.members or "drain" not in answers.acts:
        return None  # it comes back as a new one
    drain = {"member": observation.members[pod], "pod": pod}
    return Act("drain", drain, "MemberReplaced", f"{pod} is replaced: {reason}")


def refuse_to_replace(
    observation: Observation[A], answers: Answers[A], as_others_had_them: Sequence[str]
) -> Decision | None:
    """Say that members must be replaced that are still as others set them up: a new one would be made so, too."""
    reasons = {pod: find_corrupt(observation, answers, pod) for pod in as_others_had_them}
    lost = "; ".join(f"{pod}: {reason}" for pod, reason in reasons.items() if reason is not None)
    if not lost:
        return None
    return blocked("CannotReplace", f"{lost}. Members that others set up cannot be replaced before their first roll")


def _is_the_member_that_was(observation: Observation[A], pod: str) -> bool:
    """Tell whether it is the member of the record: what the pod of a new one said before does not count."""
    record = observation.records[pod]
    if observation.role.joining != "announced":
        return record.phase == "settled"
    agreement = observation.agreement
    if agreement is None or pod not in agreement.members or pod in agreement.expected:
        return False
    return agreement.members[pod] == record.member


def can_be_replaced(observation: Observation[A], answers: Answers[A], pod: str) -> bool:
    """Tell whether the others go on without it. Those that are to be replaced themselves count for nothing.

    While engines call every member unhealthy for one of them, and kubelets all pods unready for it, what members say of
    themselves counts.
    """
    if observation.role.quorum != "majority" or pod in observation.learners:
        return True
    if not answers.calls_all_unready(observation):
        return observation.is_majority_without(pod)
    others = [one for one in observation.voters if one != pod]
    others = [one for one in others if observation.is_in_step(one) and observation.pod_stays(one)]
    sound = [one for one in others if find_corrupt(observation, answers, one) is None]
    return len(sound) > len(observation.voters) // 2
