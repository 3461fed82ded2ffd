"""NATS for the tests on real nodes: a type of others, made by `fleet new app-type` and filled in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from fleet.apps.scaffold import write_app_type
from tests.operator.engine_under_test import EngineUnderTest
from tests.operator.nats.traffic import NatsTraffic

FILLED_IN = Path(__file__).parents[2] / "out_of_tree" / "fleet_nats"


def install_nats(directory: Path) -> Path:
    """Write the package as its author would, and return the directory that it is installed in."""
    source, installed = directory / "fleet-nats", directory / "installed"
    write_app_type("nats", source, "pods")
    for name in ("spec.py", "type.py"):
        shutil.copy(FILLED_IN / name, source / "fleet_nats" / name)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(installed), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
    return installed


def nats_under_test(installed: Path) -> EngineUnderTest:
    """Return the type of the package, which this process has to have installed."""
    app_type = import_module("fleet_nats").TYPE
    return EngineUnderTest(app_type, NatsTraffic(), packages=installed, shares_data=False)
