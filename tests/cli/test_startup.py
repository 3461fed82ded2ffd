"""What a command line loads before a command runs: `fleet --help` and every Tab wait for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fleet.cli import COMMANDS

CORE = {"fleet", "fleet.version", "fleet.cli", "fleet.cli.process", "fleet.cli.lazy"}
HEAVY = {"asyncio", "aiohttp", "pydantic", "rich", "orjson", "yaml"}
LAB = ("fault", "verbs", "service")
MODULES = [entry.partition(":")[0] for entry, _ in COMMANDS.values()]
MODULES += [f"fleet.cli.commands.lab.{name}" for name in LAB]


def _loaded(module: str) -> set[str]:
    """Import a module in a process of its own, and return all that is loaded then."""
    code = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    return set(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split())


def _ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name == "fleet" or name.startswith("fleet.")}


def test_the_help_loads_no_command() -> None:
    loaded = _loaded("fleet.cli")
    assert _ours(loaded) == CORE
    assert not loaded & HEAVY


@pytest.mark.parametrize("module", dict.fromkeys(MODULES))
def test_a_command_loads_little_of_fleet_and_nothing_heavy_before_it_runs(module: str) -> None:
    loaded = _loaded(module)
    assert not loaded & HEAVY
    beyond = {name for name in _ours(loaded) if not name.startswith("fleet.cli")}
    assert beyond <= {"fleet", "fleet.version", "fleet.text", "fleet.names"}
    assert len(_ours(loaded)) <= 13


def test_a_sync_loads_eleven_modules_of_fleet_before_it_runs() -> None:
    assert len(_ours(_loaded("fleet.cli.commands.sync"))) == 11
