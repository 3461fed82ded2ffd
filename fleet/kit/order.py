"""In which order the concerns of an app are looked after, the same for every engine. Pure.

An engine says what it has to do about each of them; the first that has something to do decides the pass, and the
others wait for a later one. So nothing grows, scales or rolls while a member is lost, and nothing is done at all about
what is not certain. Apps that are paused do not come this far: what is decided about them is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto

from fleet.kit.step import Decision


class Concern(Enum):
    """From the first to the last."""

    ADOPTION = auto()  # what others made is compared, and taken over as it is
    FOUNDING = auto()  # members begin together, empty or from a backup; there is no data to protect yet
    IDENTITY = auto()  # members of another cluster under the app's names: nothing is touched
    RECOVERY = auto()  # one that was begun comes to its end
    STAFF = auto()  # members that stay have pods
    ROLLBACK = auto()  # a change with which members do not come back is given up
    REVIVAL = auto()  # members that cannot start get what git says of them by now
    QUORUM = auto()  # without a majority nothing below is certain; a recovery begins, if git allows it
    CORRUPTION = auto()
    SPACE = auto()
    REPAIR = auto()  # members that are lost for certain are replaced
    LEAVING = auto()  # removals come to their end
    JOINING = auto()  # whoever is announced is let in
    TIDYING = auto()  # what is over is removed
    OPERATIONS = auto()  # and from here on only if all of the above is well: what people asked for once
    VOLUMES = auto()
    CREDENTIALS = auto()  # members accept the passwords that users have, before members come or restart
    SETTINGS = auto()  # members take what they can while they run
    SCALE = auto()
    ROLL = auto()  # configuration and version
    HEALTH = auto()  # what is left to say about an app with nothing to do


Look = Callable[[], Decision | None]  # None: this concern is satisfied
Concerns = Mapping[Concern, Sequence[Look]]


def decide(concerns: Concerns, at_rest: Decision) -> Decision:
    """Return the first decision in the order of concerns. `at_rest`: what is said when all are satisfied."""
    return diagnose(concerns, at_rest)[1]


def diagnose(concerns: Concerns, at_rest: Decision) -> tuple[Concern | None, Decision]:
    """Return the decision with the concern that it is about; None with `at_rest`, when all are satisfied."""
    for concern in Concern:
        if (decision := first(concerns.get(concern, ()))) is not None:
            return concern, decision
    return None, at_rest


def first(looks: Iterable[Look]) -> Decision | None:
    return next((decision for look in looks if (decision := look()) is not None), None)
