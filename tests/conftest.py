"""Long suites run a fixed sample in `make test` and in full with `make test-full`; every run records what it took."""

from __future__ import annotations

import pytest

from tests.durations import PAGE, Recorder, file_of, read_slowest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run what is marked `full` too: every case of long suites")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config), "durations")


def _longest_first(items: list[pytest.Item]) -> None:
    """Order files by the time that they take: a long one that came last would run alone.

    First come those that were the slowest of the last run that was kept, then those that may take long by their
    timeouts. Only files move; the tests of one stay in their order, and so do files that are alike.
    """
    kept = read_slowest(PAGE.read_text(encoding="utf-8"))
    seconds: dict[str, tuple[float, float]] = {}
    for item in items:
        marker = item.get_closest_marker("timeout")
        limit = float(marker.args[0]) if marker and marker.args else 0.0
        file = file_of(item.nodeid)
        seconds[file] = max((kept.get(file, 0.0), limit), seconds.get(file, (0.0, 0.0)))
    items.sort(key=lambda item: seconds[file_of(item.nodeid)], reverse=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        _longest_first(items)
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
