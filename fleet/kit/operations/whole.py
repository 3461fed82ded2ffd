"""The verbs that are carried out by what the operator does anyway. Pure.

A roll follows from the word that it looks for on the app, and a backup is the Job that the schedule would make.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from fleet.kit.backup.outcome import read_manifest
from fleet.kit.backup.schedule import backup_job, cron_job_name
from fleet.kit.decide.roll import plan_roll
from fleet.kit.driver import Refusal
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import Object, when
from fleet.kit.operations.operation import Operation, OperationProgress, seconds_since
from fleet.kit.operations.verbs import Move, OperationObjection, done, failed, is_rolling, wait_for_others
from fleet.kit.step import Annotate, Apply
from fleet.kit.workload.jobs import JOB, TASK, is_complete, is_failed, why_failed
from fleet.model.app import ROLL, App
from fleet.names import APP
from fleet.text import count_noun

A = TypeVar("A", bound=App)
LAG_SECONDS = 60.0  # that caches may be behind what was written


def object_to_roll(observation: Observation[A], answers: Answers[A]) -> list[OperationObjection]:
    objections: list[OperationObjection] = []
    for role in observation.roles:
        if role.stateful_set is not None and isinstance(plan := plan_roll(role, answers), Refusal):
            objections.append(OperationObjection("no-way", plan.reason))
        objections += wait_for_others(role)
    return objections


def roll(observation: Observation[A], answers: Answers[A], operation: Operation) -> Move:
    """Ask for a roll once, by a word that only this operation has, and see it through.

    A word that somebody else writes afterwards is another roll: it is not taken back.
    """
    word, progress = operation.begun, operation.progress
    if not progress.target:
        note = "every member restarts, one at a time: a person asked for it"
        return Move(
            note, steps=(Annotate({ROLL: word}, "RollRequested", note),), progress=replace(progress, target=word)
        )
    if observation.app.roll != progress.target:
        if seconds_since(operation.begun, observation.world.now) < LAG_SECONDS:
            return Move("every member is to restart")
        return failed("Overwritten", f"another roll was asked for meanwhile, by the annotation {ROLL}")
    for role in observation.roles:
        if role.stateful_set is None or role.ledger is None:
            continue
        plan = plan_roll(role, answers)
        if not isinstance(plan, Refusal) and plan.mark == role.ledger.failed:
            return failed("RollFailed", role.ledger.failure)
    pods = [(role, pod) for role in observation.roles for pod in role.pods]
    late = [pod for role, pod in pods if _word_of(observation.world.pod(pod)) != progress.target]
    late += [pod for role, pod in pods if pod not in late and not role.is_healthy(pod)]
    held = [role for role in observation.roles if (found := role.stateful_set) is not None and is_rolling(found)]
    if late or held:
        return Move(f"{len(pods) - len(late)} of {count_noun(len(pods), 'member')} are through")
    return done("every member was restarted")


def _word_of(pod: Object | None) -> str:
    return str(((pod or {}).get("metadata", {}).get("annotations") or {}).get(ROLL, ""))


def object_to_backup(observation: Observation[A]) -> list[OperationObjection]:
    if getattr(observation.app, "backup", None) is None:
        return [OperationObjection("no-backup", "git does not say where to: the app has no `backup`")]
    if problems := observation.barred_fields("backup.to"):
        return [OperationObjection("not-allowed", "; ".join(map(str, problems)))]
    if _cron_job(observation) is None:
        return [OperationObjection("no-schedule", "the operator has not made its CronJob yet", passes=True)]
    busy = [job["metadata"]["name"] for job in _jobs(observation) if not is_complete(job) and not is_failed(job)]
    return [OperationObjection("backup-under-way", f"{', '.join(busy)} makes one", passes=True)] if busy else []


def back_up(observation: Observation[A], operation: Operation) -> Move:
    """Make the Job that the schedule would make, once, and say how it ended."""
    progress, world = operation.progress, observation.world
    if not progress.job:
        cron = _cron_job(observation)
        if cron is None:
            return Move("the operator has not made its CronJob yet")
        job = backup_job(cron, when(operation.begun))
        name = str(job["metadata"]["name"])
        note = f"{name} makes a backup: a person asked for it"
        steps = (Apply(job, "BackupStarted", note),) if world.get("Job", name) is None else ()
        return Move(note, steps=steps, progress=replace(progress, job=name))
    found = world.get("Job", progress.job)
    if found is None:
        if seconds_since(operation.begun, world.now) < LAG_SECONDS:
            return Move(f"{progress.job} begins")
        return failed("JobGone", f"Job {progress.job} is gone, and how it ended is not known")
    pods = [pod for pod in world.all("Pod") if _job_of(pod) == progress.job]
    if is_failed(found):
        return failed("BackupFailed", f"Job {progress.job} failed: {why_failed(found, pods)}")
    if not is_complete(found):
        return Move(f"Job {progress.job} is at work")
    made = next((backup for pod in pods if (backup := read_manifest(pod)) is not None), None)
    ended = str(found.get("status", {}).get("completionTime") or operation.begun)
    if made is None and seconds_since(ended, world.now) < LAG_SECONDS / 6:
        return Move(f"Job {progress.job} is complete")
    return done(made.place if made is not None else f"Job {progress.job} is complete", made)


def _cron_job(observation: Observation[A]) -> Object | None:
    return observation.world.get("CronJob", cron_job_name(observation.app))


def _jobs(observation: Observation[A]) -> list[Object]:
    labels = ((job, job["metadata"].get("labels") or {}) for job in observation.world.all("Job"))
    own = observation.app.name
    return [job for job, label in labels if label.get(TASK) == "backup" and label.get(APP, own) == own]


def _job_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(JOB, ""))


def begin_roll(observation: Observation[A]) -> OperationProgress:
    return OperationProgress(before=observation.app.roll)
