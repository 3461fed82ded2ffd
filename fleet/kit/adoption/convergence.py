"""How far members that were taken over have become members as any other: as they were found, on the way, all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fleet.kit import names
from fleet.kit.adoption.managers import spec_managers, template_managers
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import template_of
from fleet.kit.status import Conditions
from fleet.kit.step import Decision, blocked
from fleet.kit.workload.roll import under_way


class Pending(NamedTuple):
    """What else comes with a restart, and when: `NextRoll`, or the reason why it is another time."""

    reason: str
    words: str


def conditions(
    observation: Observation[Any], pending: Pending | None = None, *, reads_files: bool = True
) -> Conditions:
    """Return `Adopted`, and what is still to come with the next restart, as type, status, reason and message: of all
    roles together.

    `pending` is what comes beside labels and files; `reads_files` whether members read files of the app's then.
    """
    if observation.app.adoption is None:
        return ()
    ledger, adopted = observation.ledger, names.adopted_sets(observation.app)
    if not adopted or ledger is None or not ledger.identity:
        return (("Adopted", "False", "NotTaken", "nothing was taken over or changed"),)
    roles = [role for role in observation.roles if role.role.name in adopted]
    sets = [found for role in roles if (found := role.stateful_set) is not None]
    if not roles or len(sets) < len(roles):
        gone = [adopted[role.role.name].stateful_set for role in roles if role.stateful_set is None]
        return (("Adopted", "False", "SetGone", f"StatefulSet {', '.join(gone)} was taken over, and is gone"),)
    alone = len(sets) == 1
    named = ", ".join(adopted[role.role.name].stateful_set for role in roles)
    run = f"StatefulSet {named} is run as it was" if alone else f"StatefulSets {named} are run as they were"
    others = sorted({manager for found in sets for manager in spec_managers(found)})
    also = f"; fields of {'it' if alone else 'them'} are still managed by {', '.join(others)}" if others else ""
    taken = ("Adopted", "True", "TakenOver", f"{run} found, cluster {ledger.identity}{also}")
    return (taken, _converged(roles, pending, reads_files=reads_files))


def as_found(observation: Observation[Any]) -> bool:
    """Tell whether members are still set up by what was found: no roll since, so they do not read our files.

    What was given back before may carry a mark of ours from then.
    """
    found, adopted = observation.stateful_set, names.adopted_sets(observation.app).get(observation.role.name)
    return adopted is not None and found is not None and template_of(found) == adopted.baseline.get("mark", "")


def late(observation: Observation[Any]) -> list[str]:
    """Return the pods that are still as they were found, while the first roll goes through the others."""
    adopted = names.adopted_sets(observation.app).get(observation.role.name)
    if adopted is None:
        return []
    mark, pods = adopted.baseline.get("mark", ""), {pod: observation.world.pod(pod) for pod in observation.pods}
    return [pod for pod, found in pods.items() if found is not None and template_of(found) == mark]


def changes_over(observation: Observation[Any]) -> bool:
    """Tell whether a pod that is made now may be made as others had it: then nobody can join."""
    found = observation.stateful_set
    return (
        observation.role.name in names.adopted_sets(observation.app)
        and found is not None
        and (bool(late(observation)) or under_way(found))
    )


def owned_by_others(observation: Observation[Any]) -> Decision | None:
    """Refuse the first roll, which changes the template, while that is somebody else's."""
    theirs = template_managers(observation.stateful_set) if observation.stateful_set else ()
    if not theirs:
        return None
    return blocked(
        "ManagedByOthers",
        f"members must restart with another template, which is managed by {', '.join(theirs)}; it is changed "
        f"when git says take_from={list(theirs)}",
    )


def _converged(
    roles: Sequence[Observation[Any]], pending: Pending | None, *, reads_files: bool
) -> tuple[str, str, str, str]:
    behind = [pod for role in roles for pod in role.pods if as_found(role) or _is_behind(role, pod)]
    if not behind and pending is None:
        files = "members read the operator's files, and " if reads_files else ""
        return ("Converged", "True", "Rolled", f"{files}pods carry the app's labels")
    if not behind and pending is not None and pending.reason != "NextRoll":
        return ("Converged", "False", *pending)
    files = "; members read files instead of flags, which members that join need" if reads_files else ""
    labels = f"pods get the app's labels{files}"
    waits = "; ".join([*([labels] if behind else []), *([pending.words] if pending else [])])
    return ("Converged", "False", "NextRoll", f"at the next roll (`fleet roll {roles[0].app.name}`): {waits}")


def _is_behind(observation: Observation[Any], pod: str) -> bool:
    """Tell whether a pod has another template than its StatefulSet."""
    return template_of(observation.world.pod(pod)) != template_of(observation.stateful_set)
