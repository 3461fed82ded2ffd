"""All files in, clusters and stacks out.

Which files of stacks have to be evaluated again after a commit, and what stays as it was. Pure.

Every file of stacks leaves a list of what it was made from (`Reads`): its own text, what it imported and read, the
directories that it listed. If none of that changed, nor the clusters, nor the settings, it would say the same again.
Whoever needs a stack that is evaluated again is evaluated again with it. What a file would have read had it been there
is in no list, so a file that comes or goes counts for all, unless it is one of stacks that nobody could have meant.

The lines of the user's files that problems are about, to show beside them.

They are read by the parent and not by the worker. The worker names the file, so it must be a Python file of the
repository; and it says how many problems there are, so each file is read once, and only so much of all together.

The stage itself: all files of a repository in, clusters and stacks as data out, or every problem at once.

clusters   one worker reads all files of clusters
stacks     one worker per file of stacks; a stack that reads an export of another is run again when that is known.
           What all answers together may have, of time, bytes, values and problems, is bounded as each one's is
checks     what no single file can know: names given twice, stacks that do not exist, circles of stacks
twice      where asked, all of it in a second zygote that differs in everything the result must not depend on
"""

from __future__ import annotations

import sys
import time
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from fleet.errors import NotFoundError, PolicyError
from fleet.evaluate import answer, checks
from fleet.evaluate import checks as compare
from fleet.evaluate.answer import Declared, Waiting
from fleet.evaluate.packages import prepare_packages
from fleet.evaluate.pool import Outcome, Pool
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.result import ClusterData, Evaluation, Problem, Reads, StackResult
from fleet.evaluate.sandbox.level import SandboxReport
from fleet.objects.graph import sort_by_dependencies
from fleet.repository import Code, Limits, Repository
from fleet.suggestion import suggestion
from fleet.text import printable


@dataclass(frozen=True, slots=True)
class PreviousEvaluation:
    """What is known from an earlier evaluation. It holds as long as the clusters are these."""

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
    """What of `before` holds after files were `edited` and others came or went (`moved`); None: nothing.

    `files` are the files of stacks that there are now, `of_all` what every one of them goes by: settings, packages.
    Of the `unknown` files `before` has no stacks: they were not kept, and say themselves what they are.
    """
    edited, moved = set(edited), set(moved)
    if before.problems or before.foreign or not before.reads or not (edited | moved).isdisjoint(of_all):
        return None
    known = {one.file for one in before.reads}
    if any((path not in files and path not in known) or _may_be_meant(path, before.reads) for path in moved):
        return None
    unmoved = {one.file for one in before.reads if one.file in files and not _touched(one, edited | moved)}
    unmoved.difference_update(unknown)
    while True:
        held = {one.name for one in before.stacks if one.source.file in unmoved}
        more = {one.source.file for one in before.stacks if one.name in held and not held.issuperset(one.needs)}
        if not more:
            break
        unmoved -= more
    return PreviousEvaluation(
        before.clusters,
        tuple(one for one in before.stacks if one.source.file in unmoved),
        tuple(one for one in before.reads if one.file in unmoved),
    )


def _touched(one: Reads, changed: set[str]) -> bool:
    return one.file in changed or not changed.isdisjoint(one.files) or any(_listed(path, one) for path in changed)


def _listed(path: str, one: Reads) -> bool:
    return any(directory == "." or path.startswith(f"{directory}/") for directory in one.directories)


def _may_be_meant(path: str, reads: Iterable[Reads]) -> bool:
    """Whether an import of the same name could find this file now, or no longer."""
    name = PurePosixPath(path).stem
    names = {PurePosixPath(file).stem for one in reads for file in one.files if file != path}
    return name in sys.stdlib_module_names or name in names


_LARGEST = 1 << 22
_ALL = 1 << 24  # bytes that are read for one evaluation
_LONGEST = 160
_WITH_LINE = 200  # problems; of more, nobody reads the rest


@dataclass(slots=True)
class Excerpts:
    """The files that were read for the problems of one evaluation."""

    root: Path
    _lines: dict[str, list[bytes]] = field(default_factory=dict)  # by file
    _left: int = _ALL
    _shown: int = 0

    def add(self, problem: Problem) -> Problem:
        """Put the line into the problem, and return it."""
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


LONGEST = 60  # times the time that one file may take: for all of them


def evaluate(
    repository: Repository,
    *,
    stacks: Sequence[str] | None = None,
    twice: bool = False,
    limits: Limits | None = None,
    pool: Pool | None = None,
    before: PreviousEvaluation | None = None,
) -> Evaluation:
    """Evaluate a repository's stacks (those named, or all) for all their clusters; with `()`, only the clusters.

    What stands in `before` is taken as it is, and its files are not evaluated again.

    It never runs user code in this process, and may be called from any thread. Code of others (`trust.code` of the
    settings) is refused where the machine gives no sandbox; one's own runs in the best there is. Packages that the
    repository's lockfile names are fetched first, if they are not there yet. A `pool` that is kept open keeps the
    zygotes warm for the next time.
    """
    if pool is None:
        with Pool(twice=twice) as own:
            return evaluate(repository, stacks=stacks, twice=twice, limits=limits, pool=own, before=before)
    if repository.settings.trust.code is Code.OTHERS:
        _require_a_sandbox(pool.given())
    return _Evaluator(repository, limits or repository.settings.limits, pool, twice, before).evaluate(stacks)


def _require_a_sandbox(given: SandboxReport) -> None:
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
class _Found:
    """What is known about the stacks so far."""

    places: dict[str, list[Declared]] = field(default_factory=lambda: defaultdict(list))  # where each is declared
    tried: set[str] = field(default_factory=set)
    done: dict[str, StackResult] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    reads: dict[str, Reads] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    printed: dict[str, str] = field(default_factory=dict)  # by file
    given: dict[str, set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )  # stacks whose exports a file was given


class _Evaluator:
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

    def evaluate(self, names: Sequence[str] | None) -> Evaluation:
        clusters, problems, foreign = self._clusters()
        if problems or (names is not None and not names):  # without clusters every placement would be wrong too
            return Evaluation(clusters, (), self._shown(problems))
        found = self._stacks(clusters, names)
        problems = [*found.problems, *checks.check_stacks(found.places, found.done, found.waiting)]
        if not problems:
            for name in names or ():
                if name not in found.places:
                    hint = suggestion(name, found.places) or "there are none"
                    raise NotFoundError(f"there is no stack {name!r}", hint=hint)
        chosen = [one for one in found.done.values() if names is None or one.name in names]
        stacks = () if problems else _in_order(chosen)
        reads = tuple(found.reads[file] for file in sorted(found.reads))
        outside = tuple(sorted(found.foreign.union(foreign)))
        return Evaluation(clusters, stacks, self._shown(problems), reads, outside, tuple(sorted(found.printed.items())))

    def _shown(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """By place, each once: a mistake in a file that many import is still one."""
        distinct = {(_place(problem), problem.message): problem for problem in problems}
        excerpts = Excerpts(self._repository.root)
        return tuple(map(excerpts.add, sorted(distinct.values(), key=_place)[: checks.MOST_PROBLEMS]))

    def _clusters(self) -> tuple[tuple[ClusterData, ...], list[Problem], tuple[str, ...]]:
        files = self._repository.cluster_files()
        if not files:
            return (), [], ()
        ((job, first, second),) = self._run([replace(self._job, files=files)])
        got, problems = answer.read_answer(job, first)
        if not problems and second is not None and not answer.is_repeated(first, second):
            problems = tuple(compare.compare_clusters(got.clusters, *answer.read_answer(job, second)))
        clusters = tuple(sorted(got.clusters, key=lambda one: one.name))
        return clusters, [*problems, *checks.check_clusters(got.clusters)], got.foreign

    def _stacks(self, clusters: tuple[ClusterData, ...], names: Sequence[str] | None) -> _Found:
        found = _known(self._before) if self._before and self._before.clusters == clusters else _Found()
        job = replace(self._job, task=Task.STACKS, clusters=tuple(asdict(cluster) for cluster in clusters))
        wanted = None if names is None else tuple(names)
        files = [file for file in self._repository.stack_files() if file not in found.reads]
        jobs = [replace(job, files=(file,), only=wanted) for file in files]
        while jobs:
            for one, outcome, second in self._run(jobs):
                self._note(found, one, outcome, second)
            jobs = self._next_round(found, job)
        return found

    def _note(self, found: _Found, job: Job, outcome: Outcome, second: Outcome | None) -> None:
        (file,) = job.files
        self._values -= answer.count_values(outcome.stream)
        got, problems = answer.read_answer(job, outcome if self._values >= 0 else replace(outcome, surplus=True))
        found.problems += problems[: checks.MOST_PROBLEMS - len(found.problems)]
        if file not in found.reads:
            for declared in got.declared:
                found.places[declared.name].append(declared)
        tried = [one.name for one in got.declared] if job.only is None else job.only  # also when there is no answer
        found.tried.update(tried)
        for name in tried:
            if name in found.places and found.places[name][0].source.file == file:
                found.waiting.pop(name, None)
        found.waiting |= {one.stack: one for one in got.waiting}
        found.done |= {one.name: one for one in got.stacks}
        found.foreign.update(got.foreign)
        if said := answer.output_of(outcome):
            found.printed[file] = said
        before = found.reads.get(file, Reads(file, (), ()))
        files = tuple(sorted({*before.files, *got.files}))
        found.reads[file] = Reads(file, files, tuple(sorted({*before.directories, *got.directories})))
        if second is not None and not problems and not answer.is_repeated(outcome, second):
            differing = compare.compare_stacks(got.stacks, *answer.read_answer(job, second))
            found.problems += islice(differing, checks.MOST_PROBLEMS - len(found.problems))

    def _next_round(self, found: _Found, job: Job) -> list[Job]:
        """Run again what waits for exports that are known now; and first what it waits for, if nobody asked for it."""
        by_file: dict[str, list[str]] = defaultdict(list)
        wanted: dict[str, set[str]] = defaultdict(set)
        for waiting in found.waiting.values():
            name = waiting.stack if waiting.wants in found.done else waiting.wants
            if waiting.wants in found.done or (name in found.places and name not in found.tried):
                file = found.places[name][0].source.file
                by_file[file] += [] if name in by_file[file] else [name]
                if waiting.wants in found.done:
                    wanted[file].add(waiting.wants)
        return [
            replace(job, files=(file,), only=tuple(only), exports=_exports(found, file, wanted[file]))
            for file, only in by_file.items()
        ]

    def _run(self, jobs: list[Job]) -> Iterator[tuple[Job, Outcome, Outcome | None]]:
        # First and second time of a job beside each other: both zygotes have work from the beginning.
        asked = [one for job in jobs for one in (job, replace(job, disturbed=True))] if self._twice else jobs
        outcomes = deque(self._pool.run(asked, self._deadline))
        for job in jobs:  # what was read is let go: it is as large as what it is read into
            yield job, outcomes.popleft(), outcomes.popleft() if self._twice else None


MORE = 4  # times as many exports are given to a file that waits once more


def _exports(found: _Found, file: str, wanted: set[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the exports for a file that is evaluated again: those that it waits for.

    With all that are known, the bytes would be those of all exports for each file. A file that waits again and again
    for one more would be evaluated as often as it reads one: so it is given some more each time, those next by name.
    """
    given = found.given[file]
    most = MORE * len(given)
    given |= wanted
    if wanted and len(given) < most:
        names = sorted(found.done)
        first = bisect(names, max(wanted))
        given.update(islice((name for name in names[first:] + names[:first] if name not in given), most - len(given)))
    return {name: {one.cluster: one.exports for one in found.done[name].desired} for name in sorted(given)}


def _known(before: PreviousEvaluation) -> _Found:
    found = _Found(done={one.name: one for one in before.stacks}, reads={one.file: one for one in before.reads})
    found.tried.update(found.done)
    for one in before.stacks:
        found.places[one.name].append(Declared(one.name, one.source))
    return found


def _in_order(stacks: Iterable[StackResult]) -> tuple[StackResult, ...]:
    by_name = {one.name: one for one in sorted(stacks, key=lambda one: one.name)}
    return tuple(
        by_name[name] for name in sort_by_dependencies(by_name, {name: one.needs for name, one in by_name.items()})
    )


def _place(problem: Problem) -> tuple[str, int]:
    return (problem.source.file, problem.source.line) if problem.source else ("", 0)
