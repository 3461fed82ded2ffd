"""The lines of the user's files that problems are about, to show beside them.

They are read by the parent and not by the worker. The worker names the file, so it must be a Python file of the
repository; and it says how many problems there are, so each file is read once, and only so much of all together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fleet.evaluate.result import Problem
from fleet.printable import printable

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
