"""The stage of evaluation: all files of a repository in, clusters and stacks as data out, or every problem at once.

clusters   one worker reads all files of clusters
stacks     one worker per file of stacks; a stack that reads an export of another stack is run again once that export
           is known. Time, bytes, values and problems are bounded for each answer and for all answers together
checks     what no single file can know: names given twice, stacks that do not exist, circles of stacks
twice      if the caller wants it, all of this in a second zygote that differs in all that a result must not depend on

**What is evaluated again after a commit** (`still_true`). Every file of stacks leaves a list of what it was made from
(`Reads`): its own text, the files it imported and read, the directories it listed. If none of these changed, nor the
clusters, nor the settings, the file would give the same result again. A stack that needs a stack which is evaluated
again is evaluated again, too. A file that was missing is in no list although it might have been read, so a file that is
added or removed counts for all, unless it is a file of stacks whose name no import can have meant.

**Excerpts** are the lines of the user's files that problems are about. The parent reads them, not the worker: the
worker names the file, so it must be a Python file of the repository; and the worker decides how many problems there
are, so each file is read once, and the bytes of all files together are bounded.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from fleet.apps.installed import check_required
from fleet.errors import NotFoundError, PolicyError
from fleet.evaluate import answer, checks
from fleet.evaluate import checks as compare
from fleet.evaluate.answer import Declared, Waiting
from fleet.evaluate.packages import prepare_packages
from fleet.evaluate.pool import Pool, WorkerOutcome
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.result import ClusterData, Evaluation, Problem, Reads, StackResult
from fleet.evaluate.sandbox.level import SandboxReport
from fleet.objects.graph import sort_by_dependencies
from fleet.repository import Code, Limits, Repository
from fleet.suggestion import suggestion
from fleet.text import printable


@dataclass(frozen=True, slots=True)
class PreviousEvaluation:
    """The part of an earlier evaluation that still holds, on condition that the clusters are the same."""

    clusters: tuple[ClusterData, ...]
    stacks: tuple[StackResult, ...]
    reads: tuple[Reads, ...]


def still_true(
    before: Evaluation,
    *,
    edited: Iterable[str],
    moved: Iterable[str],
    files: Collection[str],
    of_all: Collection[str],
    unknown: Collection[str] = (),
) -> PreviousEvaluation | None:
    """Return the part of `before` that holds after files were `edited` and files were added or removed (`moved`).

    `files` are the present files of stacks; `of_all` are files that every stack depends on, such as settings and the
    lockfile. For the `unknown` files `before` has no stacks, because they were not stored; they are evaluated again.
    Return None if nothing of `before` holds.
    """
    edited, moved = set(edited), set(moved)
    if before.problems or before.foreign or not before.reads or not (edited | moved).isdisjoint(of_all):
        return None
    files_before = {reads.file for reads in before.reads}
    if any((path not in files and path not in files_before) or _can_be_imported(path, before.reads) for path in moved):
        return None
    changed = edited | moved
    unchanged = {reads.file for reads in before.reads if reads.file in files and not _has_changed(reads, changed)}
    unchanged.difference_update(unknown)
    while True:
        names = {stack.name for stack in before.stacks if stack.source.file in unchanged}
        dependents = {
            stack.source.file for stack in before.stacks if stack.name in names and not names.issuperset(stack.needs)
        }
        if not dependents:
            break
        unchanged -= dependents
    return PreviousEvaluation(
        before.clusters,
        tuple(stack for stack in before.stacks if stack.source.file in unchanged),
        tuple(reads for reads in before.reads if reads.file in unchanged),
    )


def _has_changed(reads: Reads, changed: set[str]) -> bool:
    """Return whether one of the changed files is among what a file of stacks was made from."""
    in_files = reads.file in changed or not changed.isdisjoint(reads.files)
    return in_files or any(_is_in_directories(path, reads) for path in changed)


def _is_in_directories(path: str, reads: Reads) -> bool:
    return any(directory == "." or path.startswith(f"{directory}/") for directory in reads.directories)


def _can_be_imported(path: str, all_reads: Iterable[Reads]) -> bool:
    """Return whether an import that was made may find this file now, or find it no longer."""
    name = PurePosixPath(path).stem
    names = {PurePosixPath(file).stem for reads in all_reads for file in reads.files if file != path}
    return name in sys.stdlib_module_names or name in names


_LARGEST = 1 << 22  # bytes that are read of one file
_ALL = 1 << 24  # bytes that are read for one evaluation
_LONGEST = 160  # characters of an excerpt
_WITH_LINE = 200  # problems that get an excerpt; users do not read more of them


@dataclass(slots=True)
class Excerpts:
    """The lines of files that the problems of one evaluation are about."""

    root: Path
    _lines: dict[str, list[bytes]] = field(default_factory=dict)  # by file
    _left: int = _ALL
    _shown: int = 0

    def add(self, problem: Problem) -> Problem:
        """Put its line into the problem if it can be read, and return the problem."""
        source = problem.source
        if source is None or source.line < 1 or not source.file.endswith(".py") or self._shown >= _WITH_LINE:
            return problem
        if source.file not in self._lines:
            self._lines[source.file] = self._read(source.file)
        lines = self._lines[source.file]
        if source.line <= len(lines):
            line = lines[source.line - 1].strip()[: 4 * _LONGEST].decode(errors="replace")
            problem.excerpt = printable(line)[:_LONGEST]
            self._shown += 1
        return problem

    def _read(self, name: str) -> list[bytes]:
        """Return the lines of a file in the repository; no line if it is outside of it or cannot be read."""
        try:
            path = (self.root / name).resolve()
            if not path.is_relative_to(self.root) or not path.is_file():
                return []
            with path.open("rb") as file:
                content = file.read(min(_LARGEST, self._left))
        except (OSError, RuntimeError, ValueError):  # no file has such a name
            return []
        self._left -= len(content)
        return content.splitlines()


LONGEST = 60  # times the time limit of one file: the limit for all files together
OnClusters = Callable[[tuple[ClusterData, ...]], None]


def ignore_clusters(clusters: tuple[ClusterData, ...]) -> None:
    """Do nothing with clusters that are known: the caller waits for all of the evaluation."""


def evaluate(
    repository: Repository,
    *,
    stacks: Sequence[str] | None = None,
    twice: bool = False,
    limits: Limits | None = None,
    pool: Pool | None = None,
    before: PreviousEvaluation | None = None,
    on_clusters: OnClusters = ignore_clusters,
) -> Evaluation:
    """Evaluate a repository's stacks (those named, or all) for all their clusters; with `()`, only the clusters.

    Return the evaluation, with its problems if there are any. The results in `before` are taken as they are, and their
    files are not evaluated again. Packages that the repository's lockfile names are fetched first, if they are missing.
    A `pool` that the caller keeps open keeps the zygotes warm for the next evaluation. `on_clusters` is called with the
    clusters as soon as they are known, which is before the stacks are evaluated, unless there is a problem with them.

    User code never runs in this process, and any thread may call this. Raise PolicyError where the code is not the
    user's own (`trust.code` of the settings) and the machine gives no sandbox; the user's own code runs in the best
    sandbox that the machine gives. Raise NotFoundError for a named stack that does not exist.
    """
    if pool is None:
        with Pool(twice=twice) as own:
            return evaluate(
                repository,
                stacks=stacks,
                twice=twice,
                limits=limits,
                pool=own,
                before=before,
                on_clusters=on_clusters,
            )
    check_required(repository.settings.apps.require)
    if repository.settings.trust.code is Code.OTHERS:
        _require_sandbox(pool.sandbox_report())
    evaluator = _Evaluator(repository, limits or repository.settings.limits, pool, twice, before)
    return evaluator.evaluate(stacks, on_clusters)


def _require_sandbox(given: SandboxReport) -> None:
    """Raise PolicyError if this sandbox is not enough for code that is not the user's own."""
    if given.holds_others:
        return
    reasons = "; ".join(f"level {level}: {why}" for level, why in given.why_not.items())
    if given.weakened:
        reasons = "it was weakened for a test"
    raise PolicyError(
        f"the code of others is evaluated in a sandbox only, and there is none here ({reasons})",
        hint="use a machine that has one (`fleet doctor` says so): Linux 5.13 or newer with Landlock. The head of a"
        ' pull request is always of others; a branch of your own is not, with code = "own" under [trust] in fleet.toml',
    )


@dataclass(slots=True)
class _State:
    """The state of the stacks during one evaluation, after each round of workers."""

    places: dict[str, list[Declared]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by stack: where it is declared
    tried: set[str] = field(default_factory=set)
    done: dict[str, StackResult] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    reads: dict[str, Reads] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    printed: dict[str, str] = field(default_factory=dict)  # by file
    given: dict[str, set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )  # by file: stacks whose exports it was given


class _Evaluator:
    """One evaluation of a repository."""

    def __init__(
        self, repository: Repository, limits: Limits, pool: Pool, twice: bool, before: PreviousEvaluation | None = None
    ) -> None:
        self._repository = repository
        self._before = before
        self._pool = pool
        self._twice = twice
        self._deadline = time.monotonic() + LONGEST * limits.time
        self._values = answer.MOST_VALUES
        paths = repository.settings.paths
        lock = repository.lock()
        self._job = Job(
            Task.CLUSTERS,
            str(repository.root),
            (),
            limits,
            importable=(paths.stacks,),
            packages=prepare_packages(lock),
            lock=f"{lock.file} of the base, which comes first" if lock.of_base else lock.file,
        )

    def evaluate(self, names: Sequence[str] | None, on_clusters: OnClusters) -> Evaluation:
        clusters, problems, foreign = self._clusters()
        if problems or (names is not None and not names):  # without clusters every placement would be wrong too
            return Evaluation(clusters, (), self._complete_problems(problems))
        on_clusters(clusters)
        state = self._stacks(clusters, names)
        problems = [*state.problems, *checks.check_stacks(state.places, state.done, state.waiting)]
        if not problems:
            for name in names or ():
                if name not in state.places:
                    hint = suggestion(name, state.places) or "there are none"
                    raise NotFoundError(f"there is no stack {name!r}", hint=hint)
        named_stacks = [stack for stack in state.done.values() if names is None or stack.name in names]
        stacks = () if problems else _sort_stacks(named_stacks)
        reads = tuple(state.reads[file] for file in sorted(state.reads))
        outside = tuple(sorted(state.foreign.union(foreign)))
        printed = tuple(sorted(state.printed.items()))
        return Evaluation(clusters, stacks, self._complete_problems(problems), reads, outside, printed)

    def _complete_problems(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Return the problems by place, each once: a mistake in a file that many files import is still one mistake."""
        distinct = {(_place_of(problem), problem.message): problem for problem in problems}
        excerpts = Excerpts(self._repository.root)
        return tuple(map(excerpts.add, sorted(distinct.values(), key=_place_of)[: checks.MOST_PROBLEMS]))

    def _clusters(self) -> tuple[tuple[ClusterData, ...], list[Problem], tuple[str, ...]]:
        files = self._repository.cluster_files()
        if not files:
            return (), [], ()
        ((job, first, second),) = self._run([replace(self._job, files=files)])
        clusters_answer, problems = answer.read_answer(job, first)
        if not problems and second is not None and not answer.is_repeated(first, second):
            answer_again, problems_again = answer.read_answer(job, second)
            problems = tuple(compare.compare_clusters(clusters_answer.clusters, answer_again, problems_again))
        clusters = tuple(sorted(clusters_answer.clusters, key=lambda cluster: cluster.name))
        return clusters, [*problems, *checks.check_clusters(clusters_answer.clusters)], clusters_answer.foreign

    def _stacks(self, clusters: tuple[ClusterData, ...], names: Sequence[str] | None) -> _State:
        state = _restore_state(self._before) if self._before and self._before.clusters == clusters else _State()
        job = replace(self._job, task=Task.STACKS, clusters=tuple(asdict(cluster) for cluster in clusters))
        only = None if names is None else tuple(names)
        files = [file for file in self._repository.stack_files() if file not in state.reads]
        jobs = [replace(job, files=(file,), only=only) for file in files]
        while jobs:
            for file_job, outcome, second in self._run(jobs):
                self._note(state, file_job, outcome, second)
            jobs = self._next_round(state, job)
        return state

    def _note(self, state: _State, job: Job, outcome: WorkerOutcome, second: WorkerOutcome | None) -> None:
        """Put the answer to a job into the state, and what differs in its second answer."""
        (file,) = job.files
        self._values -= answer.count_values(outcome.stream)
        result, problems = answer.read_answer(job, outcome if self._values >= 0 else replace(outcome, surplus=True))
        state.problems += problems[: checks.MOST_PROBLEMS - len(state.problems)]
        if file not in state.reads:
            for declared in result.declared:
                state.places[declared.name].append(declared)
        # Of a job for some stacks, these count as tried also when there is no answer.
        names = [declared.name for declared in result.declared] if job.only is None else job.only
        state.tried.update(names)
        for name in names:
            if name in state.places and state.places[name][0].source.file == file:
                state.waiting.pop(name, None)
        state.waiting |= {waiting.stack: waiting for waiting in result.waiting}
        state.done |= {stack.name: stack for stack in result.stacks}
        state.foreign.update(result.foreign)
        if output := answer.output_of(outcome):
            state.printed[file] = output
        before = state.reads.get(file, Reads(file, (), ()))
        files = tuple(sorted({*before.files, *result.files}))
        state.reads[file] = Reads(file, files, tuple(sorted({*before.directories, *result.directories})))
        if second is not None and not problems and not answer.is_repeated(outcome, second):
            differences = compare.compare_stacks(result.stacks, *answer.read_answer(job, second))
            state.problems += islice(differences, checks.MOST_PROBLEMS - len(state.problems))

    def _next_round(self, state: _State, job: Job) -> list[Job]:
        """Return the jobs for stacks whose missing exports are known now, and for stacks that these exports are of.

        The latter only if no job has evaluated them yet.
        """
        by_file: dict[str, list[str]] = defaultdict(list)
        needs_by_file: dict[str, set[str]] = defaultdict(set)
        for waiting in state.waiting.values():
            name = waiting.stack if waiting.wants in state.done else waiting.wants
            if waiting.wants in state.done or (name in state.places and name not in state.tried):
                file = state.places[name][0].source.file
                by_file[file] += [] if name in by_file[file] else [name]
                if waiting.wants in state.done:
                    needs_by_file[file].add(waiting.wants)
        return [
            replace(job, files=(file,), only=tuple(only), exports=_select_exports(state, file, needs_by_file[file]))
            for file, only in by_file.items()
        ]

    def _run(self, jobs: list[Job]) -> Iterator[tuple[Job, WorkerOutcome, WorkerOutcome | None]]:
        """Yield each job with its outcome, and the outcome of its second evaluation if there is one."""
        # The first and the second evaluation of a job follow each other: both zygotes have work from the beginning.
        pairs = ((job, replace(job, disturbed=True)) for job in jobs)
        all_jobs = [job for pair in pairs for job in pair] if self._twice else jobs
        outcomes = deque(self._pool.run(all_jobs, self._deadline))
        for job in jobs:  # an outcome is freed once it was read: it is as large as its decoded answer
            yield job, outcomes.popleft(), outcomes.popleft() if self._twice else None


MORE = 4  # times as many exports are given to a file that has to wait once more


def _select_exports(state: _State, file: str, needs: set[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the exports for a file that is evaluated again: those of the stacks that it waits for, and some more.

    Giving each file all known exports would cost the bytes of all exports per file. A file that waits for one more
    export each time would be evaluated as often as it reads one; so it is given more each time, the next ones by name.
    """
    given = state.given[file]
    most = MORE * len(given)
    given |= needs
    if needs and len(given) < most:
        names = sorted(state.done)
        first = bisect(names, max(needs))
        given.update(islice((name for name in names[first:] + names[:first] if name not in given), most - len(given)))
    return {name: {desired.cluster: desired.exports for desired in state.done[name].desired} for name in sorted(given)}


def _restore_state(before: PreviousEvaluation) -> _State:
    """Return the state in which the stacks of an earlier evaluation are done."""
    done = {stack.name: stack for stack in before.stacks}
    state = _State(done=done, reads={reads.file: reads for reads in before.reads})
    state.tried.update(state.done)
    for stack in before.stacks:
        state.places[stack.name].append(Declared(stack.name, stack.source))
    return state


def _sort_stacks(stacks: Iterable[StackResult]) -> tuple[StackResult, ...]:
    """Return the stacks sorted by name, but each after the stacks that it needs."""
    by_name = {stack.name: stack for stack in sorted(stacks, key=lambda stack: stack.name)}
    needs = {name: stack.needs for name, stack in by_name.items()}
    return tuple(by_name[name] for name in sort_by_dependencies(by_name, needs))


def _place_of(problem: Problem) -> tuple[str, int]:
    return (problem.source.file, problem.source.line) if problem.source else ("", 0)
