"""Operations: what people ask of an app once. Decisions with data, and whole trials in memory, killed at every move."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet import Backup, Claim
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.observe import EtcdObservation
from fleet.errors import ConfigurationError
from fleet.kit.observe.world import World
from fleet.kit.operations import queue
from fleet.kit.operations.operation import ENDED, KIND, VERBS, OperatedApp, OperationSpec, Verb
from fleet.kit.operations.queue import MOST_KEPT, MOST_WAITING, RUNNING_SECONDS, WAITING_SECONDS
from fleet.kit.order import Concern, diagnose
from fleet.kit.step import Act, Annotate, Delete, SetStatus, State, Step
from fleet.model.app import ROLL
from fleet.testing.conformance import Trial
from fleet.testing.conformance.cases import CHANGE_CASES, ChangeCase
from fleet.testing.conformance.operations import ask, make_operation, operation_of, operations_of
from fleet.testing.conformance.subject import Change
from fleet.testing.conformance.watching import installed
from tests.conformance.test_etcd import SUBJECT
from tests.conformance.test_nats import SUBJECT as NATS_SUBJECT
from tests.operator.etcd.observations import IMAGES, NOW, Drawing, app, before

Object = dict[str, Any]


def operation(do: str, name: str = "", *, age: float = 1, status: Object | None = None, **fields: Any) -> Object:
    """An Operation about the app that is drawn."""
    metadata = {"name": name or do, "namespace": "shop", "uid": f"uid-{name or do}", "generation": 1}
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": KIND,
        "metadata": {**metadata, "creationTimestamp": before(age), "resourceVersion": "1"},
        "spec": {"app": {"kind": "Etcd", "name": "db"}, "do": do, **fields},
        "status": status or {},
    }


def running(do: str, *, since: float = 5, progress: Object | None = None, **fields: Any) -> Object:
    status = {"phase": "Running", "reason": "Running", "message": "", "begun": before(since), **(progress or {})}
    return operation(do, status=status, **fields)


def seen_with(drawing: Drawing, *asked: Object, **further: Object) -> EtcdObservation:
    seen = drawing.seen()
    objects = [found for by_name in seen.world.objects.values() for found in by_name.values()]
    return replace(seen, world=World.of([*objects, *asked, *further.values()], seen.world.nodes, NOW))


class Judged:
    """What an operator decides and tells people in one pass."""

    def __init__(self, drawing: Drawing, *asked: Object, **further: Object) -> None:
        engine, seen = EtcdEngine(IMAGES), seen_with(drawing, *asked, **further)
        self.concern, self.decision = diagnose(engine.concerns(seen), engine.at_rest(seen))
        self.answers = engine.answer_operations(seen, self.concern, self.decision)

    @property
    def steps(self) -> list[Step]:
        """What is done, statuses left out."""
        return [step for step in self.decision.steps if not isinstance(step, SetStatus)]

    def status(self, name: str) -> Object:
        """What is written about an operation in this pass; {} if nothing."""
        every = [step for step in (*self.answers, *self.decision.steps) if isinstance(step, SetStatus)]
        said = [dict(step.status) for step in every if step.object["metadata"]["name"] == name]
        assert len(said) < 2, said
        return said[0] if said else {}

    @property
    def forgotten(self) -> list[str]:
        return [step.object["metadata"]["name"] for step in self.answers if isinstance(step, Delete)]


# Who is asked, and when


def test_an_app_of_which_nothing_is_asked_is_as_before() -> None:
    judged = Judged(Drawing())
    assert (judged.decision.reason, judged.answers) == ("Healthy", ())


def test_it_is_noted_that_an_operation_has_begun_before_anything_is_done_for_it() -> None:
    judged = Judged(Drawing(), operation("switchover"))
    assert judged.concern is Concern.OPERATIONS
    assert judged.steps == []
    status = judged.status("switchover")
    assert (status["phase"], status["before"], status["target"]) == ("Running", "db-0", "db-1")
    assert status["begun"] == "2026-01-01T12:00:00Z"
    assert status["observedGeneration"] == 1


def test_one_is_under_way_at_a_time_and_the_oldest_is_first() -> None:
    first, second = operation("switchover", "b", age=9), operation("roll", "a", age=3)
    judged = Judged(Drawing(), second, first)
    assert judged.status("b")["phase"] == "Running"
    assert judged.status("a")["waitsFor"] == "Operation"
    judged = Judged(Drawing(), running("roll"), operation("switchover", "older", age=99))
    assert judged.status("older")["message"] == "it waits: roll (roll) is before it"


def test_what_is_amiss_with_the_app_comes_first_and_is_what_it_waits_for() -> None:
    judged = Judged(Drawing().no_majority("db-1"), operation("switchover"))
    status = judged.status("switchover")
    assert judged.decision.reason == status["waitsFor"] == "NoMajority"
    assert (status["phase"], judged.steps) == ("Pending", [])


def test_an_app_that_waits_for_a_person_refuses_by_the_name_of_its_reason() -> None:
    judged = Judged(Drawing().no_majority("db-1", "db-2"), operation("switchover"))
    status = judged.status("switchover")
    assert (status["phase"], status["reason"], status["objections"]) == ("Refused", "Objection", ["QuorumLost"])
    assert status["ended"] == "2026-01-01T12:00:00Z"


def test_a_paused_app_does_nothing_that_is_asked() -> None:
    paused = Judged(Drawing(app=app(paused=True)), running("restart", member="db-1", progress={"before": "pod-db-1"}))
    assert paused.status("restart")["waitsFor"] == "Paused"


@pytest.mark.parametrize("do", ["switchover", "roll", "defragment"])
def test_members_that_are_not_well_are_waited_for(do: str) -> None:
    judged = Judged(Drawing().silence("db-2"), operation(do))
    status = judged.status(do)
    assert (status["phase"], status["waitsFor"]) == ("Pending", "members-unwell")
    assert "db-2: no answer in 2 s" in status["message"]
    assert judged.decision.reason == "MembersUnwell", "what waits holds nothing up"


def test_a_roll_that_is_under_way_is_waited_for_and_goes_on_meanwhile() -> None:
    drawing = Drawing(app=app(config={"log_level": "warn"}), ran=app()).roll("db-2", partition=2)
    judged = Judged(drawing, operation("switchover"))
    assert judged.status("switchover")["waitsFor"] == "roll-under-way"
    assert judged.concern is Concern.ROLL


def test_pods_that_others_left_behind_with_the_template_of_before_are_no_roll() -> None:
    drawing = Drawing()
    assert drawing.set is not None
    drawing.set["status"] = {"currentRevision": "db-1", "updateRevision": "db-2"}
    assert Judged(drawing, operation("roll")).status("roll")["phase"] == "Running", "they are held where they are"


def test_one_that_cannot_begin_for_an_hour_is_refused_and_says_what_it_waited_for() -> None:
    judged = Judged(Drawing().silence("db-2"), operation("switchover", age=WAITING_SECONDS + 1))
    status = judged.status("switchover")
    assert (status["phase"], status["reason"], status["waitsFor"]) == ("Refused", "Expired", "members-unwell")
    judged = Judged(Drawing().no_majority("db-1"), operation("switchover", age=WAITING_SECONDS + 1))
    assert judged.status("switchover")["reason"] == "Expired"


@pytest.mark.parametrize("do", VERBS)
def test_each_verb_that_has_begun_comes_to_an_end(do: Verb) -> None:
    fields = {"member": "db-2"} if do in ("restart", "rebuild") else {}
    late = running(do, since=RUNNING_SECONDS[do] + 1, progress={"before": "a0", "target": "db-1"}, **fields)
    for drawing in (Drawing().silence("db-1"), Drawing().no_majority("db-1")):
        assert Judged(drawing, late).status(do)["phase"] in ENDED


def test_so_many_wait_and_no_more() -> None:
    asked = [operation("roll", f"r{number:02}", age=100 - number) for number in range(MOST_WAITING + 3)]
    judged = Judged(Drawing(), *asked)
    refused = [
        found["metadata"]["name"] for found in asked if judged.status(found["metadata"]["name"])["phase"] == "Refused"
    ]
    assert refused == [f"r{MOST_WAITING + 1:02}", f"r{MOST_WAITING + 2:02}"]
    assert judged.status(refused[0])["objections"] == ["queue-full"]


def test_what_has_ended_is_kept_for_a_while_and_then_forgotten() -> None:
    def ended(name: str, age: float) -> Object:
        return operation("roll", name, age=age, status={"phase": "Succeeded", "ended": before(age)})

    few = [ended(f"r{number}", 100 + number) for number in range(3)]
    assert Judged(Drawing(), *few).forgotten == []
    assert Judged(Drawing(), *few, ended("old", queue.KEPT_SECONDS + 9)).forgotten == ["old"]
    many = [ended(f"r{number:02}", 100 + number) for number in range(MOST_KEPT + 2)]
    assert sorted(Judged(Drawing(), *many).forgotten) == ["r10", "r11"]
    assert "roll" not in Judged(Drawing(), *many, running("roll")).forgotten


def test_one_that_this_release_does_not_know_is_refused() -> None:
    status = Judged(Drawing(), operation("levitate")).status("levitate")
    assert (status["phase"], status["objections"]) == ("Refused", ["unknown"])


def test_operations_of_an_app_that_there_is_not_are_refused_by_name() -> None:
    (step,) = queue.refuse_without_app(queue.list_operations([operation("roll")]), "Etcd db", NOW)
    assert isinstance(step, SetStatus)
    assert (step.status["phase"], step.status["objections"]) == ("Refused", ["no-app"])


def test_one_that_a_person_takes_away_is_none_any_more() -> None:
    leaving = operation("switchover")
    leaving["metadata"]["deletionTimestamp"] = before(1)
    assert Judged(Drawing(), leaving).decision.reason == "Healthy"


# The kind


def test_fields_of_one_verb_are_refused_for_another() -> None:
    about = OperatedApp(kind="Etcd", name="db")
    assert OperationSpec(app=about, do="restart", member="db-1").dump()["member"] == "db-1"
    wrong: list[Object] = [
        {"do": "restart"},
        {"do": "roll", "member": "db-1"},
        {"do": "roll", "to": "db-1"},
        {"do": "switchover", "to": "db-1; reboot"},
        {"do": "shell"},
    ]
    for fields in wrong:
        with pytest.raises(ConfigurationError):
            OperationSpec(app=about, **fields)


# Each verb: what speaks against it, and its next move


REFUSED: dict[str, tuple[Callable[[], Drawing], Object]] = {
    "no-such-member": (Drawing, operation("switchover", to="elsewhere-0")),
    "one-member": (lambda: Drawing(app=app(members=1)), operation("switchover")),
    "no-majority": (lambda: Drawing().silence("db-2"), operation("restart", member="db-1")),
    "no-backup": (Drawing, operation("backup")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    draw, asked = REFUSED[name]
    status = Judged(draw(), asked).status(asked["spec"]["do"])
    assert (status["phase"], status["objections"]) == ("Refused", [name])


def test_a_member_is_rebuilt_only_if_the_others_have_its_data() -> None:
    drawing = Drawing().silence("db-2")
    assert Judged(drawing, operation("rebuild", member="db-1")).status("rebuild")["objections"] == ["no-majority"]
    assert Judged(drawing, operation("rebuild", member="db-2")).status("rebuild")["phase"] == "Running"
    alone = Judged(Drawing(app=app(members=1)), operation("rebuild", member="db-0"))
    assert alone.status("rebuild")["objections"] == ["no-majority"]


def test_a_switchover_to_the_member_that_leads_has_nothing_to_do() -> None:
    judged = Judged(Drawing(), operation("switchover", to="db-0"))
    assert judged.status("switchover")["phase"] == "Succeeded"
    assert judged.decision.reason == "Healthy", "what is only said takes nothing of the app's health"


def test_a_switchover_asks_until_another_member_leads() -> None:
    asked = running("switchover", progress={"before": "db-0", "target": "db-1"})
    (step,) = Judged(Drawing(), asked).steps
    assert isinstance(step, Act)
    assert (step.what, step.arguments) == ("lead", {"pod": "db-1"})
    assert Judged(Drawing(leader=1), asked).status("switchover")["phase"] == "Succeeded"
    assert Judged(Drawing(leader=2), asked).status("switchover")["phase"] == "Succeeded", "any other would do"
    named = running("switchover", to="db-1", progress={"before": "db-0", "target": "db-1"})
    (again,) = Judged(Drawing(leader=2), named).steps
    assert isinstance(again, Act)


def test_a_member_that_leads_hands_over_before_it_restarts() -> None:
    asked = running("restart", member="db-0", progress={"before": "pod-db-0"})
    (step,) = Judged(Drawing(), asked).steps
    assert isinstance(step, Act)
    assert step.what == "lead"
    (step,) = Judged(Drawing(leader=1), asked).steps
    assert isinstance(step, Delete)
    assert step.object["metadata"]["uid"] == "pod-db-0"


def test_a_pod_that_is_another_one_is_not_deleted_again() -> None:
    asked = running("restart", member="db-1", progress={"before": "the pod of before"})
    judged = Judged(Drawing(), asked)
    assert (judged.steps, judged.status("restart")["phase"]) == ([], "Succeeded")
    late = Judged(Drawing().silence("db-1"), asked)
    assert (late.steps, late.status("restart")["phase"]) == ([], "Running")


def test_a_restart_waits_where_the_majority_was_lost_meanwhile() -> None:
    asked = running("restart", member="db-1", progress={"before": "pod-db-1"})
    judged = Judged(Drawing().silence("db-2"), asked)
    assert judged.steps == []
    assert "the others are no majority" in judged.status("restart")["message"]


def test_a_member_is_taken_out_once_and_comes_back_as_a_new_one() -> None:
    asked = running("rebuild", member="db-2", progress={"before": "a2"})
    (step,) = Judged(Drawing(), asked).steps
    assert isinstance(step, Act)
    assert (step.what, step.arguments["member"]) == ("drain", "a2")
    asked = running("rebuild", member="db-2", progress={"before": "another id"})
    judged = Judged(Drawing(), asked)
    assert (judged.steps, judged.status("rebuild")["phase"]) == ([], "Succeeded")


def test_files_are_made_smaller_one_by_one_and_that_of_the_leader_last() -> None:
    (step,) = Judged(Drawing(), running("defragment")).steps
    assert isinstance(step, Act)
    assert (step.what, step.arguments) == ("defragment", {"pod": "db-1"})
    assert Judged(Drawing(), running("defragment")).status("defragment")["done"] == ["db-1"]
    last = running("defragment", progress={"done": ["db-1", "db-2"]})
    (step,) = Judged(Drawing(), last).steps
    assert isinstance(step, Act)
    assert step.what == "lead"
    (step,) = Judged(Drawing(leader=1), last).steps
    assert isinstance(step, Act)
    assert (step.what, step.arguments) == ("defragment", {"pod": "db-0"})
    all_through = running("defragment", progress={"done": ["db-0", "db-1", "db-2"]})
    assert Judged(Drawing(), all_through).status("defragment")["phase"] == "Succeeded"


def test_a_roll_is_asked_for_once_by_a_word_of_its_own() -> None:
    (step,) = Judged(Drawing(), running("roll")).steps
    assert isinstance(step, Annotate)
    assert step.annotations == {ROLL: before(5)}
    asked = running("roll", progress={"target": before(5)})
    assert Judged(Drawing(), asked).steps == [], "a cache that is late is no reason to ask again"


def test_a_roll_that_another_one_came_in_between_of_has_failed_and_takes_nothing_back() -> None:
    drawing = Drawing()
    drawing.app.__dict__["_roll"] = "another word"
    judged = Judged(drawing, running("roll", since=90, progress={"target": before(90)}))
    assert judged.status("roll")["reason"] == "Overwritten"
    assert [step for step in judged.steps if isinstance(step, Annotate)] == []


BACKED_UP = app(backup=Backup(schedule="0 3 * * *", to=Claim("backups")))
CRON: Object = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "db-backup", "namespace": "shop", "uid": "cron", "labels": {}},
    "spec": {"jobTemplate": {"metadata": {"labels": {"fleet.dev/task": "backup", "fleet.dev/app": "db"}}, "spec": {}}},
}


def job(*conditions: str) -> Object:
    made: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "db-backup-260101115955"}}
    made["metadata"]["labels"] = CRON["spec"]["jobTemplate"]["metadata"]["labels"]
    times = [{"type": one, "status": "True", "lastTransitionTime": before(2)} for one in conditions]
    return {**made, "spec": {}, "status": {"conditions": times, "completionTime": before(30)}}


def test_a_backup_is_the_job_that_the_schedule_would_make_and_is_made_once() -> None:
    assert Judged(Drawing(app=BACKED_UP), operation("backup")).status("backup")["waitsFor"] == "no-schedule"
    begun = Judged(Drawing(app=BACKED_UP), running("backup"), CRON)
    (step,) = begun.steps
    name = begun.status("backup")["job"]
    assert name == job()["metadata"]["name"]
    assert getattr(step, "manifest", {})["metadata"]["name"] == name
    again = Judged(Drawing(app=BACKED_UP), running("backup"), CRON, job())
    assert (again.steps, again.status("backup")["job"]) == ([], name), "it died before it noted the Job"


def test_a_backup_ends_as_its_job_does() -> None:
    asked = running("backup", since=120, progress={"job": job()["metadata"]["name"]})

    def phase_with(*jobs: Object) -> tuple[str, str]:
        status = Judged(Drawing(app=BACKED_UP), asked, CRON, *jobs).status("backup")
        return status["phase"], status["reason"]

    assert phase_with(job()) == ("Running", "Running")
    assert phase_with(job("Complete")) == ("Succeeded", "Done")
    assert phase_with(job("Failed")) == ("Failed", "BackupFailed")
    assert phase_with() == ("Failed", "JobGone")


def test_one_backup_waits_for_another() -> None:
    judged = Judged(Drawing(app=BACKED_UP), operation("backup"), CRON, job())
    assert judged.status("backup")["waitsFor"] == "backup-under-way"


# Whole trials in memory


ASKED: dict[str, Change] = {
    "switchover": ask("switchover"),
    "switchover to db-2": ask("switchover", to="db-2"),
    "restart": ask("restart", member="db-0"),
    "rebuild": ask("rebuild", member="db-1"),
    "rebuild the leader": ask("rebuild", member="db-0"),
    "defragment": ask("defragment"),
}
TOLD_APART = ("switchover", "restart", "rebuild the leader", "defragment")  # the others take the same way
ROLLED = ask("roll")
CLAIMS = "PersistentVolumeClaim"


def end_of(trial: Trial) -> str:
    (found,) = operations_of(trial)
    return f"{found.phase}: {found.status.get('message')}"


@pytest.mark.parametrize("name", [*ASKED, "roll"])
def test_it_is_done_and_says_so(name: str) -> None:
    trial = installed(SUBJECT)
    leader, elections = trial.observe().leader, trial.members.elections
    pods = {found["metadata"]["name"]: found["metadata"]["uid"] for found in trial.cluster.list_objects("Pod")}
    claims = {found["metadata"]["name"]: found["metadata"]["uid"] for found in trial.cluster.list_objects(CLAIMS)}
    trial.checks.append(_is_served)
    (ASKED | {"roll": ROLLED})[name].begin(trial)
    trial.settle()
    assert end_of(trial).startswith("Succeeded"), end_of(trial)
    after = {found["metadata"]["name"]: found["metadata"]["uid"] for found in trial.cluster.list_objects("Pod")}
    emptied = {found["metadata"]["name"]: found["metadata"]["uid"] for found in trial.cluster.list_objects(CLAIMS)}
    restarted = sorted(pod for pod in pods if pods[pod] != after[pod])
    assert restarted == {"restart": ["db-0"], "rebuild": ["db-1"], "rebuild the leader": ["db-0"], "roll": [*pods]}.get(
        name, []
    )
    rebuilt = sorted(claim for claim in claims if claims[claim] != emptied[claim])
    assert rebuilt == {"rebuild": ["data-db-1"], "rebuild the leader": ["data-db-0"]}.get(name, [])
    if name.startswith("switchover"):
        assert trial.observe().leader == ("db-2" if name.endswith("db-2") else trial.observe().leader) != leader
    if name == "defragment":
        assert trial.moves.count("act defragment") == 3
    assert trial.members.elections == elections
    assert trial.members.lost_writes() == 0


@pytest.mark.parametrize("case", CHANGE_CASES, ids=lambda case: f"{case[0]} {case[1]}")
@pytest.mark.parametrize("name", TOLD_APART)
def test_operations_conform(name: str, case: ChangeCase) -> None:
    """Killed after every move, served throughout, with nodes away, in silence, with late caches and answers."""
    case[2](SUBJECT, ASKED[name])


@pytest.mark.parametrize("name", [*TOLD_APART, "roll"])
def test_killed_after_any_move_it_is_done_and_ends_once(name: str) -> None:
    change = (ASKED | {"roll": ROLLED})[name]
    undisturbed = installed(SUBJECT)
    begun = len(undisturbed.moves)
    change.begin(undisturbed)
    undisturbed.settle()
    for number in range(1, len(undisturbed.moves) - begun + 1):
        trial = installed(SUBJECT)
        trial.checks.append(_is_served)
        trial.kill_after = number
        change.begin(trial)
        trial.settle()
        assert end_of(trial).startswith("Succeeded"), (number, end_of(trial), trial.moves[begun:])
        assert trial.members.lost_writes() == 0
        once = [move for move in trial.moves[begun:] if move.startswith(("annotate", "delete Pod", "act drain"))]
        assert len(once) == len(set(once)), (number, once)


@pytest.mark.parametrize("second", ["scale 3 → 1", "upgrade 3.5 → 3.6", "pod 2 killed"])
@pytest.mark.parametrize("name", [*TOLD_APART, "roll"])
def test_with_another_mind_at_any_move_both_are_done(name: str, second: str) -> None:
    """What git says in the middle of an operation is done, and the operation ends."""
    change = (ASKED | {"roll": ROLLED})[name]
    straight = installed(SUBJECT)
    begun = len(straight.moves)
    change.begin(straight)
    straight.settle()
    for number in range(1, len(straight.moves) - begun + 1):
        trial = installed(SUBJECT)
        change.begin(trial)
        while len(trial.moves) < begun + number:
            trial.reconcile_once()
            trial.tick()
        SUBJECT.find(second).begin(trial)
        _settle_operations(trial)
        (found,) = operations_of(trial)
        assert found.has_ended, (number, end_of(trial), trial.moves[begun:])
        assert trial.members.lost_writes() == 0
        wanted = int(trial.manifest["spec"]["members"])
        assert len(trial.cluster.list_objects("Pod")) == wanted
        assert trial.decisions[-1].state is State.OK


def _settle_operations(trial: Trial) -> None:
    """Settle; what a person asked of a member that git takes away ends by its time alone."""
    trial.settle()
    if not all(found.has_ended for found in operations_of(trial)):
        trial.cluster.now += datetime.timedelta(days=1, seconds=1)
        trial.settle()


def _is_served(trial: Trial) -> None:
    assert trial.members.is_served(), f"no client is served after {trial.moves[-3:]}"


def test_several_are_done_one_after_the_other_in_the_order_in_which_they_were_asked() -> None:
    trial = installed(SUBJECT)
    for name, do in (("a", "switchover"), ("b", "roll"), ("c", "defragment")):
        make_operation(trial, do, name)  # type: ignore[arg-type]
    trial.settle()
    ends = [operation_of(trial, name) for name in "abc"]
    assert [found.phase for found in ends] == ["Succeeded"] * 3
    times = [(str(found.status["begun"]), str(found.status["ended"])) for found in ends]
    assert times[0][1] <= times[1][0] < times[1][1] <= times[2][0]


def test_a_change_in_git_that_is_refused_by_members_is_no_success_of_a_roll() -> None:
    trial = installed(SUBJECT)
    trial.members.broken.add(SUBJECT.bad_image)
    trial.change(image=SUBJECT.bad_image)
    ROLLED.begin(trial)
    for _ in range(200):
        trial.reconcile_once()
        trial.tick()
    (found,) = operations_of(trial)
    assert found.phase in ("Failed", "Refused"), found.status


@pytest.mark.parametrize("do", ["switchover", "rebuild", "defragment", "backup"])
def test_a_type_has_the_operations_that_its_engine_can_do(do: Verb) -> None:
    trial = installed(NATS_SUBJECT)
    make_operation(trial, do, **({"member": "db-0"} if do == "rebuild" else {}))
    trial.settle()
    assert operation_of(trial, do).status["objections"] == ["unsupported"]


def test_a_member_that_stands_alone_is_restarted_and_rolled() -> None:
    trial = installed(NATS_SUBJECT)
    make_operation(trial, "restart", "a", member="db-0")
    make_operation(trial, "roll", "b")
    trial.settle()
    assert [found.phase for found in operations_of(trial)] == ["Succeeded"] * 2
    assert trial.cluster.deleted.count("Pod db-0") == 1, "the other restart is the StatefulSet's"
