"""The cases: what every app type must pass, each a function of a subject and one of its changes.

They are numbered as in docs/how-to/app-types.md. A case that fails raises AssertionError with the moves until then.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fleet.kit.observe.world import secret_data
from fleet.kit.operate.explain import describe_decision
from fleet.kit.operate.record import is_public_entry
from fleet.kit.step import State
from fleet.testing.conformance.subject import Change, Subject, fingerprint
from fleet.testing.conformance.trial import Trial

AWAY = 25  # seconds that a node is away
IDLE = 5  # reconciles in which an app with nothing to do is watched
LASTING = ("PersistentVolumeClaim", "ConfigMap", "Secret", "Service", "StatefulSet", "PodDisruptionBudget")


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
    for number, (title, check) in CASES.items():
        yield Case(number, title, "", _bind(check, subject))
    for change in subject.changes:
        for number, (title, check_change) in CHANGE_CASES.items():
            yield Case(number, title, change.name, _bind_change(check_change, subject, change))
    for first, second in subject.minds:
        run = _bind_mind(subject, subject.find(first), subject.find(second))
        yield Case("C3", "a change of mind at every move", f"{first}, then {second}", run)


def _bind(check: Callable[[Subject], None], subject: Subject) -> Callable[[], None]:
    return lambda: check(subject)


def _bind_change(check: Callable[[Subject, Change], None], subject: Subject, change: Change) -> Callable[[], None]:
    return lambda: check(subject, change)


def _bind_mind(subject: Subject, first: Change, second: Change) -> Callable[[], None]:
    return lambda: change_mind(subject, first, second)


def install(subject: Subject) -> None:
    """Install from one object, and write nothing afterwards."""
    trial = installed(subject)
    before = list(trial.moves)
    for _ in range(IDLE):
        trial.reconcile_once()
        trial.tick()
    assert trial.moves == before, f"nothing had changed, and it did {trial.moves[len(before) :]}"
    assert trial.decisions[-1].state is State.OK, trial.decisions[-1]


def survive_kills_while_installing(subject: Subject) -> None:
    """Kill the operator after every move of the installation."""
    undisturbed = installed(subject)
    end = fingerprint(undisturbed.cluster, undisturbed.members)
    for number in range(1, len(undisturbed.moves) + 1):
        trial = subject.make_trial()
        trial.kill_after = number
        trial.settle()
        _compare(trial, undisturbed, end, f"killed after move {number} of the installation")


def survive_kills(subject: Subject, change: Change) -> None:
    """Kill the operator after every move of a change; each trial ends as the undisturbed one."""
    undisturbed = installed(subject)
    begun = len(undisturbed.moves)
    change.begin(undisturbed)
    undisturbed.settle()
    end, moves = fingerprint(undisturbed.cluster, undisturbed.members), undisturbed.moves[begun:]
    for number in range(1, len(moves) + 1):
        trial = installed(subject)
        _watch(trial, change)
        trial.kill_after = number
        change.begin(trial)
        trial.settle()
        _compare(trial, undisturbed, end, f"{change}: killed after move {number} ({moves[number - 1]})")


def stay_served(subject: Subject, change: Change) -> None:
    """Serve clients throughout, lose no acknowledged write, and elect nobody where leadership could be handed over."""
    trial = installed(subject)
    _watch(trial, change)
    elections = trial.members.elections
    change.begin(trial)
    trial.settle()
    if not _breaks(change):
        assert trial.members.elections == elections, f"a primary was stopped before another took over: {trial.moves}"


def do_nothing_in_silence(subject: Subject, change: Change) -> None:
    """Do nothing that members would notice while none of them can be asked; go on when they answer."""
    trial = installed(subject)
    begun = len(trial.moves)
    pods = {found["metadata"]["name"] for found in trial.cluster.list_objects("Pod")}
    trial.members.silent |= pods
    change.begin(trial)
    for _ in range(IDLE):
        trial.reconcile_once()
        trial.tick()
    drastic = [move for move in trial.moves[begun:] if move.startswith(("act", "delete"))]
    assert not drastic, f"nobody answered, and it did {drastic}"
    trial.members.silent.clear()
    trial.settle()
    assert trial.members.lost_writes() == 0


def go_back(subject: Subject) -> None:
    """Take an image back with which no member starts, and leave all others on theirs."""
    if not subject.bad_image:
        return
    trial = installed(subject)
    before = fingerprint(trial.cluster, trial.members)["pods"]
    trial.members.broken.add(subject.bad_image)
    trial.change(**(subject.bad_spec or {"image": subject.bad_image}))
    if subject.quorum:
        trial.checks.append(_serves)
    for _ in range(200):
        trial.reconcile_once()
        trial.tick()
    after = fingerprint(trial.cluster, trial.members)["pods"]
    assert after == before, f"members have other images than before: {after}"
    assert trial.decisions[-1].state in (State.DEGRADED, State.BLOCKED), trial.decisions[-1]


def change_mind(subject: Subject, first: Change, second: Change) -> None:
    """Change to something else at every move of a change; the last word counts."""
    straight = installed(subject)
    begun = len(straight.moves)
    first.begin(straight)
    straight.settle()
    moves = len(straight.moves) - begun
    second.begin(straight)
    straight.settle()
    end = fingerprint(straight.cluster, straight.members)
    for number in range(1, moves + 1):
        trial = installed(subject)
        _watch(trial, first)
        left = [number]

        def on_move(trial: Trial, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                second.begin(trial)

        trial.on_move = on_move
        first.begin(trial)
        trial.settle()
        if left[0] > 0:  # what the kill would have met was not reached by then
            second.begin(trial)
            trial.settle()
        _compare_ends(trial, end, f"{first}, then {second} at move {number}")


def survive_absence(subject: Subject, change: Change) -> None:
    """Stop nobody whom the others cannot do without, while one member's node is away for a while."""
    if change.interrupts or _breaks(change) or not subject.quorum:
        return
    straight = installed(subject)
    change.begin(straight)
    straight.settle()
    end = fingerprint(straight.cluster, straight.members)
    for pod in [found["metadata"]["name"] for found in straight.cluster.list_objects("Pod")]:
        trial = installed(subject)
        _watch(trial, change)
        trial.cluster.away.add(pod)
        for _ in range(IDLE):  # it is known: nobody can foresee a loss in the second of a change
            trial.reconcile_once()
            trial.tick()
        change.begin(trial)
        for _ in range(AWAY):
            trial.reconcile_once()
            trial.tick()
        trial.cluster.away.clear()
        trial.settle()
        _compare_ends(trial, end, f"{change}, while {pod} was away")


def survive_stale_reads(subject: Subject, change: Change) -> None:
    """Come to the same end where caches are one reconcile behind all the time."""
    straight = installed(subject)
    change.begin(straight)
    straight.settle()
    trial = installed(subject)
    _watch(trial, change)
    trial.stale = True
    change.begin(trial)
    trial.settle()
    trial.stale = False
    trial.settle()
    _compare_ends(trial, fingerprint(straight.cluster, straight.members), f"{change}, with stale reads")


def tell_no_secrets(subject: Subject, change: Change) -> None:
    """Say nothing of what is in Secrets in events, reasons and messages."""
    trial = installed(subject)
    change.begin(trial)
    trial.settle()
    values = {
        text
        for found in trial.cluster.list_objects("Secret")
        for name, value in secret_data(found).items()
        if not is_public_entry(name)
        for text in (value.decode(errors="replace"), b64encode(value).decode())
    }
    told = " ".join(str(describe_decision(decision)) for decision in trial.decisions)
    assert not [value for value in values if len(value) > 8 and value in told], "a value of a Secret was told"


CASES: dict[str, tuple[str, Callable[[Subject], None]]] = {
    "C1": ("installed from one object, and then at rest", install),
    "C2": ("killed after every move of the installation", survive_kills_while_installing),
    "C5": ("an image that does not start is taken back", go_back),
}
CHANGE_CASES: dict[str, tuple[str, Callable[[Subject, Change], None]]] = {
    "C2": ("killed after every move", survive_kills),
    "C4": ("clients are served throughout", stay_served),
    "C6": ("a node is away meanwhile", survive_absence),
    "C7": ("nothing is done in silence", do_nothing_in_silence),
    "C8": ("caches are late", survive_stale_reads),
    "C20": ("no secret is told", tell_no_secrets),
}


def installed(subject: Subject) -> Trial:
    """Return a trial whose app is installed and at rest."""
    trial = subject.make_trial()
    trial.settle()
    return trial


def _watch(trial: Trial, change: Change) -> None:
    trial.checks.append(_keeps_writes)
    if not change.interrupts:
        trial.checks.append(_serves)


def _serves(trial: Trial) -> None:
    assert trial.members.is_served(), f"no client is served after {trial.moves[-3:]}"


def _keeps_writes(trial: Trial) -> None:
    assert trial.members.lost_writes() == 0, f"acknowledged writes are lost after {trial.moves[-3:]}"


def _breaks(change: Change) -> bool:
    return change.name.endswith(("killed", "lost"))


def _compare(trial: Trial, undisturbed: Trial, end: object, words: str) -> None:
    _compare_ends(trial, end, words)
    for made, straight, verb in (
        (trial.cluster.created, undisturbed.cluster.created, "created"),
        (trial.cluster.deleted, undisturbed.cluster.deleted, "deleted"),
    ):
        lasting = Counter(name for name in made if name.startswith(LASTING))
        assert lasting == Counter(name for name in straight if name.startswith(LASTING)), (
            f"{words}: {verb} otherwise: {lasting}"
        )


def _compare_ends(trial: Trial, end: object, words: str) -> None:
    made = fingerprint(trial.cluster, trial.members)
    assert made == end, f"{words}: it ends otherwise: {made} and not {end}; moves: {trial.moves}"
