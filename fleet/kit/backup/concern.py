"""What a reconcile does about an app's backups, by the plan of its type: the schedule, the restore that it begins with,
and what the status says of both. Pure.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fleet.kit.backup.outcome import backed_up, newest, recoverable
from fleet.kit.backup.plan import BackupPlan
from fleet.kit.backup.restoration import leftovers, restoration
from fleet.kit.backup.schedule import cron_job, cron_job_name
from fleet.kit.backup.trial import trial_cron_job, trial_name
from fleet.kit.members import Ledger
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, in_order
from fleet.kit.status import Conditions, LastBackup
from fleet.kit.step import Apply, Decision, Delete, Object, State, Step, blocked, step
from fleet.model.app import App

A = TypeVar("A", bound=App)
OPERATOR = "fleet-operator"  # among the images: the operator's own, for Jobs
BESIDE = ("pods", "expose", "metrics")  # fields that no backup depends on


def schedule_backups(plan: BackupPlan[A], observation: Observation[A], answers: Answers[A]) -> list[Object]:
    """Return the CronJobs of an app whose members have met; none where git wants none, or may not have it."""
    app, version, ledger = observation.app, observation.oldest_version, observation.ledger
    backup = getattr(app, "backup", None)
    if backup is None or ledger is None or not ledger.identity or version is None:
        return []
    if any(problem.setting not in BESIDE for problem in observation.barred):
        return []
    tools = {
        "image": answers.image(observation, app),
        "operator_image": answers.images.get(OPERATOR, ""),
        "version": version,
        "identity": ledger.identity,
    }
    trial = trial_cron_job(plan, app, backup, **tools)
    return [cron_job(plan, app, backup, **tools), *([trial] if trial else [])]


def restore_first(
    plan: BackupPlan[A], observation: Observation[A], answers: Answers[A], ledger: Ledger, template: Object
) -> Decision | None:
    """Put back the backup that a new app begins with; None once it is there, or where git names none."""
    app, world = observation.app, observation.world
    restore = getattr(app, "restore_from", None)
    if restore is None or ledger.identity:
        return None
    if problems := observation.barred_fields("restore_from.source"):
        return blocked("CannotRestore", "; ".join(map(str, problems)))
    state = restoration(
        plan,
        app,
        restore,
        in_order(ledger.places),
        image=template["spec"]["containers"][0]["image"],
        operator_image=answers.images.get(OPERATOR, ""),
        version=answers.app_type.version(app),
        jobs=world.all("Job"),
        pods=world.all("Pod"),
        claims=world.all("PersistentVolumeClaim"),
        origins=observation.origins,
    )
    if state.state in ("done", "not needed"):
        return None
    if state.state == "failed":
        return blocked("RestoreFailed", state.message)
    steps: list[Step] = [Apply(manifest, "Restoring", state.message) for manifest in state.apply]
    steps += [Delete(found) for found in state.delete]
    return step(State.PROGRESSING, "Restoring", state.message, *steps, after=1.0)


def list_leftovers(observation: Observation[Any]) -> list[Object]:
    """Return the Jobs of a restore that is over, and schedules that git does not have any more, or may not have."""
    app, world, backup = observation.app, observation.world, getattr(observation.app, "backup", None)
    is_wanted = backup is not None and not observation.barred_fields("backup.to")
    is_tried = is_wanted and getattr(backup, "trial", None) is not None
    schedules = {cron_job_name(app): is_wanted, trial_name(app): is_tried}
    gone = [world.get("CronJob", name) for name, wanted in schedules.items() if not wanted]
    return [*leftovers(app, world.all("Job")), *(schedule for schedule in gone if schedule is not None)]


def backup_conditions(observation: Observation[Any], known: LastBackup | None) -> Conditions:
    """Return the conditions of an app that is to be backed up. `known` is the last backup in its status."""
    backup = getattr(observation.app, "backup", None)
    if backup is None:
        return ()
    if problems := observation.barred_fields("backup.to"):
        return (("BackedUp", "False", "CannotBackUp", "; ".join(map(str, problems))),)
    jobs, pods = observation.world.all("Job"), observation.world.all("Pod")
    tried = (recoverable(jobs, pods),) if backup.trial else ()
    return (backed_up(jobs, pods, newest(pods, known)), *tried)
