"""Process that makes one preview: evaluates the head, compares it with the base, and writes the comment.

All of it is work on untrusted input, so none of it is done in the service itself; see `fleet.serve.child_process`. The
service passes the pull request, how clusters are reached, and the base as it evaluated it. The answer is text, in JSON:
the comment, the status, the page.
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
from fleet.forge.forge import CommitState
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
from fleet.serve.options import SHARED
from fleet.sync.options import SyncHooks, SyncOptions
from fleet.sync.progress import NoProgress
from fleet.sync.result import Result, error_of, objection_of
from fleet.sync.run import Run
from fleet.sync.source import Commit

MODULE = "fleet.serve.report.preview_process"
# A fork's author may be a stranger, so its previews have less, and one worker at a time.
# Memory counts when it is allocated: reading an answer of 64 MiB allocates twelve times as much, and uses hardly any.
OF_FORKS = ChildLimits(seconds=300, cpu=120, memory=2048 * MIB, nice=19)
OF_OTHERS = ChildLimits(seconds=900, cpu=600, memory=4096 * MIB, nice=10)
LARGEST_PAGE = 16 * MIB  # of text; a larger one is left out

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreviewTask:
    """Task of the process."""

    request: PreviewRequest
    files: Commit  # of the base
    base: int  # a descriptor of its evaluation, see `write_preview`
    reach: ClusterReach  # of clusters
    page: str  # where the page will be; "": there is none
    room: int  # characters of one comment
    width: int | None  # workers at a time


@dataclass(frozen=True, slots=True)
class PreviewText:
    """Answer of the process."""

    parts: tuple[str, ...] = ()
    state: str = ""
    line: str = ""
    page: str = ""
    fault: str = ""  # the type of an unexpected exception; "": there was none
    frames: str = ""  # where it was raised

    @property
    def words(self) -> CommentText:
        return CommentText(self.parts, CommitState(self.state), self.line)


def write_preview(evaluation: Evaluation) -> IO[bytes]:
    """Write an evaluation into a file without a name, for a child to inherit; only our own code reads it."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    pickle.dump(evaluation, file, pickle.HIGHEST_PROTOCOL)
    file.flush()
    return file


async def preview(task: PreviewTask, *, withheld: Collection[str] | None = None) -> PreviewText:
    """Make a preview in a process of its own, which does not get the variables `withheld`: unless said, any token.

    Raises ChildEndedError when that did not finish.
    """
    of_fork = task.request.pull_request.fork and not task.request.live
    bounds = OF_FORKS if of_fork else OF_OTHERS
    withheld = SHARED.withheld(pushes=False) if withheld is None else withheld
    answer = await ask_child(MODULE, pickle.dumps(task), bounds, files=(task.base,), withheld=withheld)
    try:
        return decode(PreviewText, orjson.loads(answer))
    except ValueError as problem:
        raise ChildEndedError(f"what it came to cannot be read: {problem}") from None


def main() -> None:
    """Read the task, make the preview, and write the answer to standard output."""
    text, bounds = begin_child()
    task: PreviewTask = pickle.loads(text)  # noqa: S301 - from the service itself
    try:
        answer = orjson.dumps(_make_preview(task, bounds))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    except Exception as problem:  # its message may have a value of the head in it
        frames = "".join(format_tb(problem.__traceback__)[-20:])
        answer = orjson.dumps(PreviewText(fault=type(problem).__name__, frames=frames))
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def _make_preview(task: PreviewTask, bounds: ChildLimits) -> PreviewText:
    """Make the preview; an error of fleet is the text of the comment."""
    identity, text = CommentIdentity(), ""
    try:
        with Pool(width=task.width) as pool:
            pool.sandbox_report()
            bound_memory(bounds)
            run, header = _preview_merge(task, pool)
    except FleetError as problem:
        comment = error_text(problem, request=task.request, identity=identity)
        return PreviewText(comment.parts, comment.state, comment.line)
    header = replace(header, remarks=run.remarks)
    branches = [result.branch for result in run.results]
    if task.page:
        text = html_page(branches, about=header)
        text = text if len(text) <= LARGEST_PAGE else ""
        identity = CommentIdentity(page=task.page if text else "")
    problems = [error for result in run.results if (error := _find_problem(result))]
    comment = preview_text(branches, header, problems, request=task.request, identity=identity, room=task.room)
    return PreviewText(comment.parts, comment.state, comment.line, text)


class _PreviewHooks(SyncHooks):
    """Hooks of a preview: clusters are reached with the credentials that the service read for it."""

    def __init__(self, reach: ClusterReach) -> None:
        self._reach = reach

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        return self._reach.to(cluster)


def _preview_merge(task: PreviewTask, pool: Pool) -> tuple[Run, ViewHeader]:
    """Preview the merge; record it where the base asks for approvals, so that what is merged may be applied."""
    with mmap.mmap(task.base, 0, prot=mmap.PROT_READ) as base:
        evaluation: Evaluation = pickle.loads(base)  # noqa: S301 - from the service itself
    files, pull_request = replace(task.files, remembered=evaluation), task.request.pull_request
    options = SyncOptions(task.reach.kubeconfig, dry_run=True)
    comparison = (options, NoProgress(), _PreviewHooks(task.reach)) if task.request.live else ()
    record_preview = partial(record, fork=pull_request.fork)
    keep = record_preview if files.repository.settings.approval.required else nothing
    run, header = preview_merge(
        files.revision, pull_request.head_sha, *comparison, keep=keep, base_commit=files, pool=pool
    )
    assert header.base and header.head  # noqa: S101 - it is a merge
    base_name = replace(header.base, name=pull_request.base_ref)
    return run, replace(header, base=base_name, head=replace(header.head, name=pull_request.head_ref))


def nothing(_: MergePreview) -> None:
    """Record nothing."""
    pass


def record(preview: MergePreview, *, fork: bool) -> None:
    """Record a preview of the whole repository, for the approval of its merge."""
    if preview.is_whole:
        record_merge(preview, fork=fork)


def _find_problem(result: Result) -> FleetError | None:
    """Return the error of a result, or the objection to its plan; None if there is neither."""
    if result.problem or result.plan is None:
        return result.problem
    return error_of(result.plan, None) or objection_of(result.plan)


if __name__ == "__main__":
    sys.modules[MODULE] = sys.modules["__main__"]  # a pickled task names this module
    main()
