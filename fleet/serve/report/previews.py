"""Previews of pull requests: a comment, a status and a page for each open one, made as soon as its head is known.

A webhook or the regular look at the forge says that something may have changed; the service then asks the forge for the
facts. The head is fetched into the mirror and evaluated in the sandbox as untrusted code; nothing of it is checked out,
and the base is the newest valid commit of the branch that is served. A fork's head is compared with no cluster until a
user who may write to the repository names that very commit (see fleet.forge.comments).

A preview is made by a process of its own, within limits (see fleet.serve.report.preview_process). Several are made at
once, with turns of their own for forks and for each author (see fleet.serve.report.preview_queue), so a preview that
takes long delays none of another author. A connection to the forge is open for a question or for a turn, and for
nothing that waits. A preview that does not finish is reported as such, and no process tries it again before its commit
changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from traceback import format_tb
from typing import IO

from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.forge.comments import longest_part, requested_commit
from fleet.forge.detect import detect_repository, read_token
from fleet.forge.forge import CommentEvent, Event, Forge, ForgeRepository, PullRequest, PullRequestEvent, connect
from fleet.git.environment import DEFAULT_LIMITS
from fleet.git.repository import HEADS_LOCK, Mirror
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.queue import Backoff, Queue
from fleet.preview.comment import (
    CommentIdentity,
    CommentText,
    PreviewRequest,
    error_text,
    post_error,
    post_pending,
    post_preview,
    read_request,
)
from fleet.serve.background import run_in_thread
from fleet.serve.branch import CurrentCommit
from fleet.serve.child_process import HINT, MIB, ChildEndedError
from fleet.serve.cluster_secrets import ClusterReach
from fleet.serve.commits import EvaluatedCommit, FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report.attempts import Attempts
from fleet.serve.report.pages import Pages
from fleet.serve.report.preview_process import PreviewTask, preview, write_preview
from fleet.serve.report.preview_queue import PreviewQueue, PreviewTurn

LOOK = 60.0  # least seconds between two looks at the forge, which limits their number
PULLS = "refs/fleet-pulls/"  # where heads are kept in the mirror, for as long as they are open
ASKING = 4  # pull requests whose authors the forge is asked for at a time
LAST_WORD = 5.0  # seconds for a status when the service ends
# Limits of fetching a head: any user can open a fork's, and other fetches wait for it.
OF_HEADS = replace(DEFAULT_LIMITS, transfer_seconds=120, transfer_bytes=512 * MIB)
LARGEST_MIRROR = 4096 * MIB  # of objects, beyond which no more heads of forks are fetched

log = logging.getLogger(__name__)


def _describe_problem(problem: Exception) -> str:
    """Return the message of an error; of an unexpected one only its type and where it was raised.

    The message of an unexpected error may have a value of the head in it.
    """
    if isinstance(problem, FleetError):
        return problem.message
    return f"{type(problem).__name__}, an unexpected error\n{''.join(format_tb(problem.__traceback__))}"


@dataclass(slots=True)
class Previews:
    """Previews of one repository: `hear` takes webhooks; `run` works for ever. The base is the current commit."""

    origin: FollowedRepository
    options: ServeOptions
    current: CurrentCommit
    counted: Counter
    every: float = LOOK
    pages: Pages = field(init=False)
    _queue: Queue[int] = field(default_factory=lambda: Queue(Backoff(first=2.0, most=600.0)))
    _done: dict[int, tuple[str, bool]] = field(
        default_factory=dict
    )  # the head that was previewed, and whether it was compared with clusters
    _tried: dict[int, str] = field(default_factory=dict)  # the head whose preview was last begun
    _untold: dict[int, tuple[PreviewRequest, str, CommentText, CommentIdentity]] = field(
        default_factory=dict
    )  # texts that are not posted yet, with the base's commit
    _waiting: PreviewQueue = field(default_factory=PreviewQueue)
    _call: asyncio.Event = field(default_factory=asyncio.Event)  # set when a preview may begin
    _attempts: Attempts = field(default_factory=Attempts)
    _written: tuple[str, IO[bytes]] | None = None  # the base's evaluation, by its commit
    _told: str = ""

    def __post_init__(self) -> None:
        self.pages = Pages(self.options.public_url)

    def hear(self, event: Event) -> None:
        match event:
            case PullRequestEvent(pull_request=pull_request):
                self._queue.add(pull_request.number)
            case CommentEvent(number=number, body=body) if requested_commit(body) is not None:
                self._queue.add(number)

    async def run(self, mirror: Mirror) -> None:
        """Run for ever: an error with one pull request, or with one look at the forge, is logged, and tried again."""
        self._attempts = await run_in_thread(Attempts.beside, mirror.repository.root)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._look(mirror))
                both.create_task(self._make(mirror))
        finally:
            if self._written:
                self._written[1].close()
                self._written = None

    async def _look(self, mirror: Mirror) -> None:
        """Ask for open pull requests again and again: webhooks get lost, and some came before this process."""
        while True:
            base = None
            try:
                if base := self.current.evaluated:
                    await self._look_once(base, mirror)
            except Exception as problem:
                self._cannot(problem)
            await asyncio.sleep(self.every if base else 1.0)

    async def _look_once(self, base: EvaluatedCommit, mirror: Mirror) -> None:
        async with self._forge(base) as forge:
            pull_requests = [
                pull_request
                for pull_request in await forge.pull_requests()
                if pull_request.base_ref == self.origin.branch
            ]
        self._note(pull_requests)
        await run_in_thread(mirror.only, PULLS, {f"{PULLS}{pull_request.number}" for pull_request in pull_requests})

    def _note(self, pull_requests: list[PullRequest]) -> None:
        """Forget pull requests that are closed, and queue those that have no preview of their head."""
        numbers = {pull_request.number for pull_request in pull_requests}
        for number in {*self._done, *self._tried, *self._untold} - numbers:
            self._forget(number)
        self._attempts.only(numbers)
        self.pages.only(numbers)
        for pull_request in pull_requests:
            waits = (
                self._queue.failures(pull_request.number)
                and self._tried.get(pull_request.number) == pull_request.head_sha
            )
            if self._done.get(pull_request.number, ("", False)) != (pull_request.head_sha, True) and not waits:
                self._queue.add(pull_request.number)

    def _forget(self, number: int) -> None:
        """Forget a pull request that is not open any more; should it be opened again, it is new."""
        for heads in (self._done, self._tried, self._untold):
            heads.pop(number, None)
        self._attempts.forget(number)
        self.pages.forget(number)

    async def _make(self, mirror: Mirror) -> None:
        """Make previews as their turns come.

        The forge is asked for their authors first. A preview that waits for its turn is a number, and holds nothing.
        """
        async with asyncio.TaskGroup() as tasks:
            for _ in range(ASKING):
                tasks.create_task(self._ask())
            while True:
                self._call.clear()
                while (turn := self._waiting.take()) is not None:
                    tasks.create_task(self._take_turn(mirror, turn))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._waiting.due_in()):
                        await self._call.wait()

    async def _ask(self) -> None:
        """Ask the forge for authors for ever, and have their pull requests wait for a turn."""
        while True:
            number = (await self._queue.get()).key
            pull_request = None
            with self._trying(number):
                pull_request = await self._pull_request(number)
                if pull_request is None:
                    self._queue.forgive(number)
            if pull_request is None:
                self._queue.done(number)
            else:  # not `done` before its preview is made: an event meanwhile queues it again after that
                self._waiting.put(number, pull_request.author, fork=pull_request.fork)
                self._call.set()

    async def _take_turn(self, mirror: Mirror, turn: PreviewTurn) -> None:
        """Make one preview, and end its turn."""
        try:
            with self._trying(turn.number):
                await self._preview(mirror, turn.number)
                self._queue.forgive(turn.number)
        finally:
            self._queue.done(turn.number)
            self._waiting.done(turn)
            self._call.set()

    @contextmanager
    def _trying(self, number: int) -> Iterator[None]:
        """Have a pull request tried again later after an error."""
        try:
            yield
        except Exception as problem:
            self.counted.labels(str(self.origin), "failed").inc()
            log.warning("pull request %d: %s", number, _describe_problem(problem), extra=self._about(number))
            self._queue.retry(number)

    async def _pull_request(self, number: int) -> PullRequest | None:
        """Return the pull request, if there is something to preview."""
        base = self.current.evaluated
        if base is None:
            self._queue.add_after(number, 1.0)
            return None
        async with self._forge(base) as forge:
            request = await self._read_request(forge, number)
        return request.pull_request if request else None

    async def _preview(self, mirror: Mirror, number: int) -> None:
        base = self.current.evaluated
        assert base  # noqa: S101 - it was asked for with one
        async with self._forge(base) as forge:
            if request := await self._read_request(forge, number):  # it may have changed while it waited
                await self._preview_of(mirror, forge, base, request)

    def _forge(self, base: EvaluatedCommit) -> Forge:
        repository = self._repository(base)
        return connect(repository, read_token(repository, self.options.scope.environment(os.environ)))

    async def _read_request(self, forge: Forge, number: int) -> PreviewRequest | None:
        """Return what there is to preview; None if there is nothing, or it is done."""
        try:
            request = await read_request(forge, number, live=True)
        except ConfigurationError:
            self._forget(number)  # it is not open any more
            return None
        except NotFoundError:  # an event may be of another repository: a number that does not exist is not tried again
            return None
        pull_request = request.pull_request
        if pull_request.base_ref != self.origin.branch or self._done.get(number) == (
            pull_request.head_sha,
            request.live,
        ):
            return None
        return request

    async def _preview_of(self, mirror: Mirror, forge: Forge, base: EvaluatedCommit, request: PreviewRequest) -> None:
        """Make and post a preview, or post again what could not be posted."""
        pull_request = request.pull_request
        number = pull_request.number
        self._tried[number] = pull_request.head_sha
        comment = self._untold.get(number)
        try:
            if comment is None or comment[:2] != (request, base.revision):  # otherwise only posting it failed
                text, identity = await self._words(mirror, forge, base, request)
                comment = self._untold[number] = (request, base.revision, text, identity)
            _, _, text, identity = comment
            await post_preview(forge, request, identity, text)
        except FleetError:
            raise  # it could not be posted
        except BaseException:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await post_error(forge, request, CommentIdentity(), "the preview did not come to its end")
            raise
        self._untold.pop(number, None)
        self._done[number] = (pull_request.head_sha, request.live)
        self.counted.labels(str(self.origin), str(text.state)).inc()
        depth = "compared with the clusters" if request.live else "desired only"
        log.info("pull request %d: %s (%s)", number, text.line, depth, extra=self._about(number))

    async def _words(
        self, mirror: Mirror, forge: Forge, base: EvaluatedCommit, request: PreviewRequest
    ) -> tuple[CommentText, CommentIdentity]:
        """Return the comment of a preview, which is made in a process of its own."""
        pull_request, identity = request.pull_request, CommentIdentity()
        number, head, live = pull_request.number, pull_request.head_sha, request.live
        if reason := self._attempts.reason(number, head, live=live):
            return _unfinished_text(reason, request), identity
        await post_pending(forge, request, identity)
        self._attempts.begin(number, head, live=live)
        try:
            refspec = f"+{pull_request.fetch_ref(forge.repository.kind)}:{PULLS}{number}"
            await run_in_thread(self._fetch, mirror, refspec, of_fork=pull_request.fork)
            withheld = self.options.scope.withheld(pushes=base.files.repository.settings.approval.required)
            answer = await preview(await self._task(base, request, longest_part(forge)), withheld=withheld)
        except ChildEndedError as problem:
            self._attempts.give_up(number, head, problem.message, live=live)
            log.warning("pull request %d: %s", number, problem.message, extra=self._about(number))
            return _unfinished_text(problem.message, request), identity
        except FleetError as problem:
            self._attempts.forget(number)
            return error_text(problem, request=request, identity=identity), identity
        except asyncio.CancelledError:  # the service ends in order: this preview is not the cause
            self._attempts.forget(number)
            raise
        if answer.fault:
            reason = f"fleet itself failed: {answer.fault}"
            self._attempts.give_up(number, head, reason, live=live)
            log.error("pull request %d: %s\n%s", number, answer.fault, answer.frames, extra=self._about(number))
            return _unfinished_text(reason, request), identity
        self._attempts.forget(number)
        return answer.words, CommentIdentity(page=self.pages.keep(number, answer.page) if answer.page else "")

    def _fetch(self, mirror: Mirror, refspec: str, *, of_fork: bool) -> None:
        """Fetch a head with a lock of its own: the follower of the branch does not wait for a fork."""
        heads = replace(mirror, repository=replace(mirror.repository, limits=OF_HEADS))
        if of_fork:
            heads.make_room(LARGEST_MIRROR)
        heads.fetch((refspec,), lock=HEADS_LOCK)

    async def _task(self, base: EvaluatedCommit, request: PreviewRequest, characters: int) -> PreviewTask:
        """Return the task of the process. Clusters are reached as the base says, which is what the service applies."""
        options = self.options
        reach = ClusterReach(options.kubeconfig)
        if request.live:
            reach = await ClusterReach.of(
                base.evaluation.clusters,
                options.kubeconfig,
                options.management,
                trusted=options.trust_kubeconfigs,
                scope=options.scope,
            )
        if self._written is None or self._written[0] != base.revision:
            before, self._written = self._written, (base.revision, await run_in_thread(write_preview, base.evaluation))
            if before:
                before[1].close()
        # No await from here on: another preview may be of another base.
        pull_request = request.pull_request
        return PreviewTask(
            request,
            replace(base.files, remembered=None),
            self._written[1].fileno(),
            reach.plain(),
            self.pages.address(pull_request.number),
            characters,
            1 if pull_request.fork and not request.live else None,
        )

    def _repository(self, base: EvaluatedCommit) -> ForgeRepository:
        """Return the repository on the forge.

        The settings of the base say which it is: a head must not say where the token is sent.
        """
        return detect_repository(self.origin.url, base.files.repository.settings.forge)

    def _cannot(self, problem: Exception) -> None:
        """Log that pull requests could not be listed, unless the last look failed for the same reason."""
        message = _describe_problem(problem)
        if message != self._told:
            self._told = message
            log.warning("no previews of pull requests of %s: %s", self.origin, message)

    def _about(self, number: int) -> dict[str, object]:
        return {"repository": str(self.origin), "pull_request": number}


def _unfinished_text(reason: str, request: PreviewRequest) -> CommentText:
    """Return the comment on a preview that did not finish, and is not tried again."""
    return error_text(
        ChildEndedError(f"the preview was not made: {reason}", hint=HINT), request=request, identity=CommentIdentity()
    )
