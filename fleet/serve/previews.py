"""Previews of pull requests: a comment and a status on each open one, made as soon as its head is known.

A webhook or the regular look at the forge says that something may have changed; the forge is then asked how things are.
The head is fetched into the mirror and evaluated in the sandbox as code of others; nothing of it is checked out, and
the base is the newest good commit of the branch that is served. A fork's head is compared with no cluster until
somebody who may write to the repository names that very commit (see fleet.forge.approval).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from traceback import format_tb

from fleet.approve.recording import record_merge
from fleet.errors import ConfigurationError, FleetError
from fleet.forge.approval import asked
from fleet.forge.client import Forge, connect
from fleet.forge.find import find, token
from fleet.forge.model import Action, Commented, Event, PullRequest, PullRequestChanged, Repository
from fleet.forge.sticky import room
from fleet.git.mirror import Mirror
from fleet.kube.client import Client
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.queue import Backoff, Queue
from fleet.plan.forest import About
from fleet.plan.page import page
from fleet.preview.merge import Merged, of_merge
from fleet.preview.request import Request, consult
from fleet.preview.tell import begin, give_up, tell
from fleet.preview.voice import Voice
from fleet.preview.words import Words, made, refused
from fleet.serve.origin import Origin
from fleet.serve.pages import Pages
from fleet.serve.quiet import Quiet
from fleet.serve.scope import SHARED, Scope
from fleet.serve.secret import Reach
from fleet.serve.threads import in_thread
from fleet.serve.wanted import Wanted
from fleet.sync.outcome import Result
from fleet.sync.run import How, Run
from fleet.sync.verdict import objection_of, problem_of

LOOK = 60.0  # seconds between two looks at the forge, at least: they are counted there
PULLS = "refs/fleet-pulls/"  # where heads are kept in the mirror, for as long as they are open
GONE = frozenset({Action.CLOSED, Action.MERGED})

log = logging.getLogger(__name__)


def nothing(_: Merged) -> None:
    pass


def record(made: Merged, *, fork: bool) -> None:
    if made.is_whole:
        record_merge(made, fork=fork)


def _problem(result: Result) -> FleetError | None:
    if result.problem or result.plan is None:
        return result.problem
    return problem_of(result.plan, None) or objection_of(result.plan)


def _said(problem: Exception) -> str:
    """Of an error that nobody foresaw only where it was: its own words may have a value of the head's in them."""
    if isinstance(problem, FleetError):
        return problem.message
    return f"{type(problem).__name__}, which nobody foresaw\n{''.join(format_tb(problem.__traceback__))}"


@dataclass(slots=True)
class Previews:
    """Of one repository. `hear` what webhooks say; `run` for ever. `base` gives the newest good commit."""

    origin: Origin
    how: How
    base: Callable[[], Wanted | None]
    counted: Counter
    management: Client | None = None  # for clusters that are reached through a Secret there
    every: float = LOOK
    pages: Pages = field(default_factory=Pages)
    scope: Scope = SHARED
    trusted: bool = False  # kubeconfigs in Secrets: they may run programs and read files here
    _queue: Queue[int] = field(default_factory=lambda: Queue(Backoff(first=2.0, most=600.0)))
    _done: dict[int, tuple[str, bool]] = field(default_factory=dict)  # the head that was previewed, and how deep
    _tried: dict[int, str] = field(default_factory=dict)  # the head that was last begun with
    _told: str = ""

    def hear(self, event: Event) -> None:
        match event:
            case PullRequestChanged(pull_request=found, action=action) if action in GONE:
                self._done.pop(found.number, None)
                self.pages.forget(found.number)
            case PullRequestChanged(pull_request=found):
                self._queue.add(found.number)
            case Commented(number=number, body=body) if asked(body) is not None:
                self._queue.add(number)

    async def run(self, mirror: Mirror) -> None:
        """For ever: what goes wrong with one pull request, or with one look, is said, and tried again."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._look(mirror))
            both.create_task(self._make(mirror))

    async def _look(self, mirror: Mirror) -> None:
        """Open pull requests that nobody told us of: webhooks get lost, and there was a time before this process."""
        while True:
            base = None
            try:
                if base := self.base():
                    await self._look_once(base, mirror)
            except Exception as problem:
                self._cannot(problem)
            await asyncio.sleep(self.every if base else 1.0)

    async def _look_once(self, base: Wanted, mirror: Mirror) -> None:
        repository = self._repository(base)
        async with connect(repository, token(repository, self.scope.environment(os.environ))) as forge:
            found = [one for one in await forge.pull_requests() if one.base_ref == self.origin.branch]
        self._note(found)
        await in_thread(mirror.only, PULLS, {f"{PULLS}{one.number}" for one in found})

    def _note(self, found: list[PullRequest]) -> None:
        numbers = {one.number for one in found}
        self._done = {number: one for number, one in self._done.items() if number in numbers}
        self._tried = {number: head for number, head in self._tried.items() if number in numbers}
        self.pages.only(numbers)
        for one in found:
            waits = self._queue.failures(one.number) and self._tried.get(one.number) == one.head_sha
            if self._done.get(one.number, ("", False)) != (one.head_sha, True) and not waits:
                self._queue.add(one.number)

    async def _make(self, mirror: Mirror) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._preview(mirror, item.key)
                self._queue.forgive(item.key)
            except Exception as problem:
                self.counted.add(str(self.origin), "failed")
                log.warning("pull request %d: %s", item.key, _said(problem), extra=self._about(item.key))
                self._queue.retry(item.key)
            finally:
                self._queue.done(item.key)

    async def _preview(self, mirror: Mirror, number: int) -> None:
        base = self.base()
        if base is None:
            self._queue.add_after(number, 1.0)
            return
        repository = self._repository(base)
        async with connect(repository, token(repository, self.scope.environment(os.environ))) as forge:
            try:
                request = await consult(forge, number, live=True)
            except ConfigurationError:
                return  # it is open no more
            found = request.pull_request
            if found.base_ref != self.origin.branch or self._done.get(number) == (found.head_sha, request.live):
                return
            self._tried[number] = found.head_sha
            try:
                words, voice = await self._words(mirror, forge, base, request)
                await tell(forge, request, voice, words)
            except FleetError:
                raise  # it could not be told
            except BaseException:
                await give_up(forge, request, Voice(), "the preview did not come to its end")
                raise
            self._done[number] = (found.head_sha, request.live)
            self.counted.add(str(self.origin), str(words.state))
            depth = "compared with the clusters" if request.live else "desired only"
            log.info("pull request %d: %s (%s)", number, words.line, depth, extra=self._about(number))

    async def _words(self, mirror: Mirror, forge: Forge, base: Wanted, request: Request) -> tuple[Words, Voice]:
        found, voice = request.pull_request, Voice()
        await begin(forge, request, voice)
        try:
            ref = found.fetch_ref(forge.repository.kind)
            await in_thread(mirror.fetch, (f"+{ref}:{PULLS}{found.number}",))
            how = await self._how(base) if request.live else None
            run, about = await in_thread(self._merged, base, request, how)
        except FleetError as problem:
            return refused(problem, request=request, voice=voice), voice
        assert about.base and about.head  # noqa: S101 - it is a merge
        named = replace(
            about,
            base=replace(about.base, name=found.base_ref),
            head=replace(about.head, name=found.head_ref),
            remarks=run.remarks,
        )
        wrong = [found_wrong for one in run.results if (found_wrong := _problem(one))]
        branches = [one.branch for one in run.results]
        voice = Voice(page=self.pages.keep(found.number, page(branches, about=named)) if self.pages.at else "")
        return made(branches, named, wrong, request=request, voice=voice, room=room(forge)), voice

    async def _how(self, base: Wanted) -> How:
        """Clusters are reached as the base says, which is what the service goes by."""
        reach = await Reach.of(
            base.evaluation.clusters, self.how.kubeconfig, self.management, trusted=self.trusted, scope=self.scope
        )
        return replace(self.how, reach=reach.to)

    def _merged(self, base: Wanted, request: Request, how: How | None) -> tuple[Run, About]:
        """Recorded as well, where the base asks for approvals: what is merged is then what may be applied."""
        known = replace(base.files, remembered=base.evaluation)
        told = (how, Quiet()) if how else ()
        recorded = partial(record, fork=request.pull_request.fork)
        keep = recorded if known.repository.settings.approval.required else nothing
        return of_merge(base.revision, request.pull_request.head_sha, *told, keep=keep, known=known)

    def _repository(self, base: Wanted) -> Repository:
        """By the settings of the base: a head must not say where the token is sent."""
        return find(self.origin.url, base.files.repository.settings.forge)

    def _cannot(self, problem: Exception) -> None:
        said = _said(problem)
        if said != self._told:
            self._told = said
            log.warning("no previews of pull requests of %s: %s", self.origin, said)

    def _about(self, number: int) -> dict[str, object]:
        return {"repository": str(self.origin), "pull_request": number}
