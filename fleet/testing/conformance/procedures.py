"""Cases about procedures: killed after every move, another mind meanwhile, a node away, late caches, a bad image."""

from __future__ import annotations

from base64 import b64encode

from fleet.kit.observe.world import secret_data
from fleet.kit.operate.explain import describe_decision
from fleet.kit.operate.record import is_public_entry
from fleet.kit.step import State
from fleet.testing.conformance.subject import Change, Subject, fingerprint
from fleet.testing.conformance.trial import Trial
from fleet.testing.conformance.watching import (
    compare,
    compare_ends,
    copy_at_every_move,
    go_through,
    installed,
    serves_clients,
    watch,
)

AWAY = 25  # seconds that a node is away
IDLE = 5  # reconciles in which an app with nothing to do is watched


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
    undisturbed = subject.make_trial()
    killed = copy_at_every_move(undisturbed)
    undisturbed.settle()
    end = fingerprint(undisturbed.cluster, undisturbed.members)
    for number, trial in enumerate(killed, 1):
        trial.settle()
        compare(trial, undisturbed, end, f"killed after move {number} of the installation")


def survive_kills(subject: Subject, change: Change) -> None:
    """Kill the operator after every move of a change; each trial ends as the undisturbed one."""
    undisturbed = go_through(subject, change)
    for number, killed in enumerate(undisturbed.after_moves, 1):
        trial = killed.copy()
        watch(trial, change)
        last = trial.moves[-1]
        trial.settle()
        compare(trial, undisturbed.trial, undisturbed.end, f"{change}: killed after move {number} ({last})")


def stay_served(subject: Subject, change: Change) -> None:
    """Serve clients throughout, lose no acknowledged write, and elect nobody where leadership could be handed over."""
    went = go_through(subject, change)
    assert not went.lost, f"acknowledged writes were lost: {went.trial.moves}"
    assert change.interrupts or not went.outage, f"no client was served meanwhile: {went.trial.moves}"
    if not change.breaks:
        assert not went.elections, f"a primary was stopped before another took over: {went.trial.moves}"


def do_nothing_in_silence(subject: Subject, change: Change) -> None:
    """Do nothing that members would notice while none of them can be asked; go on when they answer."""
    trial = installed(subject, change)
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
        trial.checks.append(serves_clients)
    for _ in range(200):
        trial.reconcile_once()
        trial.tick()
    after = fingerprint(trial.cluster, trial.members)["pods"]
    assert after == before, f"members have other images than before: {after}"
    assert trial.decisions[-1].state in (State.DEGRADED, State.BLOCKED), trial.decisions[-1]


def change_mind(subject: Subject, first: Change, second: Change) -> None:
    """Change to something else at every move of a change; the last word counts."""
    straight = installed(subject, first)
    begun = len(straight.moves)
    first.begin(straight)
    straight.settle()
    moves = len(straight.moves) - begun
    second.begin(straight)
    straight.settle()
    end = fingerprint(straight.cluster, straight.members)
    for number in range(1, moves + 1):
        trial = installed(subject, first)
        watch(trial, first)
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
        compare_ends(trial, end, f"{first}, then {second} at move {number}")


def survive_absence(subject: Subject, change: Change) -> None:
    """Stop nobody whom the others cannot do without, while one member's node is away for a while."""
    if change.interrupts or change.breaks or not subject.quorum:
        return
    went = go_through(subject, change)
    for pod in [found["metadata"]["name"] for found in went.trial.cluster.list_objects("Pod")]:
        trial = installed(subject, change)
        watch(trial, change)
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
        compare_ends(trial, went.end, f"{change}, while {pod} was away")


def survive_stale_reads(subject: Subject, change: Change) -> None:
    """Come to the same end where caches are one reconcile behind all the time."""
    went = go_through(subject, change)
    trial = installed(subject, change)
    watch(trial, change)
    trial.stale = True
    change.begin(trial)
    trial.settle()
    trial.stale = False
    trial.settle()
    compare_ends(trial, went.end, f"{change}, with stale reads")


def tell_no_secrets(subject: Subject, change: Change) -> None:
    """Say nothing of what is in Secrets in events, reasons and messages."""
    trial = go_through(subject, change).trial
    values = {
        text
        for found in trial.cluster.list_objects("Secret")
        for name, value in secret_data(found).items()
        if not is_public_entry(name)
        for text in (value.decode(errors="replace"), b64encode(value).decode())
    }
    told = " ".join(str(describe_decision(decision)) for decision in trial.decisions)
    assert not [value for value in values if len(value) > 8 and value in told], "a value of a Secret was told"
