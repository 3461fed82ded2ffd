"""The library that kubectl reads YAML with, as the judge of what we read and write."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from fleet.lab import files
from fleet.lab.programs import build as toolchain

Judge = Callable[[list[str]], list[dict[str, Any]]]  # per text its `documents`, and an `error` or ""


def build(directory: Path) -> Judge:
    """Build the judge with kubectl's modules, and with its flags, so that the cache of a built lab has the parts."""
    binary = directory / "kubectl-yaml"
    program = Path(__file__).parent / "main.go"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    command: list[str | Path] = [toolchain.find_go(), "build", "-trimpath", "-o", binary, program]
    subprocess.run(command, cwd=files.modules_directory() / "kubernetes", env=environment, check=True)

    def read(texts: list[str]) -> list[dict[str, Any]]:
        done = subprocess.run([binary], input=orjson.dumps(texts), check=True, capture_output=True)
        results: list[dict[str, Any]] = orjson.loads(done.stdout)
        return results

    return read
