"""What becomes of results: one error with the right exit code, one report for git."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from fleet.cli.commands.destroy import describe_returning
from fleet.errors import (
    AccessError,
    ConflictError,
    FleetError,
    NotFoundError,
    PolicyError,
    ResourceError,
    Source,
)
from fleet.errors import TimeoutError as FleetTimeoutError
from fleet.evaluate import ClusterData, Evaluation, RolloutData, StackResult
from fleet.kit.observe.world import why_not_started
from fleet.kit.workload.jobs import troubles
from fleet.kube.cause import CauseReader, find_cause
from fleet.kube.client.errors import UnansweredError
from fleet.objects.desired import Desired, Key
from fleet.plan import Verb
from fleet.sync.health import object_health, worst_state
from fleet.sync.progress import LineProgress
from fleet.sync.report import make_report
from fleet.sync.result import ObjectHealth, Result, exit_error
from fleet.sync.targets import choose_targets, empty_targets
from fleet.text import quote_output, without_output


def cluster(name: str) -> ClusterData:
    return ClusterData(name, {}, None, None, False, Source("clusters/all.py", 1))


def evaluation() -> Evaluation:
    def stack(name: str, *places: str, needs: tuple[str, ...] = ()) -> StackResult:
        desired = tuple(Desired(name, place, ()) for place in places)
        return StackResult(name, Source("s.py", 1), places, RolloutData((), "0s", "15m"), desired, needs)

    stacks = (stack("base", "eu-1", "us-1"), stack("web", "eu-1", needs=("base",)))
    return Evaluation((cluster("eu-1"), cluster("us-1")), stacks)


@pytest.mark.parametrize(
    ("problems", "code"),
    [
        ([], 0),
        ([PolicyError("no")], 5),
        ([PolicyError("no"), None, PolicyError("never")], 5),
        ([AccessError("who?"), FleetTimeoutError("late")], 4),
        ([ConflictError("theirs"), ResourceError("broken")], 4),
    ],
)
def test_several_failures_share_a_code_or_become_4(problems: list[FleetError | None], code: int) -> None:
    error = exit_error(problems)
    assert (error.exit_code if error else 0) == code


def test_the_same_problem_in_two_stacks_is_said_once() -> None:
    error = exit_error([ResourceError("cannot reach us-1"), ResourceError("cannot reach us-1")])
    assert str(error) == "cannot reach us-1"


def test_a_cluster_without_stacks_is_a_target_for_it_may_have_something_to_forget() -> None:
    chosen = choose_targets(evaluation(), ["web"], [])
    assert [(one.cluster.name, [each.stack for each in one.desired]) for one in chosen] == [
        ("eu-1", ["web"]),
        ("us-1", []),
    ]
    assert not chosen[0].complete
    assert choose_targets(evaluation(), [], ["us-1"])[0].complete


def test_an_unknown_cluster_is_named_with_the_closest() -> None:
    with pytest.raises(NotFoundError) as caught:
        choose_targets(evaluation(), [], ["eu1"])
    assert caught.value.hint == "did you mean eu-1?"


def test_destroying_wants_nothing_of_the_stack_everywhere() -> None:
    chosen = empty_targets(evaluation().clusters, ["web", "web"], [])
    assert [[each.objects for each in one.desired] for one in chosen] == [[()], [()]]


def test_what_is_destroyed_and_still_in_git_comes_back() -> None:
    stacks = evaluation().stacks
    assert describe_returning(stacks, [("base", "eu-1"), ("base", "us-1"), ("gone", "us-1"), ("web", "us-1")]) == [
        "git still has base (s.py:1), and the next sync brings it back on eu-1 and us-1; "
        "to keep it away, remove the stack there and commit that"
    ], "web is not placed on us-1, and nobody has a stack `gone`"
    (line,) = describe_returning(stacks, [("base", "us-1")])
    assert line.endswith("to keep it away, take us-1 out of its clusters= and commit that")


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (None, "Synced"),
        (UnansweredError("no answer"), "Unreachable"),
        (ConflictError("theirs"), "Conflict"),
        (AccessError("who?"), "Failed"),
    ],
)
def test_a_report_says_in_one_word_how_the_sync_went(problem: FleetError | None, word: str) -> None:
    assert make_report(Result("web", "eu-1", problem=problem), "a" * 40).sync == word


def test_a_stack_that_is_late_is_synced_and_says_what_it_waits_for() -> None:
    app = ObjectHealth("Etcd", "web", "db", "Progressing", "2/3 ready", version="3.5.21", is_app=True)
    plain = ObjectHealth("ConfigMap", "web", "settings", "Healthy")
    result = Result("web", "eu-1", unhealthy=FleetTimeoutError("late"), health="Progressing", objects=(app, plain))
    report = make_report(result, "a" * 40)
    assert (report.sync, report.health, report.message) == ("Synced", "Progressing", "late")
    assert [(one.kind, one.version, one.health) for one in report.apps] == [("Etcd", "3.5.21", "Progressing")]


def test_the_worst_health_counts() -> None:
    states = ["Healthy", "Progressing", "Degraded"]
    assert worst_state(ObjectHealth("A", "", "a", state) for state in states) == "Degraded"
    assert worst_state([]) == "Healthy"


def test_what_was_done_is_said_in_words() -> None:
    result = Result("web", "eu-1")
    assert result.words == "no changes"
    result.done.update({Verb.CREATE: 2, Verb.DELETE: 1})
    assert result.words == "2 created, 1 deleted"


def test_lines_are_for_phases_and_not_for_what_moves(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineProgress()
    for detail in ("0/2", "1/2", "2/2"):
        lines.update("web", "eu-1", "applying", detail)
    lines.update("web", "eu-1", "done", "2 created")
    assert capsys.readouterr().err == "web on eu-1: applying (0/2)\n"


def test_a_long_silence_is_broken_by_what_is_still_at_work() -> None:
    lines, now = LineProgress(), time.monotonic()
    assert lines.still(now + 99) == "", "nothing is at work"
    lines.update("web", "eu-1", "looking")
    lines.update("web", "us-1", "waiting", "1/3 ready")
    assert lines.still(now + 29) == ""
    assert re.fullmatch(r"still at work after 3\d s: web on eu-1: looking, and 1 more", lines.still(now + 31))
    lines.update("web", "eu-1", "no changes")
    lines.update("web", "us-1", "waiting", "2/3 ready")
    assert re.fullmatch(r"still at work after 3\d s: web on us-1: waiting \(2/3 ready\)", lines.still(now + 31))
    lines.update("web", "us-1", "done")
    assert lines.still(now + 99) == ""


def test_what_containers_print_does_not_reach_git() -> None:
    ended = {"exitCode": 1, "message": "starting\nconnecting as admin: hunter2› failed\n"}
    status = {"phase": "Running", "containerStatuses": [{"name": "web", "lastState": {"terminated": ended}}]}
    pod = {"metadata": {"name": "web"}, "spec": {}, "status": status, "apiVersion": "v1", "kind": "Pod"}
    seen = object_health(Key("", "Pod", "shop", "web"), pod, is_app=False)
    assert "hunter2" in seen.message, "whoever may look into the cluster is told why"

    app = seen._replace(kind="Etcd", is_app=True)
    error = ResourceError(f"eu-1: Pod shop/web is degraded: {seen.message}")
    for result in (
        Result("shop", "eu-1", health="Degraded", objects=(seen, app)),
        Result("shop", "eu-1", health="Degraded", objects=(app,), unhealthy=error),
    ):
        told = make_report(result, "a" * 40)
        assert "hunter2" not in str(told)
        assert "container web ended and was restarted: (what it printed stays in the cluster)" in told.message
        assert told.apps[0].message in told.message


def test_what_other_operators_write_into_their_resources_is_copied() -> None:
    """A limit that docs/security.md names: whether such a text repeats what a container printed is not known."""
    said = {"type": "Ready", "status": "False", "reason": "JobFailed", "message": "job printed: login hunter2"}
    resource = {
        "apiVersion": "db.example.com/v1",
        "kind": "Database",
        "metadata": {"name": "db"},
        "status": {"conditions": [said]},
    }
    seen = object_health(Key("db.example.com", "Database", "shop", "db"), resource, is_app=False)
    assert seen.message == "job printed: login hunter2" == without_output(seen.message)
    error = ResourceError(f"eu-1: Database shop/db is degraded: {seen.message}")
    report = make_report(Result("shop", "eu-1", health="Degraded", objects=(seen,), unhealthy=error), "a" * 40)
    assert "hunter2" in report.message


HOOK = (
    'Exec lifecycle hook ([sh -c login --password=hunter2]) for Container "web" in Pod "web" failed - error: command '
    'exited with 1: hunter2› is wrong, message: "hunter2\\n"'
)


@pytest.mark.parametrize("reason", ["PostStartHookError", "PreStopHookError"])
def test_what_hooks_of_containers_print_does_not_reach_git(reason: str) -> None:
    """Kubelet repeats a hook's command and output; of other reasons its message is its own, and is told."""
    text = without_output(find_cause(_waiting(reason, HOOK), CauseReader((_waiting(reason, HOOK),))))
    seen = without_output(object_health(Key("", "Pod", "shop", "web"), _waiting(reason, HOOK), is_app=False).message)
    member, backup = without_output(why_not_started(_waiting(reason, HOOK), "web")), troubles(_waiting(reason, HOOK))
    for message in (text, seen, member, without_output(backup)):
        assert "hunter2" not in message
        assert message.endswith(f"{reason}: (what it printed stays in the cluster)")
    assert "hunter2" in backup, "whoever may look into the cluster is told why"
    missing = 'secret "keys" not found'
    pod = _waiting("CreateContainerConfigError", missing)
    told = (
        find_cause(pod, CauseReader((pod,))),
        object_health(Key("", "Pod", "shop", "web"), pod, is_app=False).message,
    )
    for message in (*told, why_not_started(pod, "web"), troubles(pod)):
        assert without_output(message).endswith(f"CreateContainerConfigError: {missing}")


def _waiting(reason: str, message: str) -> dict[str, Any]:
    container = {"name": "web", "state": {"waiting": {"reason": reason, "message": message}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {},
        "status": {"phase": "Pending", "containerStatuses": [container]},
    }


@pytest.mark.parametrize("text", ["‹a› and ‹b", "‹a‹b›", "‹ and › and ‹x›"])
def test_output_is_taken_out_also_where_it_has_marks_itself_or_is_cut_off(text: str) -> None:
    assert without_output(f"it ended: {quote_output(text)}, again") == (
        "it ended: (what it printed stays in the cluster), again"
    )
    assert without_output(quote_output(text)[:-2]) == "(what it printed stays in the cluster)"
