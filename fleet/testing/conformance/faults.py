"""Cases in which too little is known: members that do not reach each other, answers that come late or not at all.

Nothing that takes something away follows from silence, and whatever was under way comes to its end afterwards.
"""

from __future__ import annotations

from fleet.testing.conformance.subject import Change, Subject, Trouble, fingerprint
from fleet.testing.conformance.trial import Trial
from fleet.testing.conformance.watching import compare_ends, go_through, installed, keeps_writes, watch

AWAY = 25  # seconds that a fault lasts
IDLE = 5  # reconciles in which nothing may be done
PATIENCE = 200  # reconciles until a trouble must have been noticed
HARMLESS = ("apply ConfigMap", "apply Secret", "apply Service", "apply PodDisruptionBudget")


def survive_partitions(subject: Subject, change: Change) -> None:
    """Come to the same end where one member does not reach the others for a while, in the middle of a change."""
    if change.interrupts or change.breaks or not subject.quorum:
        return
    went = go_through(subject, change)
    for number, copied in enumerate(went.after_moves[::2], 1):
        trial = copied.copy()
        watch(trial, change, serves=False)  # while one is on its way in or out, another one's silence is a majority's
        pods = [found["metadata"]["name"] for found in trial.cluster.list_objects("Pod")]
        trial.members.isolated.add(pods[number % len(pods)])
        _wait(trial, AWAY)
        trial.members.isolated.clear()
        trial.settle()
        compare_ends(trial, went.end, f"{change}: {pods[number % len(pods)]} was cut off at move {2 * number - 1}")


def survive_deafness(subject: Subject, change: Change) -> None:
    """Do nothing that members would notice while nobody answers the operator in the middle of a change; then go on."""
    went = go_through(subject, change)
    for number, copied in enumerate(went.after_moves[1::2], 1):
        trial = copied.copy()
        watch(trial, change, serves=False)
        trial.members.silent |= {found["metadata"]["name"] for found in trial.cluster.list_objects("Pod")}
        begun = len(trial.moves)
        _wait(trial, IDLE)
        acts = [move for move in trial.moves[begun:] if move.startswith("act")]
        assert not acts, f"{change}: nobody answered after move {2 * number}, and it asked for {acts}"
        trial.members.silent.clear()
        trial.settle()
        compare_ends(trial, went.end, f"{change}: nobody answered after move {2 * number}")


def survive_late_answers(subject: Subject, change: Change) -> None:
    """Come to the same end where every request to members is carried out and its answer never comes."""
    if subject.late is None:
        return
    went = go_through(subject, change)
    trial = installed(subject, change)
    watch(trial, change)
    subject.late(trial.members, True)
    change.begin(trial)
    trial.settle()
    subject.late(trial.members, False)
    compare_ends(trial, went.end, f"{change}, with answers that come too late")


def leave_alone(subject: Subject, trouble: Trouble) -> None:
    """Say what is wrong and do nothing about it, whatever git asks for meanwhile; go on when it is over."""
    straight = installed(subject)
    straight.change(**subject.wanted_meanwhile)
    straight.settle()
    trial = installed(subject)
    trial.checks.append(keeps_writes)
    trouble.begin(trial)
    said = _until_said(trial, trouble.reason)
    assert said, f"{trouble.name}: never said {trouble.reason}, but {trial.decisions[-1]}; moves: {trial.moves[-8:]}"
    begun = len(trial.moves)
    if not trouble.is_git:
        trial.change(**subject.wanted_meanwhile)
    for _ in range(IDLE):
        trial.reconcile_once()
        trial.tick()
    assert trial.decisions[-1].reason == trouble.reason, f"{trouble.name}: {trial.decisions[-1]}"
    done = [move for move in trial.moves[begun:] if not move.startswith(HARMLESS)]
    assert not done, f"{trouble.name}: it did {done}"
    trouble.end(trial)
    if trouble.is_git:
        trial.change(**subject.wanted_meanwhile)
    trial.settle()
    end = fingerprint(straight.cluster, straight.members)
    compare_ends(trial, {**end, **dict.fromkeys(trouble.leaves)}, trouble.name, leave_out=trouble.leaves)


def _until_said(trial: Trial, reason: str) -> bool:
    for _ in range(PATIENCE):
        decision = trial.reconcile_once()
        if decision is not None and decision.reason == reason:
            return True
        trial.tick()
    return False


def _wait(trial: Trial, reconciles: int) -> None:
    for _ in range(reconciles):
        trial.reconcile_once()
        trial.tick()
