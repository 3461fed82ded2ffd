"""The reader of what a worker left: its validated answer, or the problem that explains why there is none.

Everything here came from user code, so it is checked for form, for naming only what the job asked for, and for
characters that a terminal would obey. The cost of reading is bounded too: the parent reads one answer after the other,
so a slow one would delay all the rest.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import Source
from fleet.evaluate import schema
from fleet.evaluate.decode import MalformedError, decode
from fleet.evaluate.explain import inside, time_exceeded
from fleet.evaluate.pool import IN_ALL, LAST, WorkerOutcome
from fleet.evaluate.protocol import UNCONFINED, Job
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.text import count_noun, printable

DEEPEST = 100  # manifests are a dozen deep; the stages after this one walk them by recursion
MOST_VALUES = 8 * 1024 * 1024  # in one answer, and in all of an evaluation: an empty list is two bytes as text, and
# dozens of them in memory
MOST_NOTES = 100_000  # one per file and stack
MOST_PROBLEMS = 1_000  # problems of one answer that are shown
_SPLIT = "make less of it, split the repository, or raise {} under [limits] in fleet.toml"
_LONGEST = 4_000  # characters of one text that is shown
_TRACEBACK = 64 * 1024
_SHOWN_LINES, _SHOWN_WIDTH = 10, 200
_FRAME = re.compile(r'^  File "(.+)", line (\d{1,9}) in ', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProblemData:
    """A problem as a worker answers it."""

    message: str
    hint: str | None
    field: str | None
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Declared:
    """A stack that a file declares, whether or not it was evaluated."""

    name: str
    source: Source


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stack that cannot go on before it knows an export of another stack."""

    stack: str
    wants: str
    problem: ProblemData


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """The answer to a job of either task; the fields that only the other task fills are empty."""

    problems: tuple[ProblemData, ...] = ()
    clusters: tuple[ClusterData, ...] = ()
    declared: tuple[Declared, ...] = ()
    stacks: tuple[StackResult, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def read_answer(job: Job, outcome: WorkerOutcome) -> tuple[WorkerAnswer, tuple[Problem, ...]]:
    """Return the answer and its problems; an empty answer and one problem if the worker left none that can be read."""
    note, last = _split_stream(outcome.stream)
    place = _read_place(job, note)
    failure = _find_failure(job, outcome, last, place)
    if failure is not None:
        return WorkerAnswer(), (_convert_problem(failure, outcome),)
    try:
        answer = decode(WorkerAnswer, read_document(last))
        _check_answer(job, answer)
    except (MalformedError, orjson.JSONDecodeError) as error:
        malformed = ProblemData(
            f"answered something that is no result: {error}",
            "does the code write to descriptors it did not open?",
            None,
            *place,
        )
        return WorkerAnswer(), (_convert_problem(malformed, outcome),)
    return answer, tuple(_convert_problem(problem, outcome) for problem in answer.problems[:MOST_PROBLEMS])


def is_repeated(first: WorkerOutcome, second: WorkerOutcome) -> bool:
    """Tell whether two workers left the same bytes and ended the same way, so that to read one is to read both."""
    return replace(first, output=b"") == replace(second, output=b"")


def read_document(text: bytes, option: int = orjson.OPT_APPEND_NEWLINE) -> Any:
    """Return the data of a text that is the only one encoding it: no key twice, no NaN, no number cut short.

    `option` is how the text was encoded; a worker writes one line. Raise MalformedError for a text in another form and
    for data too deep or too large, JSONDecodeError for a text that is no JSON.
    """
    if count_values(text) > MOST_VALUES:
        raise MalformedError(f"data of more than {MOST_VALUES} values")
    data = orjson.loads(text)
    try:
        encoded = orjson.dumps(data, option=option)
    except TypeError as error:
        raise MalformedError(str(error)) from None
    if encoded != text:
        raise MalformedError("data in another form than ours")
    if _is_deeper_than(DEEPEST, data):
        raise MalformedError(f"data nested more than {DEEPEST} deep")
    return data


def count_values(text: bytes) -> int:
    """Return an upper bound of the number of values in data, from its text."""
    return sum(map(text.count, (b"[", b"{", b",")))


def _is_deeper_than(most: int, data: Any) -> bool:
    """Return whether data is nested more than `most` deep, without recursion."""
    level = [data]
    for _ in range(most + 1):
        containers = [value for value in level if type(value) in (dict, list)]
        if not containers:
            return False
        level = [inner for outer in containers for inner in (outer.values() if type(outer) is dict else outer)]
    return True


def _split_stream(stream: bytes) -> tuple[bytes, bytes]:
    """Return the last note of a stream and what comes after it."""
    note, begin = b"", 0
    for _ in range(MOST_NOTES):
        end = stream.find(b"\n", begin) if stream.startswith(b'{"at":', begin) else -1
        if end < 0:
            break
        note, begin = stream[begin:end], end + 1
    return note, stream[begin:]


def _read_place(job: Job, note: bytes) -> tuple[str, int]:
    """Return the file and line of a note; the beginning of the job's first file if the note is not valid."""
    try:
        file, line = orjson.loads(note)["at"]
    except (LookupError, TypeError, ValueError):
        file, line = job.files[0], 1
    return (file, line) if file in job.files and isinstance(line, int) else (job.files[0], 1)


def _find_failure(job: Job, outcome: WorkerOutcome, last: bytes, place: tuple[str, int]) -> ProblemData | None:
    """Return the problem that explains why there is no answer to read, or None if there is one.

    The order of the checks matters: the first that applies is the cause of the later ones.
    """
    limits = job.limits
    traced_place = place if last.startswith(b"{") else _find_traced_place(job, last) or place
    if last.startswith(UNCONFINED):
        reason = last.removeprefix(UNCONFINED).decode(errors="replace").strip()
        hint = "`fleet doctor` says what this machine gives; can its owner read the directory without being root?"
        return ProblemData(f"was not run, for the sandbox could not be made: {reason}", hint, None, *place)
    if outcome.late:
        hint = _SPLIT.format("time")
        return ProblemData("was not evaluated: all files together took longer than they may", hint, None, *place)
    if outcome.surplus:
        message = f"all files together answered more than {IN_ALL * limits.result} bytes or {MOST_VALUES} values"
        return ProblemData(message, _SPLIT.format("result"), None, *place)
    if last.startswith(b"Timeout") or outcome.overtime:
        message, hint = time_exceeded(limits)
        return ProblemData(message, hint, None, *traced_place)
    if outcome.oversized:
        hint = "make less of it, split the stack, or raise result under [limits] in fleet.toml"
        return ProblemData(f"the result has more than the {limits.result} bytes allowed", hint, None, *place)
    if outcome.lost:
        return ProblemData(
            "ended the process that evaluates it", "a stack cannot start or end processes", None, *traced_place
        )
    if last.startswith(b"Fatal Python error"):
        what = last.partition(b"\n")[0].decode(errors="replace").removeprefix("Fatal Python error: ")
        return ProblemData(f"crashed: {what}", "look at what the line does outside Python", None, *traced_place)
    if not last or outcome.code:
        how = f"by signal {-outcome.code}" if outcome.code < 0 else f"with exit code {outcome.code}"
        hint = "return from the function, or raise an error"
        if outcome.code == -signal.SIGKILL:  # by the kernel: `outcome` says so when it was the parent or the zygote
            hint = f"it may have used more than {limits.cpu:g} s of CPU time, or the system ran out of memory"
        return ProblemData(f"ended its process {how} and gave no result", hint, None, *place)
    if outcome.left:
        count = count_noun(outcome.left, "process", "processes")
        hint = "a stack cannot start processes: write what the program would print into a file, and read that"
        return ProblemData(f"left {count} running (they were ended)", hint, None, *place)
    return None


def _find_traced_place(job: Job, last: bytes) -> tuple[str, int] | None:
    """Return the innermost place in the repository of a traceback that the worker wrote at its end, or None."""
    for file, line in _FRAME.findall(last[:_TRACEBACK].decode(errors="replace")):
        if own := inside(file, Path(job.root)):
            return own, int(line)
    return None


def _check_answer(job: Job, answer: WorkerAnswer) -> None:
    """Raise MalformedError where an answer names what was not asked for, or has not the form that stages rely on."""
    schema.check_parts(job, {name: getattr(answer, name) for name in ("clusters", "declared", "stacks", "waiting")})
    schema.check_clusters(answer.clusters, job.files)
    for declared in answer.declared:
        schema.check_name(declared.name)
        schema.check_source(f"stack {declared.name}", declared.source)
        if declared.source.file not in job.files:
            raise MalformedError(f"stack {declared.name} is of {declared.source.file[:80]!r}")
    asked_stacks = {stack.name for stack in answer.declared if job.only is None or stack.name in job.only}
    for waiting in answer.waiting:
        schema.check_name(waiting.wants)
        schema.check_source(f"stack {waiting.stack[:80]}", Source(waiting.problem.file, waiting.problem.line))
        if waiting.stack not in asked_stacks or waiting.wants in job.exports:
            raise MalformedError(f"stack {waiting.stack[:80]} waits for nothing")
    schema.check_stacks(answer.stacks, job, asked_stacks)
    schema.check_paths((*answer.files, *answer.directories), "files")
    for problem in answer.problems:
        if not 0 <= problem.line <= schema.LAST_LINE:
            raise MalformedError("problems.line: not as it should be")


def _convert_problem(data: ProblemData, outcome: WorkerOutcome) -> Problem:
    """Return the problem with printable texts of bounded length and the last lines that the code printed."""
    return Problem(
        _limit_text(data.message),
        hint=_limit_text(data.hint) if data.hint else None,
        field=_limit_text(data.field) if data.field else None,
        source=Source(_limit_text(data.file), data.line),
        output=output_of(outcome),
    )


def _limit_text(text: str) -> str:
    """Return the text printable, and cut where it is too long to be shown."""
    return printable(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def output_of(outcome: WorkerOutcome) -> str:
    """Return the last lines that the code printed, bounded in number and width."""
    text = printable(outcome.output[-LAST:].decode(errors="replace")).strip()
    lines = text.splitlines()[-_SHOWN_LINES:]
    return "\n".join(line if len(line) <= _SHOWN_WIDTH else f"…{line[-_SHOWN_WIDTH:]}" for line in lines)
