"""Long suites run a fixed sample in `make test` and in full with `make test-full`; every run records what it took."""

from __future__ import annotations

import pytest

from tests.durations import Recorder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run what is marked `full` too: every case of long suites")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config), "durations")


def _longest_first(items: list[pytest.Item]) -> None:
    """Order files by the time that they may take, as their timeouts say: a long one that came last would run alone.

    Only files move; the tests of one stay in their order, and so do files that are alike.
    """
    seconds: dict[str, float] = {}
    for item in items:
        marker = item.get_closest_marker("timeout")
        limit = float(marker.args[0]) if marker and marker.args else 0.0
        file = item.nodeid.partition("::")[0]
        seconds[file] = max(limit, seconds.get(file, 0.0))
    items.sort(key=lambda item: -seconds[item.nodeid.partition("::")[0]])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        _longest_first(items)
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
