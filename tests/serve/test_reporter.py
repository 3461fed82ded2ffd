"""What a service keeps of results and says of them: from data."""

from __future__ import annotations

from dataclasses import replace

from fleet.errors import ConfigurationError, ResourceError
from fleet.kube.client.errors import UnansweredError
from fleet.kube.runtime.metrics import Counter
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit, FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report.notify import Notifier
from fleet.serve.report.reporter import AgentReports, Reporter, Results
from fleet.serve.report.status import StatusWriter
from fleet.serve.rollback import PendingRollbacks, RollbackOutcome
from fleet.sync.result import Result
from tests.serve.test_rollout import WANTED

NEWER = replace(WANTED, files=replace(WANTED.files, revision="b" * 40))
EU, US = ("orders", "eu"), ("orders", "us")


def result(cluster: str, health: str = "Healthy", problem: ResourceError | None = None) -> Result:
    return Result("orders", cluster, health=health, problem=problem)


def reporter(current: EvaluatedCommit | None = WANTED, *, writes: bool = True) -> Reporter:
    commit = CurrentCommit(current)
    counted = Counter("told", "", ("what", "result"), registry=None)
    notifier = Notifier(FollowedRepository("https://git.example.com/shop"), ServeOptions(), commit, counted)
    writer = StatusWriter() if writes else None
    return Reporter(commit, Results(), AgentReports(), PendingRollbacks(), notifier, writer)


def test_results_hold_for_the_next_commit_where_it_changes_nothing_and_only_if_they_are_of_the_one_before() -> None:
    results = Results()
    results.put(WANTED.commit, result("eu"))
    assert not results.are_complete(WANTED)
    results.put(WANTED.commit, result("us"))
    assert results.are_complete(WANTED)
    assert [one.cluster for one in results.carry_over(WANTED.commit, NEWER.commit, {US})] == ["eu"]
    assert not results.are_complete(NEWER), "us is still to be synced"
    assert results.carry_over(WANTED.commit, "c" * 40, {US}) == [], "no result of eu is of that commit any more"
    assert results.include([EU, US])
    assert results.forget_all_but([US]) == [EU]
    assert not results.include([EU, US])


def test_a_cluster_that_did_not_answer_one_pass_is_silent_and_nothing_failed_counts_as_applied() -> None:
    results = Results()
    results.put(WANTED.commit, result("eu", problem=ResourceError("refused")))
    assert (results.is_silent("eu"), results.failed_in("eu"), results.is_applied(EU)) == (False, [EU], False)
    results.put(WANTED.commit, result("eu", problem=UnansweredError("no answer")))
    assert (results.is_silent("eu"), results.is_silent("us")) == (True, False)
    results.put(WANTED.commit, replace(result("eu"), suspended="suspended by ada"))
    assert not results.is_applied(EU)
    results.put(WANTED.commit, result("eu"))
    assert results.is_applied(EU)


def test_the_status_branch_says_all_only_when_every_placement_is_synced_and_written() -> None:
    assert reporter(None).has_told_all
    assert not reporter(None, writes=False).has_told_all
    made = reporter()
    for cluster in ("eu", "us"):
        assert not made.has_told_all
        made.results.put(WANTED.commit, result(cluster))
    assert made.has_told_all
    made.tell([result("eu")], WANTED.revision)
    assert not made.has_told_all, "this report is not in git yet"


def test_while_a_newer_commit_has_an_error_every_stack_is_reported_with_that_error() -> None:
    made = reporter()
    made.tell_of_pass(WANTED.revision, result("eu"))
    assert _last(made, "eu") == (WANTED.revision, "")
    made.current.tip, made.current.error = NEWER.commit, ConfigurationError("it cannot be read")
    made.tell_of_pass(WANTED.revision, result("eu"))
    assert _last(made, "eu") == (NEWER.revision, "it cannot be read")
    made.tell_of_pass(WANTED.revision, result("us", problem=ResourceError("refused")))
    assert _last(made, "us") == (WANTED.revision, "refused"), "what the cluster says comes first"
    made.current.tip = WANTED.commit
    assert made.current.broken_revision == "", "the remote does not answer: no commit is known to be broken"


def test_a_report_about_a_stack_that_is_ill_says_what_became_of_its_rollback() -> None:
    made = reporter()
    made.rollbacks.note("orders", WANTED.revision, RollbackOutcome("stopped", "it is not rolled back"))
    made.tell([result("eu", "Degraded"), result("us")], WANTED.revision)
    assert (_last(made, "eu")[1], _last(made, "us")[1]) == ("it is not rolled back", "")
    made.tell([result("eu", "Degraded")], NEWER.revision)
    assert _last(made, "eu") == (NEWER.revision, ""), "that was about another commit"


def _last(made: Reporter, cluster: str) -> tuple[str, str]:
    """The newest report that waits to be written: its commit and its message."""
    assert made.writer is not None
    report = made.writer._news["orders", cluster]
    return report.revision, report.message
