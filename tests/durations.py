"""What a run of the tests took, by folder, file and test: recorded by every run, shown by `python -m tests.durations`.

`wall` is what a test took with its fixtures, `CPU` what its process and those that it waited for used meanwhile; a
fixture that many share is counted for the first of them. What labs use in the background is no test's. With `--write`
the last run is kept in docs/performance/tests.md, which is of use after `make test` only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[1]
KEY = "fleet/durations"  # in pytest's cache, where it keeps what failed, too
CACHE = ROOT / ".pytest_cache" / "v" / KEY
PAGE = ROOT / "docs" / "performance" / "tests.md"
PHASES = ("setup", "call", "teardown")
_FILE_ROW = re.compile(r"^\| (?P<file>[\w/]+\.py) \| \d+ \| (?P<wall>\d+) s \|", re.MULTILINE)
MOST = 25  # files and tests that are shown


class Recorder:
    """A pytest plugin. Every process of a run takes the CPU time of its own tests; the one that reports collects."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._begun = time.monotonic()
        self._used = _cpu()
        self._tests: dict[str, dict[str, float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        used = _cpu()
        report.__dict__["cpu"], self._used = used - self._used, used
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        took = self._tests.setdefault(report.nodeid, dict.fromkeys((*PHASES, "cpu"), 0.0))
        took[report.when or "call"] += report.duration
        took["cpu"] += getattr(report, "cpu", 0.0)

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self._config, "cache", None)  # pytest can run without
        if hasattr(self._config, "workerinput") or cache is None or not self._tests:
            return
        before = cache.get(KEY, {"elapsed": 0.0, "tests": {}})  # of the same run: its cache was cleared
        elapsed = before["elapsed"] + time.monotonic() - self._begun
        tests = {**before["tests"], **self._tests}
        cache.set(KEY, {"elapsed": elapsed, "tests": tests})


def _cpu() -> float:
    """Of this process and of those that it has waited for, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass(frozen=True, slots=True)
class Took:
    """What a test, or several, took in seconds."""

    name: str
    tests: int
    setup: float
    wall: float
    cpu: float

    @property
    def row(self) -> str:
        return f"| {self.name} | {self.tests} | {self.wall:.0f} s | {self.setup:.0f} s | {self.cpu:.0f} s |"


def by(tests: dict[str, dict[str, float]], name_of: Callable[[str], str]) -> list[Took]:
    """Sum up tests that `name_of` gives one name, the costliest first."""
    groups: dict[str, list[dict[str, float]]] = {}
    for nodeid, took in tests.items():
        groups.setdefault(name_of(nodeid), []).append(took)
    summed = [_sum(name, group) for name, group in groups.items()]
    return sorted(summed, key=lambda one: (-one.wall, one.name))


def _sum(name: str, took: Iterable[dict[str, float]]) -> Took:
    took = list(took)
    total = {phase: sum(one[phase] for one in took) for phase in (*PHASES, "cpu")}
    wall = sum(total[phase] for phase in PHASES)
    return Took(name, len(took), total["setup"] + total["teardown"], wall, total["cpu"])


def folder_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[0]


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def read_slowest(text: str) -> dict[str, float]:
    """Return the seconds that files took, from the page of a run: of the slowest files, which are all that it has."""
    return {match["file"]: float(match["wall"]) for match in _FILE_ROW.finditer(text)}


def page(data: dict[str, Any]) -> str:
    """The last run as Markdown."""
    tests, today = data["tests"], datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = (
        f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, Python {platform.python_version()}"
    )
    (whole,) = by(tests, lambda nodeid: "everything")
    lines = [
        "# Performance: tests",
        "",
        "What `make test` took, by folder, file and test. `wall` is with fixtures, which are counted alone, too; CPU",
        "is that of the test's process and of those that it waited for, without what labs use in the background.",
        "Written by `python -m tests.durations --write` from the last run.",
        "",
        f"{whole.tests} tests in {data['elapsed'] / 60:.1f} min, {whole.cpu / 60:.1f} min of CPU; {today}, {machine}.",
    ]
    parts = (
        ("folder", by(tests, folder_of)),
        ("file", by(tests, file_of)[:MOST]),
        ("test", [one for one in by(tests, str) if "|" not in one.name][:MOST]),
    )
    for title, rows in parts:
        lines += [
            "",
            f"| {title} | tests | wall | fixtures | CPU |",
            "|---|---|---|---|---|",
            *(one.row for one in rows),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.durations", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep them in {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    if not CACHE.exists():
        parser.error("no run was recorded yet")
    text = page(json.loads(CACHE.read_text()))
    print(text)
    if options.write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
