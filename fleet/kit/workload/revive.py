"""A change that a member needs to start at all reaches it first, before the roll that waits for all to be well. Pure.

Only pods that do not run are touched, so nobody who serves is stopped while another is down. A partition cannot name
them (it counts from the highest ordinal down), so while there are such pods the StatefulSet updates whoever is deleted,
and nobody else; when they have been made anew, every pod is held where it is again, and the roll goes through the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.kit.observe.world import Object, cannot_start, is_leaving, is_ready, is_unscheduled, template_of
from fleet.kit.step import Apply, Decision, Delete, State, step, wait
from fleet.kit.workload.roll import Rolling
from fleet.kit.workload.stateful_set import changed, is_observed, updates_on_delete


def is_down(found: Object | None, container: str) -> bool:
    """Tell whether a pod is down, in the words of its kubelet or of the scheduler: it does not run, and it does not
    help to wait."""
    if found is None or is_leaving(found) or is_ready(found):
        return False
    return is_unscheduled(found) or cannot_start(found, container)


def revived(rolling: Rolling, down: Sequence[str]) -> Decision | None:
    """Return the next step for those of the pods that are `down`; None when none of them needs another template."""
    found, pods = rolling.found, {pod: rolling.world.pod(pod) for pod in rolling.pods}
    late = [pods[pod] for pod in down if template_of(pods[pod]) != rolling.mark]
    if not late:
        return _held(rolling, pods) if updates_on_delete(found) else None
    names = ", ".join(pod for pod in down if template_of(pods[pod]) != rolling.mark)
    message = f"{rolling.what}: first for {names}, which cannot start without it"
    if template_of(found) != rolling.mark or not updates_on_delete(found):
        manifest = changed(found, template=rolling.wanted, on_delete=True)
        return step(State.DEGRADED, "Reviving", message, Apply(manifest, "Reviving", message))
    if not is_observed(found):
        return wait(State.DEGRADED, "Reviving", message, 0.5)
    return step(State.DEGRADED, "Reviving", message, *(Delete(one) for one in late if one is not None))


def _held(rolling: Rolling, pods: dict[str, Object | None]) -> Decision | None:
    """Hold the template back until the last of them is there: it would be made with the template of before."""
    if any(pod is None or is_leaving(pod) for pod in pods.values()):
        return None
    return step(State.DEGRADED, "Reviving", "", Apply(changed(rolling.found, partition=len(pods))))
