"""The process that makes one preview: evaluates the head, compares it with the base, and finds the words for it.

All of it is work on what others wrote, so nothing of it is done in the service itself; see `fleet.serve.child_process`.
The service says which pull request and how clusters are reached, and gives the base as it evaluated it. What comes back
is text, in JSON: the comment, the status, the page.
"""

from __future__ import annotations

import logging
import mmap
import pickle
import sys
import tempfile
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from traceback import format_tb
from typing import IO

import orjson

from fleet.approval.recording import record_merge
from fleet.errors import FleetError
from fleet.evaluate.decode import decode
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import ClusterData, Evaluation
from fleet.forge.forge import State
from fleet.kube.client.client import Client
from fleet.plan.views.html import html_page
from fleet.plan.views.summary import ViewHeader
from fleet.preview.comment import CommentIdentity, CommentText, PreviewRequest, error_text, preview_text
from fleet.preview.merge import MergePreview, preview_merge
from fleet.serve.child_process import (
    MIB,
    OUT_OF_MEMORY,
    ChildEndedError,
    ChildLimits,
    ask_child,
    begin_child,
    bound_memory,
)
from fleet.serve.cluster_secrets import ClusterReach
from fleet.serve.scope import TOKENS
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.progress import NoProgress
from fleet.sync.result import Result, error_of, objection_of
from fleet.sync.run import Run
from fleet.sync.source import Checkout

MODULE = "fleet.serve.report.preview_process"
# A fork's author is nobody's colleague yet, so its previews have less, and one worker at a time.
# Memory is counted as it is asked for: to read an answer of 64 MiB, twelve times as much is, and hardly any of it used.
OF_FORKS = ChildLimits(seconds=300, cpu=120, memory=2048 * MIB, nice=19)
OF_OTHERS = ChildLimits(seconds=900, cpu=600, memory=4096 * MIB, nice=10)
LARGEST_PAGE = 16 * MIB  # of text; a larger one is left out

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreviewTask:
    """What the process is told."""

    request: PreviewRequest
    files: Checkout  # of the base
    base: int  # a descriptor of its evaluation, see `written`
    reach: ClusterReach  # of clusters
    page: str  # where the page will be; "": there is none
    room: int  # characters of one comment
    width: int | None  # workers at a time


@dataclass(frozen=True, slots=True)
class PreviewText:
    """What comes back."""

    parts: tuple[str, ...] = ()
    state: str = ""
    line: str = ""
    page: str = ""
    fault: str = ""  # of fleet itself: what was raised
    frames: str = ""  # and where

    @property
    def words(self) -> CommentText:
        return CommentText(self.parts, State(self.state), self.line)


def write_preview(evaluation: Evaluation) -> IO[bytes]:
    """Return a file that has no name, with an evaluation to be inherited: it is read by our own code alone."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever keeps it
    pickle.dump(evaluation, file, pickle.HIGHEST_PROTOCOL)
    file.flush()
    return file


async def preview(task: PreviewTask, *, withheld: Collection[str] = TOKENS) -> PreviewText:
    """Make a preview in a process of its own, which has not the variables `withheld`.

    Raises EndedError when that did not come to its end.
    """
    of_fork = task.request.pull_request.fork and not task.request.live
    bounds = OF_FORKS if of_fork else OF_OTHERS
    answer = await ask_child(MODULE, pickle.dumps(task), bounds, files=(task.base,), withheld=withheld)
    try:
        return decode(PreviewText, orjson.loads(answer))
    except ValueError as problem:
        raise ChildEndedError(f"what it came to cannot be read: {problem}") from None


def main() -> None:
    text, bounds = begin_child()
    task: PreviewTask = pickle.loads(text)  # noqa: S301 - from the service itself
    try:
        answer = orjson.dumps(_told(task, bounds))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    except Exception as problem:  # its own words may have a value of the head's in them
        frames = "".join(format_tb(problem.__traceback__)[-20:])
        answer = orjson.dumps(PreviewText(fault=type(problem).__name__, frames=frames))
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def _told(task: PreviewTask, bounds: ChildLimits) -> PreviewText:
    voice, text = CommentIdentity(), ""
    try:
        with Pool(width=task.width) as pool:
            pool.given()
            bound_memory(bounds)
            run, about = _merged(task, pool)
    except FleetError as problem:
        words = error_text(problem, request=task.request, identity=voice)
        return PreviewText(words.parts, words.state, words.line)
    about = replace(about, remarks=run.remarks)
    branches = [one.branch for one in run.results]
    if task.page:
        text = html_page(branches, about=about)
        text = text if len(text) <= LARGEST_PAGE else ""
        voice = CommentIdentity(page=task.page if text else "")
    problems = [found for one in run.results if (found := _problem(one))]
    words = preview_text(branches, about, problems, request=task.request, identity=voice, room=task.room)
    return PreviewText(words.parts, words.state, words.line, text)


class _PreviewHooks(SyncHooks):
    """Hooks of a preview: clusters are reached with the credentials that the service read for it."""

    def __init__(self, reach: ClusterReach) -> None:
        self._reach = reach

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        return self._reach.to(cluster)


def _merged(task: PreviewTask, pool: Pool) -> tuple[Run, ViewHeader]:
    """Recorded as well, where the base asks for approvals: what is merged is then what may be applied."""
    with mmap.mmap(task.base, 0, prot=mmap.PROT_READ) as base:
        evaluation: Evaluation = pickle.loads(base)  # noqa: S301 - from the service itself
    known, pull_request = replace(task.files, remembered=evaluation), task.request.pull_request
    options = SyncOptions(task.reach.kubeconfig, dry_run=True)
    asking = (options, NoProgress(), _PreviewHooks(task.reach)) if task.request.live else ()
    recorded = partial(record, fork=pull_request.fork)
    keep = recorded if known.repository.settings.approval.required else nothing
    run, about = preview_merge(known.revision, pull_request.head_sha, *asking, keep=keep, known=known, pool=pool)
    assert about.base and about.head  # noqa: S101 - it is a merge
    base_name = replace(about.base, name=pull_request.base_ref)
    return run, replace(about, base=base_name, head=replace(about.head, name=pull_request.head_ref))


def nothing(_: MergePreview) -> None:
    pass


def record(made: MergePreview, *, fork: bool) -> None:
    if made.is_whole:
        record_merge(made, fork=fork)


def _problem(result: Result) -> FleetError | None:
    if result.problem or result.plan is None:
        return result.problem
    return error_of(result.plan, None) or objection_of(result.plan)


if __name__ == "__main__":
    sys.modules[MODULE] = sys.modules["__main__"]  # a task is of this module, whatever it is called while it runs
    main()
