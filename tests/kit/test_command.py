"""Programs that an engine's decisions ask for: Jobs of the engine's own image, without a shell and without rights."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from fleet.kit.decide.command import UNSEEN_SECONDS, outcome_of, remove_read_commands, run_command
from fleet.kit.programs import CommandJob, CommandOutcome, EngineCommand
from fleet.kit.step import Apply, Delete, State
from fleet.kit.workload.command_job import command_job_name, find_outcome, make_command_job
from fleet.kit.workload.jobs import JOB
from fleet.testing.conformance import Case, Trial, cases
from tests.kit import pair
from tests.kit.keeper import KEEPER, Keeper
from tests.kit.leveller import LEVELLED, LevelledAnswers, raise_level
from tests.kit.pair import PAIR, WATCHER

APP = Keeper("db", namespace="ns", version="1.1")


def begun() -> Trial:
    """A trial whose members run 1.0 at its level, of which git wants 1.1 now."""
    trial = LEVELLED.make_trial()
    trial.settle()
    trial.moves.clear()
    trial.members.runs.clear()
    trial.change(version="1.1")
    return trial


def until(trial: Trial, reason: str, limit: int = 400) -> str:
    """Reconcile until a decision is for this reason; return what it says."""
    for _ in range(limit):
        decision = trial.reconcile_once()
        trial.tick()
        if decision is not None and decision.reason == reason:
            return decision.message
    raise AssertionError(f"no {reason}: {trial.decisions[-1]}")


def jobs(trial: Trial) -> list[str]:
    return [job["metadata"]["name"] for job in trial.cluster.list_objects("Job")]


@pytest.mark.parametrize("case", cases(LEVELLED), ids=str)
def test_a_type_with_programs_conforms(case: Case) -> None:
    case.run()


def test_a_program_runs_once_and_its_job_goes_when_its_effect_is_observed() -> None:
    trial = begun()
    trial.settle()
    assert trial.members.level == "1.1"
    assert trial.members.runs == [("keeper-level", "--password-file=/etc/fleet/password", "raise", "1.1")]
    assert jobs(trial) == []
    assert [move for move in trial.moves if " Job " in move] == [
        f"apply Job {command_job_name(_app(trial), raise_level(_app(trial)))}",
        f"delete Job {command_job_name(_app(trial), raise_level(_app(trial)))}",
    ]


def test_a_job_is_plain_argv_of_the_members_image_with_secrets_of_the_app_and_no_right() -> None:
    trial = begun()
    until(trial, "CommandStarted")
    (job,) = trial.cluster.list_objects("Job")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    image = trial.cluster.list_objects("StatefulSet")[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert (container["image"], container["command"][0]) == (image, "keeper-level")
    assert "args" not in container and "initContainers" not in {key for key, value in pod.items() if value}
    assert container["volumeMounts"] == [{"name": "fleet", "mountPath": "/etc/fleet", "readOnly": True}]
    assert pod["volumes"] == [{"name": "fleet", "secret": {"secretName": "db-user-fleet", "defaultMode": 0o440}}]
    assert pod["automountServiceAccountToken"] is False and pod["restartPolicy"] == "Never"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert job["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] == "keeper-command"
    assert job["spec"]["activeDeadlineSeconds"] == 600


def test_a_program_runs_as_the_user_of_its_role_with_its_scratch_directories() -> None:
    wanted = CommandJob("check", EngineCommand(("check",)))
    node = make_command_job(pair.app(), PAIR.roles[0], wanted, "redis:7")["spec"]["template"]["spec"]
    assert node["securityContext"]["runAsUser"] == 999
    assert [mount["mountPath"] for mount in node["containers"][0]["volumeMounts"]] == ["/tmp", "/run/redis"]
    sentinel = make_command_job(pair.app(), WATCHER, wanted, "redis:7")
    assert sentinel["metadata"]["name"].startswith("cache-sentinel-check-")


def test_the_outcome_is_in_the_next_observation() -> None:
    trial = begun()
    wanted = raise_level(_app(trial))
    assert outcome_of(trial.observe(), wanted) is None
    until(trial, "CommandRuns")
    running = outcome_of(trial.observe(), wanted)
    assert running == CommandOutcome("running")
    trial.members.failing = "no quorum of controllers\nerror: level 1.1 is not known"
    until(trial, "CommandFailed")
    failed = outcome_of(trial.observe(), wanted)
    assert failed is not None and failed.state == "failed" and "level 1.1 is not known" in failed.words


def test_one_that_fails_says_its_last_words_and_is_tried_again_after_a_while() -> None:
    trial = begun()
    trial.members.failing = "error: no such level"
    words = until(trial, "CommandFailed")
    assert words.startswith("the level becomes 1.1 failed: program: ") and "no such level" in words
    assert trial.decisions[-1].state is State.DEGRADED
    tried = len(trial.members.runs)
    assert tried == 4, "the Job's own tries"
    for _ in range(60):
        trial.reconcile_once()
        trial.tick()
    assert len(trial.members.runs) == tried and len(jobs(trial)) == 1
    trial.members.failing = ""
    until(trial, "CommandAgain")
    trial.settle()
    assert (trial.members.level, jobs(trial)) == ("1.1", [])


def test_one_that_ended_well_and_changed_nothing_is_not_run_without_a_pause() -> None:
    trial = begun()
    trial.members.deaf_to_programs = True
    until(trial, "CommandEnded")
    first = trial.cluster.now
    until(trial, "CommandAgain")
    assert trial.cluster.now - first >= datetime.timedelta(seconds=UNSEEN_SECONDS - 2)
    trial.members.deaf_to_programs = False
    trial.settle()
    assert trial.members.level == "1.1"


def test_a_program_waits_for_another_and_for_its_secrets() -> None:
    trial = begun()
    until(trial, "CommandStarted")
    seen, other = trial.observe(), CommandJob("other", EngineCommand(("other",)))
    decision = run_command(seen, LevelledAnswers(KEEPER), other, "another")
    assert (decision.reason, decision.steps) == ("CommandWaits", ())
    assert "raise-level" in decision.message
    trial.settle()
    missing = CommandJob("other", EngineCommand(("other",), secrets={"of-somebody-else": "/etc/theirs"}))
    decision = run_command(trial.observe(), LevelledAnswers(KEEPER), missing, "another")
    assert (decision.reason, decision.steps) == ("CommandWaits", ())
    trial.cluster.apply(_job("other"))
    (leaving,) = trial.cluster.list_objects("Job")
    world = trial.cluster.world()
    world.all("Job")[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    on_its_way = replace(trial.observe(), world=world)
    gone = run_command(on_its_way, LevelledAnswers(KEEPER), CommandJob("other", EngineCommand(("other",))), "another")
    assert (gone.reason, gone.steps) == ("CommandWaits", ())
    trial.cluster.delete(leaving)
    (started,) = run_command(trial.observe(), LevelledAnswers(KEEPER), other, "another").steps
    assert isinstance(started, Apply)


def test_what_runs_is_not_removed_and_neither_are_jobs_of_others() -> None:
    trial = begun()
    until(trial, "CommandRuns")
    assert remove_read_commands(trial.observe()) is None
    trial.cluster.apply(_ended({**_job("theirs"), "metadata": {"name": "theirs", "namespace": "ns", "labels": {}}}))
    assert remove_read_commands(trial.observe()) is None
    trial.cluster.apply(_ended(_job("mine")))
    for job in trial.cluster.list_objects("Job"):
        if job["metadata"]["name"] != "theirs":
            trial.cluster.set_status(job, _ended(job)["status"])
    decision = remove_read_commands(trial.observe())
    assert decision is not None
    assert "theirs" not in [each.object["metadata"]["name"] for each in decision.steps if isinstance(each, Delete)]
    assert len(decision.steps) == 2


def test_another_command_has_another_job() -> None:
    one, other = (CommandJob("raise", EngineCommand(("raise", level))) for level in ("1", "2"))
    long = APP.model_copy(update={"name": "a" * 60})
    assert command_job_name(APP, one) == command_job_name(APP, CommandJob("raise", EngineCommand(("raise", "1"))))
    assert command_job_name(APP, one) != command_job_name(APP, other)
    assert len(command_job_name(long, one)) <= 63
    assert command_job_name(long, one) != command_job_name(long, other)


@pytest.mark.parametrize("name", ["", "Raise", "raise it", "x" * 21, "-x", "../x"])
def test_the_name_of_a_program_is_part_of_an_objects_name(name: str) -> None:
    with pytest.raises(ValueError, match="no part of an object's name"):
        CommandJob(name, EngineCommand(("raise",)))


def test_what_keeps_a_program_from_starting_is_said() -> None:
    trial = begun()
    until(trial, "CommandRuns")
    (job,) = trial.cluster.list_objects("Job")
    world = trial.cluster.world()
    waits = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}, "name": "program"}
    for pod in world.all("Pod"):
        if JOB in pod["metadata"]["labels"]:
            pod["status"]["containerStatuses"] = [waits]
    outcome = find_outcome(world, job["metadata"]["name"])
    assert outcome is not None and outcome.state == "running" and "ErrImagePull" in outcome.words


def _app(trial: Trial) -> Keeper:
    return Keeper.from_manifest(trial.manifest)


def _job(name: str) -> dict[str, Any]:
    return make_command_job(APP, KEEPER.roles[0], CommandJob(name, EngineCommand((name,))), "keeper:1")


def _ended(job: dict[str, Any]) -> dict[str, Any]:
    end = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {**job, "status": {"conditions": [end]}}
