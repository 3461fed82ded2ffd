"""Start a program and wait until it says that it is ready; if it does not, say why."""

from __future__ import annotations

import errno
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.errors import ResourceError
from fleet.lab import process
from fleet.lab.controlplane import Program

PATIENCE = 90  # seconds; a control plane needs three, a busy machine with six of them many more


@dataclass(frozen=True, slots=True)
class Started:
    program: Program
    process: subprocess.Popen[bytes]


def launch(lab: Path, program: Program) -> Started:
    if program.port:
        _check_port(*program.port, program.role)
    try:
        child = process.start(lab, program.role, program.command, program.log, program.environment)
    except OSError as error:
        raise ResourceError(f"{program.role} could not be started: {error}") from error
    return Started(program, child)


def _check_port(address: str, port: int, role: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise ResourceError(
                f"{role} needs {address}:{port}, but {_holder(port)} listens there",
                hint="stop that, or take the lab down and up again: it then chooses other ports",
            ) from None


def _holder(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass
    return "another process"


def wait_ready(program: Program, started: list[Started], authority: Path) -> None:
    """Wait for a program's health address; fail at once when one that was started here has ended."""
    deadline = time.monotonic() + PATIENCE
    context = ssl.create_default_context(cafile=str(authority)) if program.health.startswith("https") else None
    while True:
        for one in started:
            if one.process.poll() is not None:
                raise ResourceError(
                    f"{one.program.role} ended with {one.process.returncode}; the end of {one.program.log}:\n"
                    + process.tail(one.program.log)
                )
        if not program.health:
            return
        try:
            with urllib.request.urlopen(program.health, timeout=2, context=context) as answer:  # noqa: S310 - ours
                answer.read()
                return
        except (OSError, urllib.error.URLError):
            if time.monotonic() > deadline:
                raise ResourceError(
                    f"{program.role} is not ready after {PATIENCE} s; the end of {program.log}:\n"
                    + process.tail(program.log)
                ) from None
            time.sleep(0.05)
