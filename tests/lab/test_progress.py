"""Long work shows that it goes on: a line that changes on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from fleet.lab.progress import BuildProgress, describe_time_left


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """What was drawn, without colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()).replace("\r", "\n").split("\n")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_in_a_log_it_says_when_it_begins_and_how_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with BuildProgress("building etcd") as progress:
        for number in range(1000):
            progress.update(number, 1000, "some/package")
        monkeypatch.setattr(progress, "_printed", progress._printed - 30)  # half a minute later
        progress.update(1000, 1000, "last/package")
    begun, alive, done = capsys.readouterr().err.splitlines()
    assert begun == "building etcd …"
    assert alive.startswith("building etcd: 1000/1000 · ")
    assert alive.endswith(" · last/package")
    assert done.startswith("building etcd: done in ")
    with pytest.raises(KeyError), BuildProgress("building etcd"):
        raise KeyError
    assert "building etcd: failed in " in capsys.readouterr().err


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal; not a fixture, since pytest puts its own there before a test runs."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return terminal


def test_on_a_terminal_it_is_one_row_that_is_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with BuildProgress("building etcd") as progress:
        progress.update(0, 2840, "a/package")
        progress._started -= 240
        progress.update(2400, 2840, "a/package/with/a/long/name" * 10)
        wait_for(lambda: "left" in terminal.getvalue())
    rows = [row for row in terminal.rows() if "building etcd" in row]
    assert max(map(len, terminal.rows())) <= 80, "a row that wraps cannot be drawn over"
    assert any("about 40 s left · 2400/2840 · a/pa" in row for row in rows)
    assert rows[-1].startswith("building etcd: done in 4m")
    assert sum(": done in" in row for row in rows) == 1
    behind_row = terminal.getvalue().rpartition("building etcd: done")[0].rpartition("a/pa")[2]
    assert "\x1b[2K" in behind_row, "the row is gone before the last line is printed"


def test_quiet_means_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with BuildProgress("building etcd", quiet=True) as progress:
        progress.update(1, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "words"),
    [
        (181.0, 1885, 2840, ", about 2 min left"),
        (30.0, 454, 2840, ", about 3 min left"),
        (240.0, 2400, 2840, ", about 40 s left"),
        (240.0, 2839, 2840, ", about 10 s left"),
        (3.0, 20, 2840, ""),  # too early to say
        (3.0, 20, 0, ""),
        (300.0, 2840, 2840, ""),
    ],
)
def test_it_says_how_long_is_left(elapsed: float, done: int, total: int, words: str) -> None:
    assert describe_time_left(elapsed, done, total) == words


def test_beside_other_work_on_a_terminal_each_has_a_row_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with BuildProgress("building etcd"):
        with BuildProgress("installing iptables"):
            wait_for(lambda: "installing iptables" in terminal.getvalue())
        between = len(terminal.getvalue())
        print("something else", file=sys.stderr)
        wait_for(lambda: "building etcd" in terminal.getvalue()[between:])
    rows = [row.strip() for row in terminal.rows()]
    ended = [row.partition(":")[0] for row in rows if ": done in" in row or row == "something else"]
    assert ended == ["installing iptables", "something else", "building etcd"]
    after = terminal.getvalue().partition("installing iptables: done")[2]
    assert "installing" not in after


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with BuildProgress("building etcd"):
        pass
    assert terminal.getvalue() == "building etcd …\nbuilding etcd: done in 0s\n"


def test_what_draws_is_loaded_on_a_terminal_only() -> None:
    code = "import sys\nfrom fleet.lab.progress import BuildProgress\nwith BuildProgress('x') as p: p.update(1, 2)\n"
    command = [sys.executable, "-c", code + "assert not [name for name in sys.modules if name.startswith('rich')]"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stderr == "x …\nx: done in 0s\n"
