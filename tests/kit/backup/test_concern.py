"""What a reconcile does about backups, by the plan of a type alone: here of a PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.kit.app_type import AppType
from fleet.kit.backup.concern import (
    OPERATOR,
    backup_conditions,
    list_leftovers,
    restore_first,
    schedule_backups,
)
from fleet.kit.driver import Problem
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import MemberState, Observation, RoleSpec
from fleet.kit.observe.world import World
from fleet.kit.status import LastBackup
from fleet.kit.step import Apply
from fleet.kit.versions import Versions
from fleet.model.app_settings import Backup, Claim, Restore
from tests.kit.backup.types import POSTGRES, Postgres, role

IMAGES = {OPERATOR: "operator:1"}
BACKUP = Backup(to=Claim("shelf"), schedule="0 3 * * *")


class PostgresType(AppType[Postgres]):
    app = Postgres
    name = "PostgreSQL"
    versions = Versions({"17": "17.5"}, "postgres:{version}", parts=1)
    roles = (role("/data"),)

    def version(self, spec: Postgres) -> str:
        return "17"


ANSWERS = Answers(PostgresType(), IMAGES)
FOUNDED = Ledger("c1", {"db-0": MemberRecord("settled"), "db-1": MemberRecord("settled")})


def observe(ledger: Ledger | None = FOUNDED, objects: tuple[Any, ...] = (), **spec: Any) -> Observation[Postgres]:
    app = Postgres("db", namespace="shop", **spec)
    states = {"db-0": MemberState(version="17.5")} if ledger is not None and ledger.identity else {}
    return Observation(app, World.of(objects, None, World({}).now), ledger, RoleSpec("db", 2), states)


def job(name: str, kind: str = "Job") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "labels": {"fleet.dev/task": "backup"}}}


def test_backups_are_scheduled_once_members_have_met() -> None:
    (schedule,) = schedule_backups(POSTGRES, observe(backup=BACKUP), ANSWERS)
    assert (schedule["kind"], schedule["spec"]["schedule"]) == ("CronJob", "0 3 * * *")
    assert "operator:1" in str(schedule)
    for observation in (observe(), observe(None, backup=BACKUP), observe(Ledger(), backup=BACKUP)):
        assert schedule_backups(POSTGRES, observation, ANSWERS) == []


def test_what_is_not_allowed_is_not_scheduled_and_what_was_goes() -> None:
    problem = Problem("backup.to", "the namespace of others")
    barred = replace(observe(objects=(job("db-backup", "CronJob"),), backup=BACKUP), barred=(problem,))
    assert schedule_backups(POSTGRES, barred, ANSWERS) == []
    assert [found["metadata"]["name"] for found in list_leftovers(barred)] == ["db-backup"]
    ((kind, status, reason, message),) = backup_conditions(barred, None)
    assert (kind, status, reason) == ("BackedUp", "False", "CannotBackUp") and "the namespace of others" in message


def test_a_trial_that_git_does_not_want_any_more_goes_with_or_without_its_schedule() -> None:
    objects = (job("db-backup", "CronJob"), job("db-trial", "CronJob"))
    assert [found["metadata"]["name"] for found in list_leftovers(observe(objects=objects, backup=BACKUP))] == [
        "db-trial"
    ]
    assert len(list_leftovers(observe(objects=objects))) == 2


def test_a_schedule_that_git_wants_stays() -> None:
    assert list_leftovers(observe(objects=(job("db-backup", "CronJob"),), backup=BACKUP)) == []
    assert len(list_leftovers(observe(objects=(job("db-backup", "CronJob"),)))) == 1
    assert list_leftovers(observe(objects=(job("another-backup", "CronJob"),))) == []


def test_the_status_tells_of_the_last_backup() -> None:
    assert backup_conditions(observe(), None) == ()
    ((_, status, reason, _),) = backup_conditions(observe(backup=BACKUP), None)
    assert (status, reason) == ("Unknown", "NoBackup")
    known = LastBackup(time="2026-01-01T03:00:00Z", place="db-1", version="17.5", checksum="sha256:0")
    ((_, status, _, message),) = backup_conditions(observe(backup=BACKUP), known)
    assert (status, message) == ("True", "db-1 is complete and was read back")


RESTORE = Restore(source=Claim("shelf"))
NEW = Ledger("", {"db-0": MemberRecord("founding", cluster=("db-0",))})
TEMPLATE = {"spec": {"containers": [{"image": "postgres:17.5"}]}}


def test_a_new_app_begins_with_the_choice_of_a_backup() -> None:
    decision = restore_first(POSTGRES, observe(NEW, restore_from=RESTORE), ANSWERS, NEW, TEMPLATE)
    assert decision is not None and decision.reason == "Restoring"
    (step,) = decision.steps
    assert isinstance(step, Apply) and step.manifest["kind"] == "Job"


def test_an_app_with_data_or_without_a_word_of_it_is_left_alone() -> None:
    assert restore_first(POSTGRES, observe(restore_from=RESTORE), ANSWERS, FOUNDED, TEMPLATE) is None
    assert restore_first(POSTGRES, observe(NEW), ANSWERS, NEW, TEMPLATE) is None


def test_a_source_that_is_not_allowed_is_refused() -> None:
    problem = Problem("restore_from.source", "not of yours")
    observation = replace(observe(NEW, restore_from=RESTORE), barred=(problem,))
    decision = restore_first(POSTGRES, observation, ANSWERS, NEW, TEMPLATE)
    assert decision is not None and (decision.reason, decision.steps) == ("CannotRestore", ())
