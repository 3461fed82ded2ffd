"""A command as its user feels it: how long it takes, and the CPU time of it and of every process it waits for."""

from __future__ import annotations

import compileall
import os
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import fleet


@dataclass(frozen=True, slots=True)
class Took:
    seconds: float
    cpu: float  # user and system


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None) -> Took:
    """Run it to its end; one that fails is no figure but an error, with what it said."""
    begin = time.monotonic()
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command} ended with {child.returncode}:\n{said}")
    return Took(seconds, usage.ru_utime + usage.ru_stime)


def fleet_command() -> Path:
    """The installed command, with its bytecode and that of its dependencies, as installers leave them.

    Where PYTHONDONTWRITEBYTECODE is set they would be compiled anew with each start, which no user sees.
    """
    compileall.compile_dir(fleet.__path__[0], quiet=2)
    compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2)
    return Path(sysconfig.get_path("scripts")) / "fleet"
