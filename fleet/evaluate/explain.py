"""From an exception in user code to a problem: the file and line of the user's own code, and what to do about it.

The exception may have happened deep in a library; the line to correct is the innermost one of the repository. A problem
is a plain dict here, for it is about to leave the process.
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
from fleet.evaluate.worker.guard import RefusedError
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
    """The problem that `error` is. `fallback` is the place when none of its frames is in the user's files."""
    file, line = place_of(error, root) or fallback
    message, hint, field = _told(error, job, root)
    if isinstance(error, FleetError) and error.source is not None and error.source.line:
        file, line = error.source.file, error.source.line
    return {
        "message": _short(message) or type(error).__name__,
        "hint": _short(hint),
        "field": _short(field),
        "file": file,
        "line": line,
    }


def place_of(error: BaseException, root: Path) -> tuple[str, int] | None:
    """The innermost place in the repository, also when only an exception further down the chain came by there."""
    for one in _chain(error):
        if isinstance(one, SyntaxError) and one.filename and (own := inside(one.filename, root)):
            return own, one.lineno or 0
        frames = list(traceback.walk_tb(one.__traceback__))
        for frame, line in reversed(frames):
            if own := inside(frame.f_code.co_filename, root):
                return own, line
    return None


def place_in(frame: FrameType | None, root: Path) -> tuple[str, int] | None:
    """The innermost place in the repository of code that is running."""
    while frame is not None:
        if own := inside(frame.f_code.co_filename, root):
            return own, frame.f_lineno
        frame = frame.f_back
    return None


def time_exceeded(limits: Limits) -> tuple[str, str]:
    return f"took longer than {limits.time:g} s", _ENDLESS.format("time")


def cpu_exceeded(limits: Limits) -> tuple[str, str]:
    return f"used more than {limits.cpu:g} s of CPU time", _ENDLESS.format("cpu")


def inside(filename: str, root: Path) -> str | None:
    """A file of the user's own, relative to the root; None for a library's or ours, wherever that is installed."""
    path = Path(filename)
    if not path.is_absolute() or filename.startswith(_OURS) or not path.is_relative_to(root):
        return None
    relative = path.relative_to(root)
    return None if "site-packages" in relative.parts else relative.as_posix()


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _told(error: BaseException, job: Job, root: Path) -> tuple[str, str | None, str | None]:
    """Message, hint, field."""
    limits = job.limits
    for one in _chain(error):
        if isinstance(one, RefusedError | RefusedImportError):
            return one.message, one.hint, None
    match error:
        case FleetError():
            return error.message, error.hint, error.field
        case SyntaxError():
            return f"syntax error: {error.msg}", _caret(error), None
        case ImportError() | AttributeError() if told := _unknown(error, job):
            return *told, None
        case TypeError() if "stack() missing" in _text_of(error):
            hint = '@fleet.stack(clusters=["NAME"]), or clusters=fleet.where(…) for clusters by their labels'
            return "@fleet.stack has to be told where the stack goes", hint, None
        case MemoryError():
            hint = "make less, or raise memory under [limits] in fleet.toml"
            return f"used more than {limits.memory // 2**20} MiB of memory", hint, None
        case OSError() if told := _refused(error, limits, root):
            return *told, None
        case RuntimeError() if "start new thread" in str(error):
            return "a stack cannot start threads", "do it one after the other: a stack only describes", None
        case RecursionError():
            return "calls itself without end", "see the function at this line", None
        case SystemExit():
            return "ended the process", "return from the function, or raise an error", None
        case KeyboardInterrupt():
            return "was interrupted", None, None
    return f"{type(error).__name__}: {_text_of(error)}", _details(error) or _circumstances(error), _field(error)


def _circumstances(error: BaseException) -> str | None:
    """Where a library raised it, and what was going on."""
    parts = [str(note) for note in getattr(error, "__notes__", ())]
    frames = list(traceback.walk_tb(error.__traceback__))
    known = _modules()
    if frames and (file := frames[-1][0].f_code.co_filename) in known:
        parts.insert(0, f"raised in {known[file]}, line {frames[-1][1]}, called from here")
    return ", ".join(parts) or None


def _modules() -> dict[str, str]:
    """The names of libraries by their files."""
    paths = ("site-packages", sysconfig.get_paths()["stdlib"])
    files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    return {file: name for name, file in files.items() if any(path in file for path in paths)}


def _caret(error: SyntaxError) -> str | None:
    return f"look at column {error.offset} or just before it" if error.offset else None


def _unknown(error: ImportError | AttributeError, job: Job) -> tuple[str, str | None] | None:
    if isinstance(error, ModuleNotFoundError):
        return _no_module(error.name or "", job)
    named = _MISSING_NAME.match(_text_of(error))
    return _no_name(named["imported"] or named["name"], named["origin"] or named["module"]) if named else None


def _no_module(name: str, job: Job) -> tuple[str, str]:
    top = name.partition(".")[0]
    if module_is_beside(top):
        return f"{top!r} is installed for fleet, and not for stacks", _lock_hint(job)
    close = get_close_matches(top, sys.stdlib_module_names | set(sys.modules), n=1, cutoff=0.75)
    meant = f"did you mean {close[0]!r}? otherwise " if close and close[0] != top else ""
    return f"there is no module {name!r}", f"{meant}put it into the repository, or {_lock_hint(job)}"


def _no_name(name: str, module: str) -> tuple[str, str | None]:
    """Of a module that is there."""
    known = [one for one in dir(sys.modules.get(module)) if not one.startswith("_")]
    close = get_close_matches(name, known, n=1)
    if not close and not module.startswith("fleet"):
        return f"{module} has no {name!r}", None
    return f"{module} has no {name!r}", f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"


def _refused(error: OSError, limits: Limits, root: Path) -> tuple[str, str] | None:
    """By the limits, or by what a stack sees of the machine."""
    if error.errno == EFBIG:
        hint = "print less, or raise output under [limits] in fleet.toml"
        return f"wrote more than {limits.output} bytes of output", hint
    if error.errno in (EACCES, EPERM, EROFS) or _is_elsewhere(error, root):
        hint = "a stack sees its repository and Python, and nothing else of the machine: put into the repository"
        return f"{type(error).__name__}: {_text_of(error)}", f"{hint} what it needs"
    return None


def _is_elsewhere(error: OSError, root: Path) -> bool:
    """Something that is not there for stacks, whether or not the machine has it."""
    path = error.filename
    return error.errno == ENOENT and isinstance(path, str) and path.startswith("/") and inside(path, root) is None


def _lock_hint(job: Job) -> str:
    return f"name its package in {job.lock}, with version and hashes" if job.lock else "lock its package"


def _details(error: BaseException) -> str | None:
    """A pydantic model of the user's own that refused a value: what it said, by field."""
    lines = [f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg', '')}" for one in _errors_of(error)]
    return "; ".join(lines) or None


def _field(error: BaseException) -> str | None:
    locations = [one.get("loc", ()) for one in _errors_of(error)]
    return ".".join(map(str, locations[0])) if locations and locations[0] else None


def _errors_of(error: BaseException) -> list[dict[str, Any]]:
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return []
    try:
        return list(error.errors(include_url=False, include_input=False))
    except Exception:  # an exception class that only has the name
        return []


def _text_of(error: BaseException) -> str:
    if _errors_of(error):
        return str(error).splitlines()[0]
    try:
        return str(error)
    except Exception:  # the user's own class, whose __str__ fails in turn
        return "its text cannot be shown"


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
