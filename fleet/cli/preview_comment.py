"""Previews of pull requests, posted there or written to a file: what `fleet preview` and `fleet comment` share.

The pull request and its commits come from options or the CI job. `fleet preview --comment` posts the preview itself;
with `--comment-file` it writes a file, and `fleet comment` posts that in a job with a token. It is imported when one of
these runs, since it loads what evaluates and what speaks to forges.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from fleet.cli.output import print_message
from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.forge import detect
from fleet.forge.detect import detect_repository, read_token
from fleet.forge.forge import CiJob, Forge, ForgeRepository, PullRequest, connect
from fleet.git.repository import GitRepository
from fleet.preview.comment import (
    CommentIdentity,
    CommentText,
    PreviewRequest,
    error_text,
    post_error,
    post_pending,
    preview_text,
    read_request,
)
from fleet.preview.comment import post_preview as tell
from fleet.preview.comment_file import describe_preview, describe_refusal, write_comment
from fleet.preview.merge import MergePreview, preview_merge
from fleet.repository import find_root
from fleet.repository.settings import FILE, ForgeSettings, read_settings

if TYPE_CHECKING:
    from fleet.plan.views.summary import ViewHeader
    from fleet.sync.options import SyncOptions
    from fleet.sync.run import Run

T = TypeVar("T")


class KeepHook(Protocol):
    """A function of the caller that may record the preview of a merge; `fork` says whether its head is a fork's."""

    def __call__(self, merge: MergePreview, *, fork: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class CommentOptions:
    """The options of `fleet preview` that matter for a comment."""

    number: int | None  # of the pull request; None for that of the CI job
    base: str | None
    head: str | None
    page: str  # address of the HTML page; "" for none
    stacks: Sequence[str]
    clusters: Sequence[str]
    sync_options: SyncOptions | None  # to ask the clusters, where the pull request may; None without --live
    keep: KeepHook


def post_preview(
    options: CommentOptions, show: Callable[[Run, ViewHeader], None], judge: Callable[[Run], list[FleetError]]
) -> list[FleetError]:
    """Make the preview, `show` it and post it; return the errors in it. Raise an error if that is impossible."""
    job = detect.detect_job(os.environ)
    number = options.number or (job.number if job else None)
    if number is None:
        raise click.UsageError("which pull request? Say --pull-request NUMBER: this is no CI job of one")
    git, directory = find_fleet()
    identity = CommentIdentity(directory, options.page)
    repository = detect_repository(find_remote(git), read_forge_settings(git, options.base, directory), job)
    forge_session = ForgeSession(repository, read_token(repository, os.environ), identity)

    request = forge_session.ask(lambda forge: read_request(forge, number, live=options.sync_options is not None))
    pull_request = request.pull_request
    if not options.head and is_overtaken(job, pull_request):
        return []
    fetch = pull_request.fetch_ref(repository.kind)
    base, head = _find_base(git, options.base, pull_request), _find_head(git, options.head, pull_request, fetch)
    forge_session.ask(lambda forge: post_pending(forge, request, identity))
    try:
        run, about = _make_preview(options, request, base, head)
    except FleetError as error:
        forge_session.post(request, error_text(error, request=request, identity=identity))
        raise
    except BaseException:
        forge_session.ask(lambda forge: post_error(forge, request, identity, "the preview did not come to its end"))
        raise
    show(run, about)
    errors = judge(run)
    branches = [result.branch for result in run.results]
    about = replace(about, remarks=run.remarks)
    forge_session.post(
        request, preview_text(branches, about, errors, request=request, identity=identity, room=forge_session.room)
    )
    return errors


def write_for_comment(
    options: CommentOptions,
    file: Path,
    show: Callable[[Run, ViewHeader], None],
    judge: Callable[[Run], list[FleetError]],
) -> list[FleetError]:
    """Make the preview, `show` it, and write to a file what is to be posted; return the errors in it.

    No token is needed, unless clusters are to be asked or the job does not know the commits: then one that may read.
    """
    if not file.parent.is_dir():
        raise ConfigurationError(f"{file} cannot be written: there is no directory {file.parent}")
    git, directory = find_fleet()
    request, ref = _describe_request(options, git) or _ask_request(options, git, directory)
    pull_request, live = request.pull_request, options.sync_options is not None
    base, head = _find_base(git, options.base, pull_request), _find_head(git, options.head, pull_request, ref)
    try:
        run, about = _make_preview(options, request, base, head)
    except FleetError as error:
        write_comment(file, describe_refusal(error, head=head, live=live))
        raise
    show(run, about)
    errors = judge(run)
    branches = [result.branch for result in run.results]
    about = replace(about, remarks=run.remarks)
    write_comment(file, describe_preview(branches, about, errors, head=head, live=live))
    print_message(f"wrote {file}: `fleet comment` posts it")
    return errors


def _describe_request(options: CommentOptions, git: GitRepository) -> tuple[PreviewRequest, str] | None:
    """Return the pull request as options or the CI job have it, and the ref of its head; None: the forge must be asked.

    Neither is believed about whose the head is: it counts as a fork's.
    """
    job = detect.detect_job(os.environ)
    if options.sync_options is not None:
        return None
    if options.base and options.number is None and (options.head or job is None or job.number is None):
        name = options.head or "HEAD"
        return PreviewRequest(PullRequest(0, "", "", "", options.base, "", name, git.resolve(name).id, fork=True)), name
    if job is None or job.number is None or not (job.head and job.base_ref) or options.number not in (None, job.number):
        return None
    pull_request = PullRequest(job.number, "", "", "", job.base_ref, job.base_sha, job.head_ref, job.head, fork=True)
    return PreviewRequest(pull_request), pull_request.fetch_ref(job.repository.kind)


def _ask_request(options: CommentOptions, git: GitRepository, directory: str) -> tuple[PreviewRequest, str]:
    """Return the pull request as the forge has it, and the ref of its head."""
    job = detect.detect_job(os.environ)
    number = options.number or (job.number if job else None)
    if number is None:
        raise click.UsageError(
            "what is merged into what? Say --base (and --head), or --pull-request NUMBER: this is no CI job of one"
            if options.sync_options is None
            else "which pull request? Say --pull-request NUMBER: with --live the forge is asked whether it is a fork's"
        )
    repository = detect_repository(find_remote(git), read_forge_settings(git, options.base, directory), job)
    forge_session = ForgeSession(repository, read_token(repository, os.environ), CommentIdentity(directory))
    request = forge_session.ask(lambda forge: read_request(forge, number, live=options.sync_options is not None))
    return request, request.pull_request.fetch_ref(repository.kind)


def is_overtaken(job: CiJob | None, pull_request: PullRequest) -> bool:
    """Return whether another commit was pushed since the CI job began, and say so."""
    if not (job and job.number == pull_request.number and job.head and job.head != pull_request.head_sha):
        return False
    newer = pull_request.head_sha[:8]
    print_message(f"pull request {pull_request.number} has a newer head than this job: {newer}; nothing is posted")
    return True


def find_fleet() -> tuple[GitRepository, str]:
    """Return the git repository around the current directory, and the fleet's directory in it: "" for its root."""
    root = find_root()
    git = GitRepository.find(root)
    directory = root.relative_to(git.root.resolve()).as_posix()
    return git, "" if directory == "." else directory


@dataclass(frozen=True, slots=True)
class ForgeSession:
    """A forge that is asked a few things at a time: evaluating in between has an event loop of its own."""

    repository: ForgeRepository
    token: str
    identity: CommentIdentity

    def ask(self, request: Callable[[Forge], Awaitable[T]]) -> T:
        """Connect to the forge, make a request, and return the response."""

        async def run() -> T:
            async with connect(self.repository, self.token) as forge:
                return await request(forge)

        return asyncio.run(run())

    @property
    def room(self) -> int:
        """Return how many characters a comment may have."""
        from fleet.forge.comments import longest_part

        return longest_part(connect(self.repository, self.token))

    def post(self, request: PreviewRequest, text: CommentText) -> None:
        """Post the comment and the commit status; say where, or that the pull request has moved on."""
        url = self.ask(lambda forge: tell(forge, request, self.identity, text))
        number = request.pull_request.number
        print_message(
            f"told on {url}" if url else f"pull request {number} has moved on meanwhile; no comment was posted"
        )


def _make_preview(options: CommentOptions, request: PreviewRequest, base: str, head: str) -> tuple[Run, ViewHeader]:
    from fleet.sync.progress import show_progress

    if request.withheld:
        print_message("a fork's commit that nobody approved: no cluster is asked")
    with show_progress(quiet=not request.live or not sys.stderr.isatty(), lines=False) as progress:
        asking = (options.sync_options, progress) if request.live else ()
        keep = partial(options.keep, fork=request.pull_request.fork)
        run, about = preview_merge(base, head, *asking, stacks=options.stacks, clusters=options.clusters, keep=keep)
    pull_request = request.pull_request
    assert about.base and about.head  # noqa: S101 - it is a merge
    base_side = replace(about.base, name=pull_request.base_ref)
    head_side = replace(about.head, name=pull_request.head_ref)
    return run, replace(about, base=base_side, head=head_side)


def find_remote(git: GitRepository) -> str:
    """Return the address of the only remote, or of `origin`: as this clone has it, not as any commit says."""
    remotes = git.remotes()
    return next(iter(remotes.values())) if len(remotes) == 1 else remotes.get("origin", "")


def read_forge_settings(git: GitRepository, base: str | None, directory: str) -> ForgeSettings:
    """Return the forge settings of the base, or of the remote's main branch: a head may not say where tokens go."""
    path = f"{directory}/{FILE}" if directory else FILE
    for revision in [base] if base else [f"refs/remotes/{_find_remote_name(git)}/HEAD", "refs/remotes/origin/main"]:
        try:
            return read_settings(git.tree(revision).read(path).decode(errors="replace")).forge
        except NotFoundError:
            if base:
                raise
    return ForgeSettings()


def _find_remote_name(git: GitRepository) -> str:
    names = list(git.remotes())
    return names[0] if len(names) == 1 else "origin"


def _find_base(git: GitRepository, given: str | None, pull_request: PullRequest) -> str:
    """Return the newest commit of the base branch that this clone has; raise ConfigurationError if it has none."""
    if given:
        return git.resolve(given).id
    for revision in (f"refs/remotes/{_find_remote_name(git)}/{pull_request.base_ref}", pull_request.base_sha):
        try:
            return git.resolve(revision).id
        except FleetError:
            continue
    raise ConfigurationError(
        f"this clone does not have {pull_request.base_ref}, into which pull request {pull_request.number} goes",
        hint=f"git fetch {_find_remote_name(git)} {pull_request.base_ref}, or say --base",
    )


def _find_head(git: GitRepository, given: str | None, pull_request: PullRequest, ref: str) -> str:
    """Return the commit that the forge has as the head, whatever this clone calls it; the forge keeps it at `ref`."""
    fetch = f"git fetch {_find_remote_name(git)} {ref}"
    try:
        commit = git.resolve(given or pull_request.head_sha).id
    except NotFoundError:
        if given:
            raise
        raise ConfigurationError(
            f"this clone does not have {pull_request.head_sha[:8]}, the head of pull request {pull_request.number}",
            hint=fetch,
        ) from None
    if commit != pull_request.head_sha:
        raise ConfigurationError(
            f"{given} is {commit[:8]} here, and the head of pull request {pull_request.number} is "
            f"{pull_request.head_sha[:8]}",
            hint=f"{fetch}, or leave out --head",
        )
    return commit
