"""`fleet preview`: what a sync would do in every cluster, or what a merge changes. It writes nothing to any cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import choice_options, claim_options, colour_wanted, width_of_terminal
from fleet.cli.output import emit, remark
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.plan.budget import DeletionBudget
    from fleet.plan.views.summary import ViewHeader
    from fleet.preview.merge import Merged
    from fleet.repository.settings import Settings
    from fleet.sync.result import Result
    from fleet.sync.run import Run


def check_url(_: click.Context, __: click.Parameter, value: str | None) -> str:
    """Return an address that Markdown and forges take as it is; raise for what is none."""
    import re

    if value and not re.fullmatch(r"https?://[^\s<>\"'`\\]+", value):
        raise click.BadParameter(f"{value!r} is no address such as https://example.com/preview.html")
    return value or ""


@click.command()
@choice_options
@click.option("--revision", metavar="REV", help="Preview this commit and not the working tree.")
@click.option("--base", metavar="REV", help="Preview what merging --head into this revision changes.")
@click.option("--head", metavar="REV", help="What is merged into --base. [default: HEAD]")
@click.option(
    "--live",
    is_flag=True,
    help="With --base or --comment, ask the clusters too. Every change is tried there in a dry run.",
)
@click.option(
    "--record", is_flag=True, help="With --base or --comment, write into git what is shown, so that it can be applied."
)
@claim_options
@click.option("--comment", is_flag=True, help="Tell it on the pull request: one comment, and a commit status.")
@click.option(
    "--comment-file",
    "comment_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what --comment would tell to this file, for `fleet comment`; needs no token that writes.",
)
@click.option(
    "--pull-request",
    "number",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="The pull request of --comment or --comment-file. [default: that of the CI job]",
)
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the preview as an HTML page to this file, too.",
)
@click.option(
    "--html-url",
    "page_url",
    metavar="URL",
    callback=check_url,
    help="Where people find that page; --comment links to it.",
)
@click.option("--expect-no-changes", is_flag=True, help="Exit with code 7 if anything would change.")
@click.option("--show-unchanged", is_flag=True, help="Show objects that stay as they are, too.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "yaml", "markdown", "html"]),
    default="text",
    show_default=True,
    help="Form of the result on standard output.",
)
def preview(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    revision: str | None,
    base: str | None,
    head: str | None,
    live: bool,
    record: bool,
    renamed_from: Sequence[str],
    take_over: Sequence[str],
    comment: bool,
    comment_file: Path | None,
    number: int | None,
    page: Path | None,
    page_url: str,
    expect_no_changes: bool,
    show_unchanged: bool,
    form: str,
) -> int:
    """Show what `fleet sync` would do: stack by stack, cluster by cluster, object by object.

    Reads the working tree, so that a change can be looked at before it is committed.

    With --base, both sides come from git, and no cluster is asked unless --live says so: it shows what the merge
    changes in what git wants. Settings are those of the base. With --record that is noted on the branch for approvals,
    where `fleet sync --require-approved` looks for it.

    With --comment, it is told on a pull request of GitHub, GitLab or Gitea, which CI jobs know and others name. The
    token is FLEET_FORGE_TOKEN, else GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN. For a pull request from a fork no
    cluster is asked, --live or not, until somebody who may write to the repository comments `/fleet preview COMMIT`.

    With --comment-file, the same is written to a file, and `fleet comment` posts it: so that the job which evaluates
    what others wrote holds no token that may write.

    \b
    fleet preview --stack orders
    fleet preview --base origin/main --head HEAD --live
    fleet preview --expect-no-changes -o json
    """
    import asyncio
    from dataclasses import replace

    from fleet.cli.gc import collect_seldom
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.progress import shown
    from fleet.sync.rollout.describe import courses
    from fleet.sync.run import How, preview
    from fleet.sync.source import commit, evaluated, working_tree
    from fleet.sync.targets import targets

    collect_seldom()
    merging = bool(base or comment or comment_file)
    _check_flags(revision, head, merging=merging, asking=bool(live or not (kubeconfig or renamed_from or take_over)))
    _check_record(record=record, merging=merging, narrowed=bool(stacks or clusters))
    _check_comment_flags(comment=comment, file=comment_file, number=number, page_url=page_url, record=record)
    how = How(kubeconfig, claim=RepositoryOwnership("", frozenset(take_over), frozenset(renamed_from)), dry_run=True)
    keep = _record if record else _forget
    if comment or comment_file:
        from fleet.cli.commands.preview_comment import Wish, commented, write_for_comment

        def show(run: Run, about: ViewHeader) -> None:
            print_plan(run, form, unchanged=show_unchanged, about=about)
            write_page(run, page, about)

        def judge(run: Run) -> list[FleetError]:
            found = problems(run.results)
            return found or ([unexpected(changes_of(run))] if expect_no_changes and changes_of(run) else [])

        wish = Wish(number, base, head, page_url, stacks, clusters, how if live else None, keep)
        return finish(
            write_for_comment(wish, comment_file, show, judge) if comment_file else commented(wish, show, judge)
        )
    if base:
        from fleet.preview.merge import of_merge

        with shown(quiet=form != "text" or not live, lines=False) as progress:
            told = (how, progress) if live else ()
            run, about = of_merge(base, head or "HEAD", *told, stacks=stacks, clusters=clusters, keep=keep)
        print_plan(run, form, unchanged=show_unchanged, about=about)
        write_page(run, page, about)
        return finish(problems(run.results), changes_of(run) if expect_no_changes else 0)
    with commit(revision, known=True) if revision else working_tree() as files:
        evaluation = evaluated(files, stacks)
    claim = RepositoryOwnership(files.identity, frozenset(take_over), frozenset(renamed_from))
    settings = files.repository.settings
    how = How(kubeconfig, budget=allowance(settings), claim=claim, accounts=settings.trust.account, dry_run=live)
    with shown(quiet=form != "text", lines=False) as progress:
        run = asyncio.run(preview(targets(evaluation, stacks, clusters), how, progress))
    run = replace(run, remarks=(*run.remarks, *courses(evaluation.stacks, run.results)))
    print_plan(run, form, unchanged=show_unchanged)
    write_page(run, page)
    return finish(problems(run.results), changes_of(run) if expect_no_changes else 0)


def allowance(settings: Settings, said: int | None = None) -> DeletionBudget:
    """What may be taken away: as git says, or as a person says with --allow-deletes."""
    from fleet.plan.budget import DeletionBudget

    return (
        DeletionBudget(settings.budget.deletions, settings.budget.share)
        if said is None
        else DeletionBudget.override(said)
    )


def _check_flags(revision: str | None, head: str | None, *, merging: bool, asking: bool) -> None:
    if head and not merging:
        raise click.UsageError("--head says what is merged; --base, into what")
    if revision and merging:
        raise click.UsageError(
            "--revision is one commit against the clusters, --base, --head and --comment are about two: use either"
        )
    if merging and not asking:
        raise click.UsageError("--kubeconfig, --renamed-from and --take-over are about clusters: say --live too")


def _check_record(*, record: bool, merging: bool, narrowed: bool) -> None:
    if record and not merging:
        raise click.UsageError("--record is for what a merge changes: say --base too; `fleet approve` records a commit")
    if record and narrowed:
        raise click.UsageError("--record is of a whole change: leave out --stack and --cluster")


def _forget(made: Merged, *, fork: bool = False) -> None:
    """Nothing is kept of a preview unless that is asked for."""


def _record(made: Merged, *, fork: bool = False) -> None:
    """What could not be planned is not recorded either; why it could not is said at the end."""
    from fleet.approval.recording import record_merge

    if not made.is_whole:
        remark("not recorded: not all of it could be planned")
        return
    record, written = record_merge(made, fork=fork)
    remark(f"{'recorded' if written else 'recorded before'}: {record.head[:8]} as tree {record.tree[:8]}")


def _check_comment_flags(*, comment: bool, file: Path | None, number: int | None, page_url: str, record: bool) -> None:
    if comment and file:
        raise click.UsageError("--comment posts, and --comment-file leaves that to `fleet comment`: use either")
    if file and page_url:
        raise click.UsageError("--html-url is for the job that posts: say it to `fleet comment`")
    if file and record:
        raise click.UsageError("--record writes into git, which a job with --comment-file is not to do")
    if not (comment or file) and (number or page_url):
        raise click.UsageError("--pull-request and --html-url are about a comment: say --comment too")


def write_page(run: Run, file: Path | None, about: ViewHeader | None = None) -> None:
    if file is None:
        return
    from dataclasses import replace

    from fleet.errors import ConfigurationError
    from fleet.plan.views.html import html_page
    from fleet.plan.views.summary import LIVE_HEADER

    text = html_page(
        [result.branch for result in run.results], about=replace(about or LIVE_HEADER, remarks=run.remarks)
    )
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None


def print_plan(run: Run, form: str, *, unchanged: bool = False, about: ViewHeader | None = None) -> None:
    from dataclasses import replace

    from fleet.plan.views.summary import LIVE_HEADER

    branches = [result.branch for result in run.results]
    about = replace(about or LIVE_HEADER, remarks=run.remarks)
    if form == "markdown":
        from fleet.plan.views.markdown import markdown_comment

        click.echo(markdown_comment(branches, about=about))
    elif form == "html":
        from fleet.plan.views.html import html_page

        click.echo(html_page(branches, about=about), nl=False)
    else:
        from fleet.plan.views.json import plan_data
        from fleet.plan.views.text import text_tree

        data = plan_data(branches, unchanged=unchanged, about=about) if form != "text" else {}
        width = width_of_terminal()
        emit(
            data,
            form,
            lambda: text_tree(branches, colour=colour_wanted(), unchanged=unchanged, width=width, about=about),
        )
    for line in run.remarks:
        remark(line)


def changes_of(run: Run) -> int:
    plans = [one.plan for one in run.results if one.plan]
    return sum(bool(plan.taken_from) + sum(step.verb != "unchanged" for step in plan.steps) for plan in plans)


def problems(results: Sequence[Result]) -> list[FleetError]:
    """What is wrong, conflicts in the plans included."""
    from fleet.sync.result import objection_of, problem_of

    found = [one.problem or (problem_of(one.plan, None) if one.plan else None) for one in results]
    found += [objection_of(one.plan) for one in results if one.plan and not one.problem]
    return [problem for problem in found if problem]


def finish(found: Sequence[FleetError], changes: int = 0) -> int:
    """Raise what went wrong, then what was not expected; else 0."""
    from fleet.sync.result import failure

    error = failure(found)
    if error:
        raise error
    if changes:
        raise unexpected(changes)
    return 0


def unexpected(changes: int) -> FleetError:
    from fleet.errors import ChangesError

    return ChangesError(f"{count_noun(changes, 'change')} where none were expected")
