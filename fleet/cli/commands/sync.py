"""`fleet sync`: make every cluster what a commit says, wait until it is healthy, and write that into git."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.commands.preview import allowance, changes_of, finish, problems
from fleet.cli.options import (
    any_branch_option,
    choice_options,
    claim_options,
    colour_wanted,
    signers_option,
    wait_options,
    width_of_terminal,
)
from fleet.cli.output import emit, output_option, remark

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.evaluate.result import Evaluation
    from fleet.git.status_records import Record
    from fleet.plan.inventory import Suspension
    from fleet.sync.result import Result
    from fleet.sync.rollout.order import Order
    from fleet.sync.run import Run
    from fleet.sync.source import Files
    from fleet.sync.targets import Target


@click.command()
@choice_options
@click.option("--revision", metavar="REV", help="The commit to apply. [default: HEAD]")
@wait_options
@claim_options
@click.option("--expect-no-changes", is_flag=True, help="Change nothing; exit with code 7 if anything would change.")
@click.option("--show-unchanged", is_flag=True, help="Show objects that stay as they are, too.")
@click.option(
    "--require-approved", is_flag=True, help="Apply only what was recorded as approved. [default: as fleet.toml says]"
)
@click.option(
    "--target",
    "only",
    multiple=True,
    metavar="PATTERN",
    help="Change only these objects and what they need: STACK, STACK/NAME or STACK/KIND/NAME; may be repeated.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave these objects as they are, in the words of --target.",
)
@click.option("--dry-run", is_flag=True, help="Let the servers try every change, and write nothing to anybody.")
@click.option(
    "--allow-deletes",
    type=click.IntRange(min=0),
    metavar="N",
    help="Let this one sync take away up to N objects per cluster, whatever the budget says.",
)
@click.option("--ignore-rollout", is_flag=True, help="Change all clusters at once, whatever the stacks' rollouts say.")
@click.option("--allow-rewritten", is_flag=True, help="Apply a commit that does not go on from what was applied.")
@any_branch_option
@signers_option
@click.option("--status/--no-status", default=True, help="Write health into git. [default: status]")
@output_option
def sync(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    revision: str | None,
    wait: bool,
    timeout: float,
    renamed_from: Sequence[str],
    take_over: Sequence[str],
    expect_no_changes: bool,
    show_unchanged: bool,
    require_approved: bool,
    only: Sequence[str],
    exclude: Sequence[str],
    dry_run: bool,
    allow_deletes: int | None,
    ignore_rollout: bool,
    allow_rewritten: bool,
    any_branch: bool,
    signers: Path | None,
    status: bool,
    form: str,
) -> int:
    """Apply a commit to every cluster that it is about.

    Only commits are applied; what is not committed is left out and named, and what is not pushed is named. A cluster
    that cannot be reached fails alone. Nothing is deleted that this stack did not make, nor more than the budget of
    fleet.toml allows. A stack that another repository applied is refused, and so is a commit that does not go on from
    the one that was applied, or is of another branch than the one that fleet.toml says is synced.

    Clusters are changed in the order that the stacks' rollouts and dependencies give, as by `fleet serve`: each begins
    when those before it have the commit and are healthy. What waits for something that this run does not bring about
    (a person's word, a window, a cluster that is ill) is left as it is, with exit code 5; the next sync goes on from
    there. With --no-wait only what may begin now is applied.

    With --require-approved, or where fleet.toml requires it, a cluster is changed only if everything that would be done
    there was previewed and recorded, and nothing more destructive than that; else it is left alone, with exit code 5.

    \b
    fleet sync
    fleet sync --stack orders --cluster eu-1 --timeout 30m
    fleet sync --allow-deletes 12
    """
    from fleet.cli.gc import collect_seldom
    from fleet.sync.report import check_destination
    from fleet.sync.source import check_branch, commit, evaluated, narrowed

    collect_seldom()
    with commit(revision or "HEAD", known=True) as files:
        for line in check_branch(files, any_branch=any_branch or dry_run or expect_no_changes):
            remark(line)
        _check_signature(files, signers)
        if status:
            check_destination(files)
        everything = require_approved or files.repository.settings.approval.required
        evaluation = evaluated(files, () if everything else stacks)

    import asyncio
    from dataclasses import replace

    from fleet.approval.gate import Gate
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.plan.selection import Selection
    from fleet.sync.progress import shown
    from fleet.sync.rollout.describe import courses
    from fleet.sync.run import How, preview, sync
    from fleet.sync.safety import check_run
    from fleet.sync.targets import targets

    narrowing = Selection(tuple(only), tuple(exclude))
    chosen = narrowed(evaluation, stacks)
    wanted = targets(chosen, stacks, clusters, narrowing)
    budget = allowance(files.repository.settings, allow_deletes)
    claim = RepositoryOwnership(files.identity, frozenset(take_over), frozenset(renamed_from))
    gate = Gate(files, evaluation, required=require_approved)
    settings = files.repository.settings
    how = How(
        kubeconfig,
        wait=wait,
        timeout=timeout,
        budget=budget,
        claim=claim,
        accounts=settings.trust.account,
        dry_run=dry_run,
        gate=gate,
        order=None if ignore_rollout or dry_run else _order(files, chosen, wanted, wait=wait, told=status),
        elsewhere=_suspended(chosen, clusters, kubeconfig) if clusters else None,
    )
    with shown(quiet=form != "text") as progress:

        def approve(planned: Run) -> None:
            if form == "text":
                progress.say(_plan_text(planned, unchanged=show_unchanged))
                for line in courses(chosen.stacks, planned.results):
                    remark(line + (": ignored, as --ignore-rollout says" if ignore_rollout else ""))
            narrowing.check(one.plan for one in planned.results if one.plan)
            if expect_no_changes:
                finish(problems(planned.results), changes_of(planned))
            check_run(
                files,
                chosen,
                planned,
                budget,
                stacks=stacks,
                remembered=status,
                back=revision is not None,
                rewritten=allow_rewritten,
            )

        if dry_run:
            tried = asyncio.run(preview(wanted, how, progress, revision=files.revision))
            tried = replace(tried, results=tuple(gate.judge(tried.results)))
            approve(tried)
            return _tried(tried, files, form)
        run = asyncio.run(sync(wanted, how, progress, revision=files.revision, approve=approve))
    found = problems(run.results) + [one.unhealthy for one in run.results if one.unhealthy]
    part = bool(narrowing)
    written = _published(files, run, wanted, narrowed=bool(clusters), part=part) if status else None
    emit({"revision": files.revision, **results_data(run.results)}, form, lambda: results_text(run.results))
    for line in run.remarks:
        remark(line)
    return finish([*found, *([written] if written else [])])


def _order(files: Files, chosen: Evaluation, wanted: Sequence[Target], *, wait: bool, told: bool) -> Order:
    """What the run goes by. Git is asked only for what one of the stacks asks about; `told`: the status branch, too."""
    from contextlib import suppress

    from fleet.errors import FleetError
    from fleet.git.status import chosen as at
    from fleet.git.status import read_status
    from fleet.sync.rollout.approvals import Approvals, read
    from fleet.sync.rollout.order import Order, bystanders, watched
    from fleet.times import seconds

    settings, git = files.repository.settings.git, files.git
    assert git is not None  # noqa: S101 - commits come from git

    def approvals() -> Approvals:
        return read(git, at(files.remotes, settings.remote))

    records: dict[tuple[str, str], Record] = {}
    matters = watched(chosen.stacks)
    pulled = {one.name for one in chosen.clusters if one.pull}
    away = [
        (one.name, where) for one in chosen.stacks if one.name in matters for where in one.clusters if where in pulled
    ]
    if told and (away or any(seconds(one.rollout.soak) for one in chosen.stacks)):
        with suppress(FleetError):  # then whatever is well is so since now, and of what agents did nothing is known
            found = read_status(git, remote=at(files.remotes, settings.remote), branch=settings.status_branch)
            records = {(one.stack, one.cluster): one for one in found.records}
    elsewhere = {}
    if away:
        from fleet.bundle.publish import heard_of_agents

        elsewhere = heard_of_agents(files, away, records)
    return Order(
        {one.name: one for one in chosen.stacks},
        wait=wait,
        approvals=approvals,
        bystanders=bystanders(chosen, wanted),
        told=records,
        elsewhere=elsewhere,
    )


def _suspended(
    chosen: Evaluation, asked: Collection[str], kubeconfig: Path | None
) -> Callable[[Sequence[str]], Awaitable[Mapping[str, Suspension]]]:
    """What was said for everywhere, by the clusters that the run is not about."""
    from fleet.sync.run import connect
    from fleet.sync.suspension import Words, besides

    return lambda stacks: Words().everywhere(
        besides((one for one in chosen.stacks if one.name in stacks), chosen.clusters, asked),
        lambda one: connect(one, kubeconfig),
    )


def _tried(run: Run, files: Files, form: str) -> int:
    """The end of a dry run: what would be done, and what speaks against it."""
    if form != "text":
        from fleet.plan.views.json import plan_data

        plan = plan_data([one.branch for one in run.results])
        emit({"revision": files.revision, "plan": plan}, form, lambda: "")
    for line in run.remarks:
        remark(line)
    return finish(problems(run.results))


def _check_signature(files: Files, signers: Path | None) -> None:
    if signers:
        from fleet.sync.source import check_signature

        assert files.git is not None  # noqa: S101 - commits come from git
        check_signature(files.git, files.revision, signers)


def _published(files: Files, run: Run, wanted: Sequence[Target], *, narrowed: bool, part: bool) -> FleetError | None:
    """The clusters are what they are: that git could not be told is an error of its own, said last."""
    from fleet.errors import FleetError
    from fleet.sync.report import no_more, publish, seen_from_here

    if part:
        remark("health was not written into git: only a part of the commit was applied")
        return None
    results = seen_from_here(run.results, run.looked_at, by_account=bool(files.repository.settings.trust.account))
    seen = {(one.stack, one.cluster) for one in results}
    unseen = [f"{one.stack} on {one.cluster}" for one in run.results if (one.stack, one.cluster) not in seen]
    if unseen:
        more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
        remark(f"not written into git, since it could not be looked at from here: {', '.join(unseen[:5])}{more}")
    try:
        if narrowed:
            publish(files, results)
        else:
            publish(files, results, gone=no_more(wanted))
    except FleetError as problem:
        problem.message = f"health was not written into git: {problem.message}"
        problem.hint = problem.hint or "--no-status leaves it out"
        return problem
    return None


def _plan_text(planned: Run, *, unchanged: bool) -> str:
    from fleet.plan.views.text import text_tree

    branches = [result.branch for result in planned.results]
    return text_tree(branches, colour=colour_wanted(), unchanged=unchanged, width=width_of_terminal())


def results_text(results: Sequence[Result]) -> str:
    from fleet.plan.views.escape import escape_line
    from fleet.plan.views.text import paint
    from fleet.sync.result import WaitingError

    colour = colour_wanted()
    lines = []
    for one in results:
        waits = isinstance(one.problem, WaitingError)
        mark, code = (
            ("✗", 31)
            if (one.problem and not waits) or one.unhealthy
            else ("✓", 32)
            if not waits and (one.health == "Healthy" or one.leaving)
            else ("•", 33)
        )
        lines.append(f"{paint(mark, code, colour)} {one.stack} on {one.cluster}: {escape_line(', '.join(_said(one)))}")
    return "\n".join(lines) or "nothing is placed on any cluster"


def _said(one: Result) -> list[str]:
    """What became of it in few words; the errors themselves are said at the end."""
    from fleet.sync.result import WaitingError

    words = [] if one.problem and not one.done else [one.words]
    if isinstance(one.problem, WaitingError):
        return [*words, f"waiting: {one.problem.reason}"]
    if one.problem:
        return [*words, "failed"]
    if one.leaving:
        return [*words, "no longer placed there and left running"]
    if not one.objects:
        return words
    ill = next((each for each in one.objects if each.state == one.health != "Healthy"), None)
    reason = f" ({ill.title}: {ill.message})" if ill and ill.message else ""
    return [*words, one.health.lower() + reason]


def results_data(results: Sequence[Result]) -> dict[str, Any]:
    from fleet.plan.views.json import plan_data

    return {
        "results": [
            {
                "stack": one.stack,
                "cluster": one.cluster,
                "done": {verb.value: count for verb, count in sorted(one.done.items())},
                "health": one.health,
                "error": str(one.problem or one.unhealthy) if one.problem or one.unhealthy else None,
                "objects": [
                    {
                        "kind": each.kind,
                        "namespace": each.namespace,
                        "name": each.name,
                        "health": each.state,
                        "message": each.message,
                    }
                    for each in one.objects
                    if each.state != "Healthy" or each.is_app
                ],
            }
            for one in results
        ],
        "plan": plan_data([one.branch for one in results]),
    }
