"""Long work shows that it goes on: a line that changes on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from fleet.lab.progress import Progress, describe_time_left


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_log_it_says_when_it_begins_and_how_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Progress("building etcd") as progress:
        for number in range(1000):
            progress.update(number, 1000, "some/package")
        monkeypatch.setattr(progress, "_printed", progress._printed - 30)  # half a minute later
        progress.update(1000, 1000, "last/package")
    begun, alive, done = capsys.readouterr().err.splitlines()
    assert begun == "building etcd …"
    assert alive.startswith("building etcd: 1000/1000 · ")
    assert alive.endswith(" · last/package")
    assert done.startswith("building etcd: done in ")
    with pytest.raises(KeyError), Progress("building etcd"):
        raise KeyError
    assert "building etcd: failed in " in capsys.readouterr().err


def test_on_a_terminal_it_is_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("building etcd") as progress:
        monkeypatch.setattr(progress, "_printed", 0.0)
        progress.update(7, 0, "a/package/with/a/long/name" * 10)
    said = terminal.getvalue()
    assert said.count("\n") == 1
    first, alive, done = said.removeprefix("\r").split("\r")
    assert first == "building etcd …"
    assert alive.startswith("building etcd: 7 · ")
    assert len(alive) < 120
    assert len(done.rstrip("\n")) >= len(alive), "nothing of a longer line before may stay"


def test_quiet_means_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("building etcd", quiet=True) as progress:
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


def test_beside_other_work_on_a_terminal_only_the_end_of_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("building etcd"), Progress("installing iptables"):
        pass
    lines = [line.strip().rpartition("\r")[2] for line in terminal.getvalue().strip().split("\n")]
    assert [line.partition(":")[0] for line in lines] == ["installing iptables", "building etcd"]
    assert "installing iptables …" not in terminal.getvalue()
