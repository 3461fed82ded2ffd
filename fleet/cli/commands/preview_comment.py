"""`fleet preview --comment`: the preview of a pull request, told there. Which one, and its commits, is found in CI.

`fleet preview --comment-file` makes the same preview, and leaves the telling to `fleet comment` in a job with a token.
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

from fleet.cli.output import remark
from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.forge import detect
from fleet.forge.detect import find, token
from fleet.forge.forge import Forge, PullRequest, Repository, connect
from fleet.git.repository import Repository as Git
from fleet.preview.comment import Request, Voice, Words, begin, consult, give_up, made, refused, tell
from fleet.preview.comment_file import describe_preview, describe_refusal, write_comment
from fleet.preview.merge import Merged, of_merge
from fleet.repository import find_root
from fleet.repository.settings import FILE, read_settings
from fleet.repository.settings import Forge as ForgeSettings

if TYPE_CHECKING:
    from fleet.plan.views.summary import ViewHeader
    from fleet.sync.run import How, Run

T = TypeVar("T")


class Keep(Protocol):
    """What becomes of what was shown; `fork` says whose it is."""

    def __call__(self, made: Merged, *, fork: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Wish:
    """The options that matter here."""

    number: int | None
    base: str | None
    head: str | None
    page: str  # its address
    stacks: Sequence[str]
    clusters: Sequence[str]
    how: How | None  # to ask the clusters, where the pull request may
    keep: Keep  # what becomes of what was shown


def commented(
    wish: Wish, show: Callable[[Run, ViewHeader], None], judge: Callable[[Run], list[FleetError]]
) -> list[FleetError]:
    """Make the preview, `show` it, and tell it. Returns what is wrong in it; what could not be made or told raises."""
    job = detect.job(os.environ)
    number = wish.number or (job.number if job else None)
    if number is None:
        raise click.UsageError("which pull request? Say --pull-request NUMBER: this is no CI job of one")
    git, below = find_fleet()
    voice = Voice(below, wish.page)
    repository = find(find_remote(git), read_forge_settings(git, wish.base, below), job)
    desk = Desk(repository, token(repository, os.environ), voice)

    request = desk.ask(lambda forge: consult(forge, number, live=wish.how is not None))
    pull_request = request.pull_request
    if not wish.head and is_overtaken(job, pull_request):
        return []
    fetch = pull_request.fetch_ref(repository.kind)
    base, head = _base(git, wish.base, pull_request), _head(git, wish.head, pull_request, fetch)
    desk.ask(lambda forge: begin(forge, request, voice))
    try:
        run, about = _made(wish, request, base, head)
    except FleetError as problem:
        words = refused(problem, request=request, voice=voice)
        desk.tell(request, words)
        raise
    except BaseException:
        desk.ask(lambda forge: give_up(forge, request, voice, "the preview did not come to its end"))
        raise
    show(run, about)
    found = judge(run)
    branches = [one.branch for one in run.results]
    told = replace(about, remarks=run.remarks)
    desk.tell(request, made(branches, told, found, request=request, voice=voice, room=desk.room))
    return found


def write_for_comment(
    wish: Wish, file: Path, show: Callable[[Run, ViewHeader], None], judge: Callable[[Run], list[FleetError]]
) -> list[FleetError]:
    """Make the preview, `show` it, and write to a file what there is to tell. Returns what is wrong in it.

    No token is needed, unless clusters are to be asked or the job is not told of which commits: then one that may read.
    """
    if not file.parent.is_dir():
        raise ConfigurationError(f"{file} cannot be written: there is no directory {file.parent}")
    git, below = find_fleet()
    request, ref = _describe_request(wish, git) or _ask_request(wish, git, below)
    pull_request, live = request.pull_request, wish.how is not None
    base, head = _base(git, wish.base, pull_request), _head(git, wish.head, pull_request, ref)
    try:
        run, about = _made(wish, request, base, head)
    except FleetError as problem:
        write_comment(file, describe_refusal(problem, head=head, live=live))
        raise
    show(run, about)
    found = judge(run)
    branches = [one.branch for one in run.results]
    write_comment(file, describe_preview(branches, replace(about, remarks=run.remarks), found, head=head, live=live))
    remark(f"wrote {file}: `fleet comment` posts it")
    return found


def _describe_request(wish: Wish, git: Git) -> tuple[Request, str] | None:
    """Return the pull request as options or the CI job have it, and the ref of its head; None: the forge must be asked.

    Neither is believed about whose the head is: it counts as a fork's.
    """
    job = detect.job(os.environ)
    if wish.how is not None:
        return None
    if wish.base and wish.number is None and (wish.head or job is None or job.number is None):
        name = wish.head or "HEAD"
        return Request(PullRequest(0, "", "", "", wish.base, "", name, git.resolve(name).id, fork=True)), name
    if job is None or job.number is None or not (job.head and job.base_ref) or wish.number not in (None, job.number):
        return None
    found = PullRequest(job.number, "", "", "", job.base_ref, job.base_sha, job.head_ref, job.head, fork=True)
    return Request(found), found.fetch_ref(job.repository.kind)


def _ask_request(wish: Wish, git: Git, below: str) -> tuple[Request, str]:
    """Return the pull request as the forge has it, and the ref of its head."""
    job = detect.job(os.environ)
    number = wish.number or (job.number if job else None)
    if number is None:
        raise click.UsageError(
            "what is merged into what? Say --base (and --head), or --pull-request NUMBER: this is no CI job of one"
            if wish.how is None
            else "which pull request? Say --pull-request NUMBER: with --live the forge is asked whether it is a fork's"
        )
    repository = find(find_remote(git), read_forge_settings(git, wish.base, below), job)
    desk = Desk(repository, token(repository, os.environ), Voice(below))
    request = desk.ask(lambda forge: consult(forge, number, live=wish.how is not None))
    return request, request.pull_request.fetch_ref(repository.kind)


def is_overtaken(job: detect.Job | None, pull_request: PullRequest) -> bool:
    """Return whether another commit was pushed since the CI job began, and say so."""
    if not (job and job.number == pull_request.number and job.head and job.head != pull_request.head_sha):
        return False
    newer = pull_request.head_sha[:8]
    remark(f"pull request {pull_request.number} has a newer head than this job: {newer}; nothing is posted")
    return True


def find_fleet() -> tuple[Git, str]:
    """Return the git repository that is here, and the directory of the fleet in it: "" for its root."""
    root = find_root()
    git = Git.find(root)
    below = root.relative_to(git.root.resolve()).as_posix()
    return git, "" if below == "." else below


@dataclass(frozen=True, slots=True)
class Desk:
    """The forge, asked a few things at a time: evaluating in between has a loop of its own."""

    repository: Repository
    token: str
    voice: Voice

    def ask(self, what: Callable[[Forge], Awaitable[T]]) -> T:
        async def asked() -> T:
            async with connect(self.repository, self.token) as forge:
                return await what(forge)

        return asyncio.run(asked())

    @property
    def room(self) -> int:
        from fleet.forge.comments import room

        return room(connect(self.repository, self.token))

    def tell(self, request: Request, words: Words) -> None:
        url = self.ask(lambda forge: tell(forge, request, self.voice, words))
        number = request.pull_request.number
        remark(f"told on {url}" if url else f"pull request {number} has moved on meanwhile; no comment was posted")


def _made(wish: Wish, request: Request, base: str, head: str) -> tuple[Run, ViewHeader]:
    from fleet.sync.progress import shown

    if request.withheld:
        remark("a fork's commit that nobody approved: no cluster is asked")
    with shown(quiet=not request.live or not sys.stderr.isatty(), lines=False) as progress:
        told = (wish.how, progress) if request.live else ()
        keep = partial(wish.keep, fork=request.pull_request.fork)
        run, about = of_merge(base, head, *told, stacks=wish.stacks, clusters=wish.clusters, keep=keep)
    pull_request = request.pull_request
    assert about.base and about.head  # noqa: S101 - it is a merge
    named = (replace(about.base, name=pull_request.base_ref), replace(about.head, name=pull_request.head_ref))
    return run, replace(about, base=named[0], head=named[1])


def find_remote(git: Git) -> str:
    """The address of the only remote, or of `origin`: as this clone has it, not as any commit says."""
    remotes = git.remotes()
    return next(iter(remotes.values())) if len(remotes) == 1 else remotes.get("origin", "")


def read_forge_settings(git: Git, base: str | None, below: str) -> ForgeSettings:
    """Those of the base. Without --base, of the remote's main branch: a head must not say where the token is sent."""
    path = f"{below}/{FILE}" if below else FILE
    for revision in [base] if base else [f"refs/remotes/{_name(git)}/HEAD", "refs/remotes/origin/main"]:
        try:
            return read_settings(git.tree(revision).read(path).decode(errors="replace")).forge
        except NotFoundError:
            if base:
                raise
    return ForgeSettings()


def _name(git: Git) -> str:
    names = list(git.remotes())
    return names[0] if len(names) == 1 else "origin"


def _base(git: Git, given: str | None, pull_request: PullRequest) -> str:
    """The newest commit of the base branch that this clone has."""
    if given:
        return git.resolve(given).id
    for revision in (f"refs/remotes/{_name(git)}/{pull_request.base_ref}", pull_request.base_sha):
        try:
            return git.resolve(revision).id
        except FleetError:
            continue
    raise ConfigurationError(
        f"this clone does not have {pull_request.base_ref}, into which pull request {pull_request.number} goes",
        hint=f"git fetch {_name(git)} {pull_request.base_ref}, or say --base",
    )


def _head(git: Git, given: str | None, pull_request: PullRequest, ref: str) -> str:
    """The commit that the forge has as its head, whatever this clone calls it; `ref` is where the forge keeps it."""
    fetch = f"git fetch {_name(git)} {ref}"
    try:
        found = git.resolve(given or pull_request.head_sha).id
    except NotFoundError:
        if given:
            raise
        raise ConfigurationError(
            f"this clone does not have {pull_request.head_sha[:8]}, the head of pull request {pull_request.number}",
            hint=fetch,
        ) from None
    if found != pull_request.head_sha:
        raise ConfigurationError(
            f"{given} is {found[:8]} here, and the head of pull request {pull_request.number} is "
            f"{pull_request.head_sha[:8]}",
            hint=f"{fetch}, or leave out --head",
        )
    return found
