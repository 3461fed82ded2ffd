"""A change of the pod template goes through the members one at a time, the one that leads last. Pure.

The StatefulSet's partition holds every pod at the template it was made with, also one that is evicted meanwhile. It is
lowered by one when all members are well, and raised again when all are through. A member that does not come back with
the new template stops everything: the template is taken back and not tried again until what is wanted changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.kit.observe.world import World, is_leaving, is_ready, never_starts, template_of, why_not_started
from fleet.kit.step import Act, Apply, Decision, Delete, Revert, State, step, wait
from fleet.kit.workload.stateful_set import changed, partition_of

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StopObjection:
    """Why a member must not be stopped now. By its name git can overrule it."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Rolling:
    """What the roll needs to know. `pods` in the order of their ordinals."""

    world: World
    found: Object  # the StatefulSet
    pods: list[str]
    container: str  # the name of the engine's container
    wanted: Object  # the template
    mark: str  # its hash
    what: str  # for people: "upgrade 3.4 → 3.5"
    healthy: Callable[[str], bool]
    leader: str | None
    objections: Callable[[str], Sequence[StopObjection]]  # why a member must not be stopped now
    patience: Callable[[str], float]  # seconds that a member has to come back: what it recovers takes its time
    waited: Callable[[str], float]  # seconds that it has been unwell with nothing to recover
    settling: Callable[[str], bool]  # not well only because the operator has just had its pod started
    before: Act | None = None  # a request to the engine before the first member gets the template

    def old(self) -> list[str]:
        """Return the pods that were not made with the StatefulSet's template, the highest ordinal first."""
        current = template_of(self.found)
        present = ((pod, self.world.pod(pod)) for pod in reversed(self.pods))
        return [pod for pod, found in present if found is not None and template_of(found) != current]

    def unwell(self) -> list[str]:
        return [pod for pod in self.pods if not self.healthy(pod)]


def broken(rolling: Rolling) -> str | None:
    """Say why the roll under way cannot go on, or None. Only pods with the new template are looked at.

    That the operator does not reach a member is no reason: its kubelet must call it unready, too.
    """
    for pod, found in waited_for(rolling):
        reason = why_not_started(found, rolling.container)
        if never_starts(found, rolling.container):
            return f"{pod} does not start with it: {reason or 'its container ends each time'}"
        patience = rolling.patience(pod)
        if rolling.waited(pod) > patience:
            why = f": {reason}" if reason else ""
            return f"{pod} is not well {patience / 60:.0f} minutes after its restart with it{why}"
    return None


def waited_for(rolling: Rolling) -> Iterator[tuple[str, Object]]:
    """Yield the pods with the new template of a roll under way whose members do not work yet."""
    current = template_of(rolling.found)
    for pod in rolling.pods if under_way(rolling.found) else ():
        found = rolling.world.pod(pod)
        if found is None or is_leaving(found) or template_of(found) != current or _works(rolling, pod, found):
            continue
        yield pod, found


def _works(rolling: Rolling, pod: str, found: Object) -> bool:
    """Tell whether it works, as far as anybody can tell."""
    return rolling.healthy(pod) or is_ready(found)


def under_way(found: Object) -> bool:
    status = found.get("status", {})
    return bool(status.get("currentRevision") != status.get("updateRevision"))


def take_back(rolling: Rolling, failed: str) -> Decision | None:
    """Take back the template that failed, then the pods that do not work with it; None when all of that is done."""
    if template_of(rolling.found) == failed:
        note = f"{rolling.what} failed; the members go back to what they had"
        return step(State.DEGRADED, "RollingBack", note, Revert(rolling.found, "RollingBack", note))
    for pod in rolling.pods:
        found = rolling.world.pod(pod)
        if found is None or is_leaving(found) or template_of(found) != failed or _works(rolling, pod, found):
            continue
        return step(State.DEGRADED, "RollingBack", f"{pod} goes back", Delete(found, "RollingBack", f"{pod} goes back"))
    return None


def advance(rolling: Rolling) -> Decision | None:
    """Return the next step of the roll; None when there is nothing to roll."""
    found, count = rolling.found, len(rolling.pods)
    message = f"{rolling.what}: {count - len(rolling.old())} of {count} members are through"
    if template_of(found) != rolling.mark:
        if rolling.unwell():
            state = State.PROGRESSING if all(map(rolling.settling, rolling.unwell())) else State.DEGRADED
            return wait(state, "Waiting", f"{rolling.what}: waits for {', '.join(rolling.unwell())}")
        manifest = changed(found, template=rolling.wanted, partition=count)
        return step(State.PROGRESSING, "Rolling", rolling.what, Apply(manifest, "Rolling", rolling.what))
    old = rolling.old()
    if not old:
        return _rest(rolling)
    if rolling.unwell():
        return wait(State.PROGRESSING, "Rolling", f"{message}; waits for {', '.join(rolling.unwell())}")
    following = old[0]
    if rolling.leader == following and count > 1:
        to = rolling.pods[0] if following != rolling.pods[0] else rolling.pods[1]
        return step(
            State.PROGRESSING,
            "Rolling",
            message,
            Act("lead", {"pod": to}, "LeaderMoved", f"{to} takes over before {following} restarts"),
        )
    if count > 1 and (objections := rolling.objections(following)):
        why = "; ".join(objection.message for objection in objections)
        return wait(State.DEGRADED, "Waiting", f"{message}; {following} cannot be stopped: {why}")
    ordinal = int(following.rpartition("-")[2])
    if partition_of(found) != ordinal:
        note = f"{following} restarts: {rolling.what}"
        return step(State.PROGRESSING, "Rolling", message, Apply(changed(found, partition=ordinal), "Restarting", note))
    return wait(State.PROGRESSING, "Rolling", f"{message}; {following} is next")


def _rest(rolling: Rolling) -> Decision | None:
    """Leave the StatefulSet at rest. All have the template: hold them there."""
    found, count = rolling.found, len(rolling.pods)
    if under_way(found):
        if partition_of(found):
            return step(State.PROGRESSING, "Rolling", "", Apply(changed(found, partition=0)))
        return wait(State.PROGRESSING, "Rolling", f"{rolling.what}: all members are through", 0.5)
    if partition_of(found) != count:
        return step(State.PROGRESSING, "Rolled", "", Apply(changed(found, partition=count)))
    return None
