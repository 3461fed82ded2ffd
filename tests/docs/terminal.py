"""A person at a terminal: one shell in which commands are typed one after the other, and the screen as it stays.

The commands write to a real pseudo-terminal, so what a page shows is what people see there, and progress that
a command wipes away at its end is not part of it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Self

COLUMNS = 200
_END = re.compile(rb"\x1e(\d+)\x1e")
_CONTROL = re.compile(r"\x1b(?:\[(?P<numbers>[\d;?]*)(?P<verb>[A-Za-z])|\([0-9A-Z])")


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    raw: str  # as it was written, with colours and all that moved

    @property
    def lines(self) -> list[str]:
        return screen(self.raw)


class Terminal:
    """`with Terminal(directory, environment) as terminal: terminal.run("fleet check")`"""

    def __init__(self, directory: Path, environment: Mapping[str, str], scratch: Path) -> None:
        self._script = scratch / "command.sh"
        self._code = 0
        self._main, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=end,
            stderr=end,
            cwd=directory,
            env=dict(environment),
            start_new_session=True,
        )
        os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._main)

    def run(self, command: str, timeout: float = 300) -> Said:
        """Type a command and wait for its end. `$?` is that of the command before, as at any prompt."""
        assert self._shell.stdin
        self._script.write_text(command + "\n", encoding="utf-8")
        line = f"(exit {self._code}); source '{self._script}' </dev/null; printf '\\036%d\\036' $?\n"
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()
        said, deadline = b"", time.monotonic() + timeout
        while not (end := _END.search(said)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._main], [], [], left)[0]:
                raise AssertionError(f"`{command}` did not end within {timeout:g} s:\n{said.decode(errors='replace')}")
            said += os.read(self._main, 65536)
        self._code = int(end[1])
        return Said(self._code, said[: end.start()].decode())


def screen(raw: str) -> list[str]:
    """What is left on a screen after all that was written to it."""
    lines = ["".join(letter for letter, _ in line).rstrip() for line in _cells(raw)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def coloured(raw: str) -> list[list[tuple[str, str]]]:
    """The same as runs of text with the numbers of their colours, such as "1" or "33"; "" is plain."""
    lines = []
    for line in _cells(raw):
        runs = [("".join(letter for letter, _ in run), style) for style, run in groupby(line, key=itemgetter(1))]
        lines.append(runs)
    return lines[: len(screen(raw))]


def _cells(raw: str) -> list[list[tuple[str, str]]]:
    """Rows of letters with their colour. Understands the few controls that progress displays use."""
    rows: list[list[tuple[str, str]]] = [[]]
    row = column = position = 0
    style = ""
    while position < len(raw):
        control = _CONTROL.match(raw, position)
        if control:
            position = control.end()
            numbers = control["numbers"] or ""
            match control["verb"]:
                case "A":
                    row = max(0, row - int(numbers or 1))
                case "K":
                    rows[row] = [] if numbers == "2" else rows[row][:column]
                case "m":
                    style = "" if numbers in ("", "0") else numbers
            continue
        letter = raw[position]
        position += 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            rows += [[] for _ in range(row + 1 - len(rows))]
        else:
            rows[row] += [(" ", "")] * (column - len(rows[row]))
            rows[row][column : column + 1] = [(letter, style)]
            column += 1
    return rows
