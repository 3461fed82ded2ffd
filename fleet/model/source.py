"""The place in the user's files where something was written, so that every error can point at it.

It is the innermost frame that is not ours: a user may call us from a helper function or a loop, and the line that made
the call is the line to correct.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from fleet import ROOT
from fleet.errors import Source

NOWHERE = Source("")  # of what no user wrote
_OURS = (f"{Path(ROOT).resolve()}/", "<frozen ", "<string>")
_PYDANTIC = "/pydantic/"
_root: ContextVar[Path | None] = ContextVar("fleet.root", default=None)


def locate() -> Source:
    """Return the file and line of the user's call that led to this one."""
    file, line = calling_file()
    return Source(displayed_path(file), line)


def calling_file() -> tuple[str, int]:
    """Return the file as Python knows it, and the line, of the user's call that led to this one."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OURS) and _PYDANTIC not in name:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def displayed_path(file: str | Path) -> str:
    """Return a file as the user knows it: relative to the repository where it is inside, else unchanged."""
    return _relative_path(str(file), _root.get() or Path.cwd())


@lru_cache(maxsize=1024)
def _relative_path(file: str, base: Path) -> str:
    path = Path(file)
    return path.relative_to(base).as_posix() if path.is_absolute() and path.is_relative_to(base) else file


def repository_root() -> Path | None:
    """Return the repository that is being evaluated, None if there is none."""
    return _root.get()


@contextmanager
def relative_to(path: Path) -> Iterator[None]:
    """Name files relative to `path`, the repository's root, and read none outside it."""
    token = _root.set(path)
    try:
        yield
    finally:
        _root.reset(token)
