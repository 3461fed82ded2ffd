"""Read what a worker left: its answer, validated, or what went wrong when there is none.

Everything here came from user code, so it is checked for form, for speaking only of what was asked, and for characters
that a terminal would obey. What it costs to read is bounded too: whoever waits for one answer waits for others as well.
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
from fleet.evaluate.pool import IN_ALL, LAST, Outcome
from fleet.evaluate.protocol import UNCONFINED, Job
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.text import count_noun, printable

DEEPEST = 100  # manifests are a dozen deep; the stages after this one walk them by recursion
MOST_VALUES = 8 * 1024 * 1024  # in one answer, and in all of an evaluation: an empty list is two bytes as text, and
# dozens of them in memory
MOST_NOTES = 100_000  # one per file and stack
MOST_PROBLEMS = 1_000  # that are shown
_SPLIT = "make less of it, split the repository, or raise {} under [limits] in fleet.toml"
_LONGEST = 4_000  # of one text that is shown
_TRACEBACK = 64 * 1024
_SHOWN_LINES, _SHOWN_WIDTH = 10, 200
_FRAME = re.compile(r'^  File "(.+)", line (\d{1,9}) in ', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProblemData:
    message: str
    hint: str | None
    field: str | None
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Declared:
    name: str
    source: Source


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stack that cannot go on before it knows an export of another one."""

    stack: str
    wants: str
    problem: ProblemData


@dataclass(frozen=True, slots=True)
class Answer:
    """Of either task; what the other one answers is empty."""

    problems: tuple[ProblemData, ...] = ()
    clusters: tuple[ClusterData, ...] = ()
    declared: tuple[Declared, ...] = ()
    stacks: tuple[StackResult, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def read_answer(job: Job, outcome: Outcome) -> tuple[Answer, tuple[Problem, ...]]:
    """The answer and the problems it tells of; an empty answer and one problem when there is none to be had."""
    note, last = _lines(outcome.stream)
    at = _at(job, note)
    failure = _failure(job, outcome, last, at)
    if failure is not None:
        return Answer(), (_shown(failure, outcome),)
    try:
        answer = decode(Answer, read_document(last))
        _check(job, answer)
    except (MalformedError, orjson.JSONDecodeError) as error:
        malformed = ProblemData(
            f"answered something that is no result: {error}",
            "does the code write to descriptors it did not open?",
            None,
            *at,
        )
        return Answer(), (_shown(malformed, outcome),)
    return answer, tuple(_shown(problem, outcome) for problem in answer.problems[:MOST_PROBLEMS])


def is_repeated(first: Outcome, second: Outcome) -> bool:
    """Tell whether two workers left the same bytes and ended the same way, so that to read one is to read both."""
    return replace(first, output=b"") == replace(second, output=b"")


def read_document(text: bytes, option: int = orjson.OPT_APPEND_NEWLINE) -> Any:
    """The data, if it is the one text that is written for it: no key twice, no NaN, no number cut short.

    `option` is how that is written: by a worker in one line.
    """
    if count_values(text) > MOST_VALUES:
        raise MalformedError(f"data of more than {MOST_VALUES} values")
    data = orjson.loads(text)
    try:
        only = orjson.dumps(data, option=option)
    except TypeError as error:
        raise MalformedError(str(error)) from None
    if only != text:
        raise MalformedError("data in another form than ours")
    if _deeper_than(DEEPEST, data):
        raise MalformedError(f"data nested more than {DEEPEST} deep")
    return data


def count_values(text: bytes) -> int:
    """Return how many values the text of some data has at most."""
    return sum(map(text.count, (b"[", b"{", b",")))


def _deeper_than(most: int, data: Any) -> bool:
    level = [data]
    for _ in range(most + 1):
        containers = [one for one in level if type(one) in (dict, list)]
        if not containers:
            return False
        level = [inner for one in containers for inner in (one.values() if type(one) is dict else one)]
    return True


def _lines(stream: bytes) -> tuple[bytes, bytes]:
    """The last note, and what comes after it."""
    note, begin = b"", 0
    for _ in range(MOST_NOTES):
        end = stream.find(b"\n", begin) if stream.startswith(b'{"at":', begin) else -1
        if end < 0:
            break
        note, begin = stream[begin:end], end + 1
    return note, stream[begin:]


def _at(job: Job, note: bytes) -> tuple[str, int]:
    try:
        file, line = orjson.loads(note)["at"]
    except (LookupError, TypeError, ValueError):
        file, line = job.files[0], 1
    return (file, line) if file in job.files and isinstance(line, int) else (job.files[0], 1)


def _failure(job: Job, outcome: Outcome, last: bytes, at: tuple[str, int]) -> ProblemData | None:
    """Why there is no answer to read, if so. The order matters: the first that applies is the cause of the others."""
    limits = job.limits
    here = at if last.startswith(b"{") else _traced(job, last) or at
    if last.startswith(UNCONFINED):
        reason = last.removeprefix(UNCONFINED).decode(errors="replace").strip()
        hint = "`fleet doctor` says what this machine gives; can its owner read the directory without being root?"
        return ProblemData(f"was not run, for the sandbox could not be made: {reason}", hint, None, *at)
    if outcome.late:
        hint = _SPLIT.format("time")
        return ProblemData("was not evaluated: all files together took longer than they may", hint, None, *at)
    if outcome.surplus:
        message = f"all files together answered more than {IN_ALL * limits.result} bytes or {MOST_VALUES} values"
        return ProblemData(message, _SPLIT.format("result"), None, *at)
    if last.startswith(b"Timeout") or outcome.overtime:
        message, hint = time_exceeded(limits)
        return ProblemData(message, hint, None, *here)
    if outcome.oversized:
        hint = "make less of it, split the stack, or raise result under [limits] in fleet.toml"
        return ProblemData(f"the result has more than the {limits.result} bytes allowed", hint, None, *at)
    if outcome.lost:
        return ProblemData("ended the process that evaluates it", "a stack cannot start or end processes", None, *here)
    if last.startswith(b"Fatal Python error"):
        what = last.partition(b"\n")[0].decode(errors="replace").removeprefix("Fatal Python error: ")
        return ProblemData(f"crashed: {what}", "look at what the line does outside Python", None, *here)
    if not last or outcome.code:
        how = f"by signal {-outcome.code}" if outcome.code < 0 else f"with exit code {outcome.code}"
        hint = "return from the function, or raise an error"
        if outcome.code == -signal.SIGKILL:  # by the kernel: nobody else but us does, and we know when we did
            hint = f"it may have used more than {limits.cpu:g} s of CPU time, or the system ran out of memory"
        return ProblemData(f"ended its process {how} and gave no result", hint, None, *at)
    if outcome.left:
        count = count_noun(outcome.left, "process", "processes")
        hint = "a stack cannot start processes: write what the program would print into a file, and read that"
        return ProblemData(f"left {count} running (they were ended)", hint, None, *at)
    return None


def _traced(job: Job, last: bytes) -> tuple[str, int] | None:
    """The innermost line of the repository in a traceback that the worker wrote on its way out."""
    for file, line in _FRAME.findall(last[:_TRACEBACK].decode(errors="replace")):
        if own := inside(file, Path(job.root)):
            return own, int(line)
    return None


def _check(job: Job, answer: Answer) -> None:
    """That a worker speaks only of what it was asked, and in the form that the stages after it rely on."""
    schema.check_parts(job, {name: getattr(answer, name) for name in ("clusters", "declared", "stacks", "waiting")})
    schema.check_clusters(answer.clusters, job.files)
    for declared in answer.declared:
        schema.check_name(declared.name)
        schema.check_source(f"stack {declared.name}", declared.source)
        if declared.source.file not in job.files:
            raise MalformedError(f"stack {declared.name} is of {declared.source.file[:80]!r}")
    asked = {one.name for one in answer.declared if job.only is None or one.name in job.only}
    for waiting in answer.waiting:
        schema.check_name(waiting.wants)
        schema.check_source(f"stack {waiting.stack[:80]}", Source(waiting.problem.file, waiting.problem.line))
        if waiting.stack not in asked or waiting.wants in job.exports:
            raise MalformedError(f"stack {waiting.stack[:80]} waits for nothing")
    schema.check_stacks(answer.stacks, job, asked)
    schema.check_paths((*answer.files, *answer.directories), "files")
    for problem in answer.problems:
        if not 0 <= problem.line <= schema.LAST_LINE:
            raise MalformedError("problems.line: not as it should be")


def _shown(data: ProblemData, outcome: Outcome) -> Problem:
    return Problem(
        _text(data.message),
        hint=_text(data.hint) if data.hint else None,
        field=_text(data.field) if data.field else None,
        source=Source(_text(data.file), data.line),
        output=output_of(outcome),
    )


def _text(text: str) -> str:
    return printable(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def output_of(outcome: Outcome) -> str:
    """The last lines that the code printed, as many as help."""
    text = printable(outcome.output[-LAST:].decode(errors="replace")).strip()
    lines = text.splitlines()[-_SHOWN_LINES:]
    return "\n".join(line if len(line) <= _SHOWN_WIDTH else f"…{line[-_SHOWN_WIDTH:]}" for line in lines)
