"""Labs with simulated nodes are for macOS too: what they need is built there."""

from __future__ import annotations

import os
import subprocess

import pytest

from fleet.lab.programs import build
from fleet.lab.programs.build import MODULES


def go(*arguments: str) -> str:
    environment = {**os.environ, "GOOS": "darwin", "GOARCH": "arm64", "CGO_ENABLED": "0", "GOWORK": "off"}
    command = [str(build.find_go()), *arguments]
    source = MODULES["provisioner"].source
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_provisioner_asks_nothing_of_the_kernel_there() -> None:
    assert "golang.org/x/sys/unix" not in go("list", "-f", "{{join .Imports `\n`}}", ".").splitlines()


@pytest.mark.full  # minutes where nothing was built for it before
def test_the_provisioner_builds_there() -> None:
    go("build", "-o", os.devnull, ".")
