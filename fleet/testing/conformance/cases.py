"""The cases: what every app type must pass, each a function of a subject and one of its changes.

They are numbered as in docs/how-to/app-types.md. A case that fails raises AssertionError with the moves until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fleet.testing.conformance import faults, procedures, promises
from fleet.testing.conformance.subject import Change, Subject, Trouble

ChangeCase = tuple[str, str, Callable[[Subject, Change], None]]  # number, title, and what it is


@dataclass(frozen=True, slots=True)
class Case:
    """One case for one change, ready to run."""

    number: str
    title: str
    change: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.number} {self.title}{f': {self.change}' if self.change else ''}"


def cases(subject: Subject) -> list[Case]:
    """Return every case that a subject has to pass, for each of its changes."""
    return list(_cases(subject))


def _cases(subject: Subject) -> Iterator[Case]:
    for number, title, check in CASES:
        yield Case(number, title, "", _bind(check, subject))
    for change in subject.changes:
        for number, title, check_change in CHANGE_CASES:
            yield Case(number, title, change.name, _bind_change(check_change, subject, change))
    for trouble in subject.troubles:
        yield Case("C7", "nothing is done about what is not certain", trouble.name, _bind_trouble(subject, trouble))
    for first, second in subject.minds:
        run = _bind_mind(subject, subject.find(first), subject.find(second))
        yield Case("C3", "a change of mind at every move", f"{first}, then {second}", run)


def _bind(check: Callable[[Subject], None], subject: Subject) -> Callable[[], None]:
    return lambda: check(subject)


def _bind_change(check: Callable[[Subject, Change], None], subject: Subject, change: Change) -> Callable[[], None]:
    return lambda: check(subject, change)


def _bind_trouble(subject: Subject, trouble: Trouble) -> Callable[[], None]:
    return lambda: faults.leave_alone(subject, trouble)


def _bind_mind(subject: Subject, first: Change, second: Change) -> Callable[[], None]:
    return lambda: procedures.change_mind(subject, first, second)


CASES: tuple[tuple[str, str, Callable[[Subject], None]], ...] = (
    ("C1", "installed from one object, and then at rest", procedures.install),
    ("C2", "killed after every move of the installation", procedures.survive_kills_while_installing),
    ("C5", "an image that does not start is taken back", procedures.go_back),
    ("C9", "another release of the operator writes nothing", promises.outlive_a_release),
    ("C12", "a Secret that is lost is made again", promises.survive_lost_secrets),
    ("C14", "taken over from others and given back", promises.adopt),
    ("C16", "deleted, its data stays and is found again", promises.keep_data),
    ("C16", "deleted, its data goes if git says so", promises.take_data),
    ("C17", "no capability is claimed that nothing proves", promises.prove_capabilities),
)
CHANGE_CASES: tuple[ChangeCase, ...] = (
    ("C2", "killed after every move", procedures.survive_kills),
    ("C4", "clients are served throughout", procedures.stay_served),
    ("C6", "a node is away meanwhile", procedures.survive_absence),
    ("C7", "nothing is done in silence", procedures.do_nothing_in_silence),
    ("C8", "caches are late", procedures.survive_stale_reads),
    ("C10", "one member is cut off in the middle", faults.survive_partitions),
    ("C10", "nobody answers in the middle", faults.survive_deafness),
    ("C10", "answers come too late", faults.survive_late_answers),
    ("C11", "it costs what is said", promises.cost_what_is_said),
    ("C20", "no secret is told", procedures.tell_no_secrets),
)
