"""Starts of programs, and waits until they are ready; a program that does not become ready is an error with its log."""

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
class StartedProgram:
    """A program of the lab and the process that runs it."""

    program: Program
    process: subprocess.Popen[bytes]


def launch(lab: Path, program: Program) -> StartedProgram:
    """Start a program; raise ResourceError if its port is taken or it cannot be started."""
    if program.port:
        _check_port(*program.port, program.role)
    try:
        child = process.start(lab, program.role, program.command, program.log, program.environment)
    except OSError as error:
        raise ResourceError(f"{program.role} could not be started: {error}") from error
    return StartedProgram(program, child)


def _check_port(address: str, port: int, role: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise ResourceError(
                f"{role} needs {address}:{port}, but {_describe_listener(port)} listens there",
                hint="stop that, or take the lab down and up again: it then chooses other ports",
            ) from None


def _describe_listener(port: int) -> str:
    """Return a text that names the process that listens on a port."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass
    return "another process"


def wait_until(condition: Callable[[], bool], started: Sequence[StartedProgram], failure: Callable[[], str]) -> None:
    """Wait until a condition holds.

    Raises ResourceError at once when a program of `started` has ended, and with the text of `failure` in the end.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        asked_at = time.monotonic()
        for child in started:
            if child.process.poll() is not None:
                raise ResourceError(
                    f"{child.program.role} ended with {child.process.returncode}; the end of {child.program.log}:\n"
                    + process.read_tail(child.program.log)
                )
        if condition():
            return
        if time.monotonic() > deadline:
            raise ResourceError(failure())
        time.sleep(max(INTERVAL, time.monotonic() - asked_at))  # what is slow to answer is not asked more often


def wait_listening(program: Program, started: Sequence[StartedProgram]) -> None:
    """Wait until a program accepts connections on its port; it may answer them later."""
    wait_until(lambda: _is_listening(program), started, lambda: _describe_delay(program))


def wait_ready(program: Program, started: Sequence[StartedProgram], authority: Path) -> None:
    """Wait until a program's health address answers, if it has one."""
    context = ssl.create_default_context(cafile=str(authority)) if program.health.startswith("https") else None
    wait_until(lambda: _is_healthy(program, context), started, lambda: _describe_delay(program))


def _is_listening(program: Program) -> bool:
    if not program.port:
        return True
    try:
        socket.create_connection(program.port, timeout=2).close()
    except OSError:
        return False
    return True


def _is_healthy(program: Program, context: ssl.SSLContext | None) -> bool:
    if not program.health:
        return True
    try:
        with urllib.request.urlopen(program.health, timeout=2, context=context) as response:  # noqa: S310 - ours
            response.read()
    except (OSError, http.client.HTTPException):
        return False
    return True


def _describe_delay(program: Program) -> str:
    return (
        f"{program.role} is not ready after {PATIENCE} s; the end of {program.log}:\n{process.read_tail(program.log)}"
    )
