"""Measured figures: pages say what their benchmarks say, missed goals in words, and README has the same times."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.bench.__main__ import BENCHMARKS, DOCS, MODULES, ON_DEMAND, report
from tests.bench.figure import at_least, at_most
from tests.docs.document import ROOT


@pytest.mark.parametrize("name", [*BENCHMARKS, *ON_DEMAND])
def test_a_page_of_figures_begins_with_what_its_benchmark_says(name: str) -> None:
    module = importlib.import_module(f"tests.bench.{MODULES.get(name, name)}")
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# Performance: {name}\n\n{(module.__doc__ or '').strip()}\n")


def test_a_goal_that_is_missed_is_said_in_words() -> None:
    slow, fast = at_most("a sync", [3.0], "s", 2.0), at_least("a rate", [3.0], "/s", 2.0)
    above, _, table = report("sync", "About.", [slow, fast]).partition("| figure |")
    assert above.count("goal") == 2
    assert "The goal is missed for *a sync*: 3 s, and ≤ 2 s was the goal.\n" in above
    assert "| a sync | 3 s |  | 1 | ≤ 2 s | NO |  |" in table


@pytest.mark.parametrize("name", [*BENCHMARKS, *ON_DEMAND])
def test_a_page_of_figures_says_which_goals_are_missed(name: str) -> None:
    above, _, table = _text(DOCS / f"{name}.md").partition("| figure |")
    missed = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|.* \| NO \|", table)
    said = re.findall(r"The goal is missed for \*([^*]+)\*: ([^,]+), and", above)
    assert said == missed


def test_the_times_of_a_first_run_are_those_that_were_measured() -> None:
    measured = re.findall(r"(?m)^\| make demo, cold: .* \| (\d+) s \|", _text(DOCS / "cold.md"))
    assert len(measured) == 2
    readme = _text(ROOT / "README.md")
    for seconds in map(int, measured):
        assert f"{seconds // 60} min {seconds % 60} s" in readme
    for page, times in (("README.md", 2), ("docs/tutorial.md", 1), ("docs/tutorial-etcd.md", 1)):
        text = " ".join(_text(ROOT / page).split())
        assert text.count("about ten minutes on two cores") == times, page
        assert all(540 <= int(seconds) < 660 for seconds in measured), "ten minutes, to the minute"


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")
