"""`fleet preview`: what a sync would do in every cluster, or what a merge changes. It writes nothing to any cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import ownership_options, parse_page_url, selection_options
from fleet.cli.output import print_message
from fleet.cli.plans import count_changes, plan_output_option, print_plan, write_page
from fleet.cli.results import collect_errors, finish, make_changes_error

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.plan.views.summary import ViewHeader
    from fleet.preview.merge import MergePreview
    from fleet.sync.run import Run


@click.command()
@selection_options
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
@ownership_options
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
    callback=parse_page_url,
    help="Where people find that page; --comment links to it.",
)
@click.option("--expect-no-changes", is_flag=True, help="Exit with code 7 if anything would change.")
@click.option("--show-unchanged", is_flag=True, help="Show objects that stay as they are, too.")
@plan_output_option
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
    from dataclasses import replace

    from fleet.cli.process import collect_rarely
    from fleet.cli.sync_hooks import PlanningHooks
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.commit import CommitOptions, plan_commit
    from fleet.sync.options import SyncOptions
    from fleet.sync.progress import show_progress
    from fleet.sync.rollout.order import describe_rollouts
    from fleet.sync.source import read_commit, read_working_tree

    collect_rarely()
    merging = bool(base or comment or comment_file)
    _check_sides(revision, head, merging=merging, asking=bool(live or not (kubeconfig or renamed_from or take_over)))
    _check_record(record=record, merging=merging, narrowed=bool(stacks or clusters))
    _check_comment_flags(comment=comment, file=comment_file, number=number, page_url=page_url, record=record)
    sync_options = SyncOptions(
        kubeconfig, claim=RepositoryOwnership("", frozenset(take_over), frozenset(renamed_from)), dry_run=True
    )
    keep = _record_merge if record else _keep_nothing
    if comment or comment_file:
        from fleet.cli.preview_comment import CommentOptions, post_preview, write_for_comment

        def show(run: Run, about: ViewHeader) -> None:
            print_plan(run, form, unchanged=show_unchanged, about=about)
            write_page(run, page, about)

        def judge(run: Run) -> list[FleetError]:
            errors = collect_errors(run.results)
            return errors or (
                [make_changes_error(count_changes(run))] if expect_no_changes and count_changes(run) else []
            )

        options = CommentOptions(number, base, head, page_url, stacks, clusters, sync_options if live else None, keep)
        if comment_file:
            return finish(write_for_comment(options, comment_file, show, judge))
        return finish(post_preview(options, show, judge))
    if base:
        from fleet.preview.merge import preview_merge

        with show_progress(quiet=form != "text" or not live, lines=False) as progress:
            asking = (sync_options, progress) if live else ()
            run, about = preview_merge(base, head or "HEAD", *asking, stacks=stacks, clusters=clusters, keep=keep)
        print_plan(run, form, unchanged=show_unchanged, about=about)
        write_page(run, page, about)
        return finish(collect_errors(run.results), count_changes(run) if expect_no_changes else 0)
    flags = CommitOptions(
        kubeconfig, stacks=stacks, clusters=clusters, take_over=take_over, renamed_from=renamed_from, dry_run=live
    )
    with read_commit(revision, use_cache=True) if revision else read_working_tree() as files:
        planned = plan_commit(files, flags, PlanningHooks(form))
    run = planned.run
    run = replace(run, remarks=(*run.remarks, *describe_rollouts(planned.evaluation.stacks, run.results)))
    print_plan(run, form, unchanged=show_unchanged)
    write_page(run, page)
    return finish(collect_errors(run.results), count_changes(run) if expect_no_changes else 0)


def _check_sides(revision: str | None, head: str | None, *, merging: bool, asking: bool) -> None:
    """Raise UsageError if the options about revisions do not fit each other."""
    if head and not merging:
        raise click.UsageError("--head says what is merged; --base, into what")
    if revision and merging:
        raise click.UsageError(
            "--revision is one commit against the clusters, --base, --head and --comment are about two: use either"
        )
    if merging and not asking:
        raise click.UsageError("--kubeconfig, --renamed-from and --take-over are about clusters: say --live too")


def _check_record(*, record: bool, merging: bool, narrowed: bool) -> None:
    """Raise UsageError if there is nothing whole to record."""
    if record and not merging:
        raise click.UsageError("--record is for what a merge changes: say --base too; `fleet approve` records a commit")
    if record and narrowed:
        raise click.UsageError("--record is of a whole change: leave out --stack and --cluster")


def _keep_nothing(merge: MergePreview, *, fork: bool = False) -> None:
    """Keep nothing of a preview: the user did not ask for a record."""


def _record_merge(merge: MergePreview, *, fork: bool = False) -> None:
    """Record a preview as approvals need it. One that could not be planned is not; the reason is printed at the end."""
    from fleet.approval.recording import record_merge

    if not merge.is_whole:
        print_message("not recorded: not all of it could be planned")
        return
    record, written = record_merge(merge, fork=fork)
    print_message(f"{'recorded' if written else 'recorded before'}: {record.head[:8]} as tree {record.tree[:8]}")


def _check_comment_flags(*, comment: bool, file: Path | None, number: int | None, page_url: str, record: bool) -> None:
    """Raise UsageError if the options about a comment do not fit each other."""
    if comment and file:
        raise click.UsageError("--comment posts, and --comment-file leaves that to `fleet comment`: use either")
    if file and page_url:
        raise click.UsageError("--html-url is for the job that posts: say it to `fleet comment`")
    if file and record:
        raise click.UsageError("--record writes into git, which a job with --comment-file is not to do")
    if not (comment or file) and (number or page_url):
        raise click.UsageError("--pull-request and --html-url are about a comment: say --comment too")
