"""The way from an exception in user code to a problem: the file and line of the user's code, and what to do about it.

The exception may have been raised deep in a library; the line to correct is the innermost one of the repository. A
problem is a plain dict here, because it is about to leave the process.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from difflib import get_close_matches
from errno import EACCES, EFBIG, ENOENT, EPERM, EROFS
from pathlib import Path
from types import FrameType
from typing import Any

from fleet import ROOT
from fleet.errors import FleetError
from fleet.evaluate.protocol import Job
from fleet.evaluate.worker.guard import ActionRefusedError
from fleet.evaluate.worker.load import RefusedImportError, module_is_beside
from fleet.repository.settings import Limits

_LONGEST = 4_000
_ENDLESS = "look for a loop without end, or raise {} under [limits] in fleet.toml"
_MISSING_NAME = re.compile(
    r"cannot import name '(?P<imported>[^']+)' from '(?P<origin>[\w.]+)'"
    r"|module '(?P<module>[\w.]+)' has no attribute '(?P<name>[^']+)'"
)
_OURS = f"{Path(ROOT).resolve()}/"


def explain(error: BaseException, root: Path, job: Job, fallback: tuple[str, int]) -> dict[str, Any]:
    """Return the problem that explains an error; `fallback` is its place if no frame is in the user's files."""
    file, line = place_of(error, root) or fallback
    message, hint, field = _describe_error(error, job, root)
    if isinstance(error, FleetError) and error.source is not None and error.source.line:
        file, line = error.source.file, error.source.line
    return {
        "message": _shorten(message) or type(error).__name__,
        "hint": _shorten(hint),
        "field": _shorten(field),
        "file": file,
        "line": line,
    }


def place_of(error: BaseException, root: Path) -> tuple[str, int] | None:
    """Return the innermost place in the repository of an error, or of one that it was raised from, if there is one."""
    for cause in _chain(error):
        if isinstance(cause, SyntaxError) and cause.filename and (own := inside(cause.filename, root)):
            return own, cause.lineno or 0
        frames = list(traceback.walk_tb(cause.__traceback__))
        for frame, line in reversed(frames):
            if own := inside(frame.f_code.co_filename, root):
                return own, line
    return None


def place_in(frame: FrameType | None, root: Path) -> tuple[str, int] | None:
    """Return the innermost place in the repository of code that is running; None if there is none."""
    while frame is not None:
        if own := inside(frame.f_code.co_filename, root):
            return own, frame.f_lineno
        frame = frame.f_back
    return None


def time_exceeded(limits: Limits) -> tuple[str, str]:
    """Return the message and hint for a worker that ran out of time."""
    return f"took longer than {limits.time:g} s", _ENDLESS.format("time")


def cpu_exceeded(limits: Limits) -> tuple[str, str]:
    """Return the message and hint for a worker that ran out of CPU time."""
    return f"used more than {limits.cpu:g} s of CPU time", _ENDLESS.format("cpu")


def inside(filename: str, root: Path) -> str | None:
    """Return the path of a user's file below the root; None for a file of a library or of fleet, wherever that is."""
    path = Path(filename)
    if not path.is_absolute() or filename.startswith(_OURS) or not path.is_relative_to(root):
        return None
    relative = path.relative_to(root)
    return None if "site-packages" in relative.parts else relative.as_posix()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from, each once."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _describe_error(error: BaseException, job: Job, root: Path) -> tuple[str, str | None, str | None]:
    """Return message, hint and field of the problem for an error."""
    limits = job.limits
    for cause in _chain(error):
        if isinstance(cause, ActionRefusedError | RefusedImportError):
            return cause.message, cause.hint, None
    match error:
        case FleetError():
            return error.message, error.hint, error.field
        case SyntaxError():
            return f"syntax error: {error.msg}", _describe_column(error), None
        case ImportError() | AttributeError() if texts := _describe_missing(error, job):
            return *texts, None
        case TypeError() if "stack() missing" in _text_of(error):
            hint = '@fleet.stack(clusters=["NAME"]), or clusters=fleet.where(…) for clusters by their labels'
            return "@fleet.stack has to be told where the stack goes", hint, None
        case MemoryError():
            hint = "make less, or raise memory under [limits] in fleet.toml"
            return f"used more than {limits.memory // 2**20} MiB of memory", hint, None
        case OSError() if texts := _describe_refusal(error, limits, root):
            return *texts, None
        case RuntimeError() if "start new thread" in str(error):
            return "a stack cannot start threads", "do it one after the other: a stack only describes", None
        case RecursionError():
            return "calls itself without end", "see the function at this line", None
        case SystemExit():
            return "ended the process", "return from the function, or raise an error", None
        case KeyboardInterrupt():
            return "was interrupted", None, None
    return (
        f"{type(error).__name__}: {_text_of(error)}",
        _describe_validation(error) or _describe_origin(error),
        _field_of(error),
    )


def _describe_origin(error: BaseException) -> str | None:
    """Return in which library an error was raised and what its notes are; None if there is nothing to add."""
    parts = [str(note) for note in getattr(error, "__notes__", ())]
    frames = list(traceback.walk_tb(error.__traceback__))
    modules = _list_libraries()
    if frames and (file := frames[-1][0].f_code.co_filename) in modules:
        parts.insert(0, f"raised in {modules[file]}, line {frames[-1][1]}, called from here")
    return ", ".join(parts) or None


def _list_libraries() -> dict[str, str]:
    """Return the names of the loaded libraries by their files."""
    paths = ("site-packages", sysconfig.get_paths()["stdlib"])
    files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    return {file: name for name, file in files.items() if any(path in file for path in paths)}


def _describe_column(error: SyntaxError) -> str | None:
    return f"look at column {error.offset} or just before it" if error.offset else None


def _describe_missing(error: ImportError | AttributeError, job: Job) -> tuple[str, str | None] | None:
    """Return message and hint for a module or a name that does not exist; None for any other error."""
    if isinstance(error, ModuleNotFoundError):
        return _describe_missing_module(error.name or "", job)
    if isinstance(error, AttributeError) and (texts := _describe_missing_attribute(error)):
        return texts
    match = _MISSING_NAME.match(_text_of(error))
    return (
        _describe_missing_name(match["imported"] or match["name"], match["origin"] or match["module"])
        if match
        else None
    )


def _describe_missing_attribute(error: AttributeError) -> tuple[str, str] | None:
    """Return message and hint for what an object of fleet's classes does not have; None for any other error."""
    kind = type(error.obj)
    if not error.name or not any(base.__module__.startswith("fleet.") for base in kind.__mro__):
        return None
    inherited = {name for base in kind.__mro__ if base.__module__.startswith("pydantic") for name in vars(base)}
    named = {*dir(kind), *getattr(kind, "model_fields", ())} - inherited
    names = sorted(name for name in named if name[0] != "_" and not callable(getattr(kind, name, None)))
    close = get_close_matches(error.name, names, n=1)
    return f"{kind.__name__} has no {error.name!r}", f"did you mean {close[0]!r}?" if close else _list_names(names)


def _list_names(names: list[str]) -> str:
    return f"there are: {', '.join(names)}"


def _describe_missing_module(name: str, job: Job) -> tuple[str, str]:
    top = name.partition(".")[0]
    if module_is_beside(top):
        return f"{top!r} is installed for fleet, and not for stacks", _lock_hint(job)
    close = get_close_matches(top, sys.stdlib_module_names | set(sys.modules), n=1, cutoff=0.75)
    guess = f"did you mean {close[0]!r}? otherwise " if close and close[0] != top else ""
    return f"there is no module {name!r}", f"{guess}put it into the repository, or {_lock_hint(job)}"


def _describe_missing_name(name: str, module: str) -> tuple[str, str | None]:
    """Return message and hint for a name that a module, which exists, does not have."""
    names = [name for name in dir(sys.modules.get(module)) if not name.startswith("_")]
    close = get_close_matches(name, names, n=1)
    if not close and not module.startswith("fleet"):
        return f"{module} has no {name!r}", None
    return f"{module} has no {name!r}", f"did you mean {close[0]!r}?" if close else _list_names(names)


def _describe_refusal(error: OSError, limits: Limits, root: Path) -> tuple[str, str] | None:
    """Return message and hint for a file refused by a limit or by the sandbox; None for any other error."""
    if error.errno == EFBIG:
        hint = "print less, or raise output under [limits] in fleet.toml"
        return f"wrote more than {limits.output} bytes of output", hint
    if error.errno in (EACCES, EPERM, EROFS) or _is_outside(error, root):
        hint = "a stack sees its repository and Python, and nothing else of the machine: put into the repository"
        return f"{type(error).__name__}: {_text_of(error)}", f"{hint} what it needs"
    return None


def _is_outside(error: OSError, root: Path) -> bool:
    """Return whether a missing file is outside of the repository: stacks do not see it, even if the machine has it."""
    path = error.filename
    return error.errno == ENOENT and isinstance(path, str) and path.startswith("/") and inside(path, root) is None


def _lock_hint(job: Job) -> str:
    return f"name its package in {job.lock}, with version and hashes" if job.lock else "lock its package"


def _describe_validation(error: BaseException) -> str | None:
    """Return the messages of a pydantic model that refused a value, by field; None for any other error."""
    lines = [f"{'.'.join(map(str, item.get('loc', ())))}: {item.get('msg', '')}" for item in _errors_of(error)]
    return "; ".join(lines) or None


def _field_of(error: BaseException) -> str | None:
    """Return the field of the first value that a pydantic model refused; None for any other error."""
    locations = [item.get("loc", ()) for item in _errors_of(error)]
    return ".".join(map(str, locations[0])) if locations and locations[0] else None


def _errors_of(error: BaseException) -> list[dict[str, Any]]:
    """Return the errors of a pydantic ValidationError; nothing for any other error."""
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return []
    try:
        return list(error.errors(include_url=False, include_input=False))
    except Exception:  # an exception class that only has the name
        return []


def _text_of(error: BaseException) -> str:
    """Return the text of an error, of a ValidationError the first line; never raise."""
    if _errors_of(error):
        return str(error).splitlines()[0]
    try:
        return str(error)
    except Exception:  # the user's own class, whose __str__ fails in turn
        return "its text cannot be shown"


def _shorten(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
