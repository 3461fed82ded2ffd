"""Start a program and wait until it says that it is ready; if it does not, say why."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.errors import ResourceError
from fleet.lab.cluster.controlplane import Program
from fleet.lab.programs import process

PATIENCE = 90  # seconds; a control plane needs three, a busy machine with six of them many more
INTERVAL = 0.03  # seconds between two questions


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


def wait_until(condition: Callable[[], bool], started: Sequence[Started], failure: Callable[[], str]) -> None:
    """Ask until it is so; fail at once when a program that was started here has ended, in the end with `failure`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        asked = time.monotonic()
        for one in started:
            if one.process.poll() is not None:
                raise ResourceError(
                    f"{one.program.role} ended with {one.process.returncode}; the end of {one.program.log}:\n"
                    + process.tail(one.program.log)
                )
        if condition():
            return
        if time.monotonic() > deadline:
            raise ResourceError(failure())
        time.sleep(max(INTERVAL, time.monotonic() - asked))  # what is slow to answer is not asked more often


def wait_listening(program: Program, started: Sequence[Started]) -> None:
    """Wait until connections to a program's port are taken; it may answer them later."""
    wait_until(lambda: _listens(program), started, lambda: _late(program))


def wait_ready(program: Program, started: Sequence[Started], authority: Path) -> None:
    """Wait for a program's health address, if it has one."""
    context = ssl.create_default_context(cafile=str(authority)) if program.health.startswith("https") else None
    wait_until(lambda: _healthy(program, context), started, lambda: _late(program))


def _listens(program: Program) -> bool:
    if not program.port:
        return True
    try:
        socket.create_connection(program.port, timeout=2).close()
    except OSError:
        return False
    return True


def _healthy(program: Program, context: ssl.SSLContext | None) -> bool:
    if not program.health:
        return True
    try:
        with urllib.request.urlopen(program.health, timeout=2, context=context) as answer:  # noqa: S310 - ours
            answer.read()
    except (OSError, http.client.HTTPException):
        return False
    return True


def _late(program: Program) -> str:
    return f"{program.role} is not ready after {PATIENCE} s; the end of {program.log}:\n{process.tail(program.log)}"
