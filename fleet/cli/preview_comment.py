"""`fleet preview --comment`: the preview of a pull request, told there. Which one, and its commits, is found in CI."""

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
from fleet.forge import ci
from fleet.forge.client import Forge, connect
from fleet.forge.find import find, token
from fleet.forge.model import PullRequest, Repository
from fleet.git.repository import Repository as Git
from fleet.preview.merge import Merged, of_merge
from fleet.preview.request import Request, consult
from fleet.preview.tell import begin, give_up, tell
from fleet.preview.voice import Voice
from fleet.preview.words import Words, made, refused
from fleet.repository import find_root
from fleet.repository.read import FILE, read_settings
from fleet.repository.settings import Forge as ForgeSettings

if TYPE_CHECKING:
    from fleet.plan.forest import About
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
    wish: Wish, show: Callable[[Run, About], None], judge: Callable[[Run], list[FleetError]]
) -> list[FleetError]:
    """Make the preview, `show` it, and tell it. Returns what is wrong in it; what could not be made or told raises."""
    job = ci.job(os.environ)
    number = wish.number or (job.number if job else None)
    if number is None:
        raise click.UsageError("which pull request? Say --pull-request NUMBER: this is no CI job of one")
    git = Git.find(find_root())
    below = find_root().relative_to(git.root.resolve()).as_posix()
    voice = Voice("" if below == "." else below, wish.page)
    repository = find(_remote(git), _settings(git, wish.base, below), job)
    desk = Desk(repository, token(repository, os.environ), voice)

    request = desk.ask(lambda forge: consult(forge, number, live=wish.how is not None))
    pull_request = request.pull_request
    if job and job.number == number and job.head and job.head != pull_request.head_sha and not wish.head:
        remark(f"pull request {number} has a newer head than this job: {pull_request.head_sha[:8]}; nothing is posted")
        return []
    base, head = _base(git, wish.base, pull_request), _head(git, wish.head, pull_request, repository)
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
        from fleet.forge.sticky import room

        return room(connect(self.repository, self.token))

    def tell(self, request: Request, words: Words) -> None:
        url = self.ask(lambda forge: tell(forge, request, self.voice, words))
        number = request.pull_request.number
        remark(f"told on {url}" if url else f"pull request {number} has moved on meanwhile; no comment was posted")


def _made(wish: Wish, request: Request, base: str, head: str) -> tuple[Run, About]:
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


def _remote(git: Git) -> str:
    """The address of the only remote, or of `origin`: as this clone has it, not as any commit says."""
    remotes = git.remotes()
    return next(iter(remotes.values())) if len(remotes) == 1 else remotes.get("origin", "")


def _settings(git: Git, base: str | None, below: str) -> ForgeSettings:
    """Those of the base. Without --base, of the remote's main branch: a head must not say where the token is sent."""
    path = str(Path(below) / FILE) if below != "." else FILE
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


def _head(git: Git, given: str | None, pull_request: PullRequest, repository: Repository) -> str:
    """The commit that the forge has as its head, whatever this clone calls it."""
    fetch = f"git fetch {_name(git)} {pull_request.fetch_ref(repository.kind)}"
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
