"""Durations at the command line are written as everywhere else, and none makes a command spin."""

from __future__ import annotations

import click
import pytest

from fleet.cli import run
from fleet.cli.options import INTERVAL, STATUS_EVERY, Seconds, format_status_every
from fleet.serve.options import ServeOptions


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("1d", 86400),
        ("2w", 1209600),
        ("500ms", 0.5),
        ("0.2s", 0.2),
        ("15", 15),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_as_it_is_written(text: str, seconds: float) -> None:
    assert Seconds().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["nan", "inf", "-1s", "1e3", "30m1h", "soon", "", "s", "٣s", "9" * 400])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration such as"):
        Seconds().convert(text, None, None)


def test_an_interval_is_never_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert INTERVAL.convert("100ms", None, None) == 0.1
    for command in (
        "watch --every 0s",
        "serve --poll 0",
        "serve --resync 0s",
        "agent --poll 10ms",
        "serve --status-every 0s",
    ):
        assert run(command.split()) == 2
        assert "is shorter than 0.1s" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve {url}", "agent --repository {url} --cluster eu"])
def test_manifests_say_how_often_health_is_written_where_it_is_not_the_default(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"{command.format(url='https://git.example.com/fleet.git')} --manifests --image fleet:1".split()
    assert run(words) == 0
    assert "--status-every" not in capsys.readouterr().out
    assert run([*words, "--status-every", "1m"]) == 0
    assert "--status-every=60s" in capsys.readouterr().out
    assert format_status_every(ServeOptions().every) == format_status_every(STATUS_EVERY) == []
