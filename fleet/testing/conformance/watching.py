"""How a trial is begun, copied, watched and compared: what all cases share."""

from __future__ import annotations

import json
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from fleet.testing.conformance.subject import Change, Subject, fingerprint
from fleet.testing.conformance.trial import Trial

LASTING = ("PersistentVolumeClaim", "ConfigMap", "Secret", "Service", "StatefulSet", "PodDisruptionBudget")
_INSTALLED: weakref.WeakKeyDictionary[Subject, dict[str, Trial]] = weakref.WeakKeyDictionary()


def installed(subject: Subject, change: Change | None = None) -> Trial:
    """Return a trial whose app is installed and at rest, as a change finds it: a copy of one installed before."""
    known = _INSTALLED.setdefault(subject, {})
    key = json.dumps(change.before, sort_keys=True) if change is not None else "{}"
    if key not in known:
        known[key] = subject.make_trial(**change.before if change is not None else {})
        known[key].settle()
    return known[key].copy()


def forget_installed() -> None:
    """Have apps installed anew: what decides is otherwise by now."""
    _INSTALLED.clear()
    _LAST.clear()


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A change that nothing came in the way of: how it ended, and what it was like after each of its moves."""

    trial: Trial
    end: Mapping[str, object]
    after_moves: Sequence[Trial]
    pods_made: int
    lost: bool  # whether acknowledged writes were gone at any time
    outage: bool  # whether no client was served at any time
    elections: int


def go_through(subject: Subject, change: Change) -> Undisturbed:
    """Return how a change goes that nothing comes in the way of. That of the last one is kept: other cases compare."""
    if _LAST.get("for") != (id(subject), change.name):
        _LAST.update({"for": (id(subject), change.name), "went": _go_through(subject, change)})
    return cast(Undisturbed, _LAST["went"])


_LAST: dict[str, object] = {}


def _go_through(subject: Subject, change: Change) -> Undisturbed:
    trial = installed(subject, change)
    copies = copy_at_every_move(trial)
    made, elections, seen = trial.cluster.pods_made, trial.members.elections, {"lost": False, "outage": False}

    def look(moved: Trial) -> None:
        seen["lost"] = seen["lost"] or moved.members.lost_writes() > 0
        seen["outage"] = seen["outage"] or not moved.members.is_served()

    trial.checks.append(look)
    change.begin(trial)
    trial.settle()
    end = fingerprint(trial.cluster, trial.members)
    pods, elected = trial.cluster.pods_made - made, trial.members.elections - elections
    return Undisturbed(trial, end, copies, pods, seen["lost"], seen["outage"], elected)


def copy_at_every_move(trial: Trial) -> list[Trial]:
    """Return the list that gets a copy of a trial after each of its moves: its operator is killed there."""
    copies: list[Trial] = []
    trial.on_move = lambda moved: copies.append(moved.copy())
    return copies


def watch(trial: Trial, change: Change, *, serves: bool = True) -> None:
    """Check after each move and tick that nothing is lost, and that clients are served if they have to be."""
    trial.checks.append(keeps_writes)
    if serves and not change.interrupts:
        trial.checks.append(serves_clients)


def serves_clients(trial: Trial) -> None:
    assert trial.members.is_served(), f"no client is served after {trial.moves[-3:]}"


def keeps_writes(trial: Trial) -> None:
    assert trial.members.lost_writes() == 0, f"acknowledged writes are lost after {trial.moves[-3:]}"


def compare(trial: Trial, undisturbed: Trial, end: Mapping[str, object], words: str) -> None:
    """Check that a trial ended as the undisturbed one, and that nothing was created or deleted twice on the way."""
    compare_ends(trial, end, words)
    for made, straight, verb in (
        (trial.cluster.created, undisturbed.cluster.created, "created"),
        (trial.cluster.deleted, undisturbed.cluster.deleted, "deleted"),
    ):
        lasting = Counter(name for name in made if name.startswith(LASTING))
        assert lasting == Counter(name for name in straight if name.startswith(LASTING)), (
            f"{words}: {verb} otherwise: {lasting}"
        )


def compare_ends(trial: Trial, end: Mapping[str, object], words: str, leave_out: tuple[str, ...] = ()) -> None:
    """Check that a trial ended in a state; the error names what is otherwise."""
    made = fingerprint(trial.cluster, trial.members)
    others = {part: (value, end[part]) for part, value in made.items() if part not in leave_out and value != end[part]}
    assert not others, f"{words}: it ends otherwise: {others}; moves: {trial.moves}"
