"""The line of the user's file that a problem is about, to show beside it."""

from __future__ import annotations

from pathlib import Path

from fleet.evaluate.result import Problem
from fleet.printable import printable

_LARGEST = 1 << 22
_LONGEST = 160


def with_excerpt(problem: Problem, root: Path) -> Problem:
    """Read here and not by the worker; the worker named the file, so it must be a Python file of the repository."""
    if problem.source is None or problem.source.line < 1 or not problem.source.file.endswith(".py"):
        return problem
    try:
        path = (root / problem.source.file).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return problem
        with path.open("rb") as file:
            lines = file.read(_LARGEST).decode(errors="replace").splitlines()
    except (OSError, RuntimeError, ValueError):  # no file has such a name
        return problem
    if problem.source.line <= len(lines):
        problem.excerpt = printable(lines[problem.source.line - 1].strip())[:_LONGEST]
    return problem
