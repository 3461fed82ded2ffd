"""Jobs for workers, and the frames between the parent and its zygotes.

A job is the order for one worker as data: evaluate these files of this repository, within these limits.

The frames are small, of a fixed form, and have nothing in them that user code produced. A zygote first reports which
sandbox it gives. The parent requests a run and passes two file descriptors with the request: one for the result of the
worker, one for what it prints. The zygote reports the end of each run once, when no process of it is alive any more.
What user code produces never passes through the zygote; it goes straight to the parent, which bounds and validates it.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.repository.settings import Limits

# A worker that is out of time is ended by the first of three that can: its own alarm, which knows the line; a watchdog
# in its process that needs no Python to run; the zygote. In seconds after the limit.
WATCHDOG_SECONDS, KILL_SECONDS = 0.5, 1.5
UNCONFINED = b"Unconfined: "  # in the place of an answer: no code was run, and the reason follows


class Task(StrEnum):
    """The two kinds of jobs."""

    CLUSTERS = "clusters"  # all files of clusters, in one worker
    STACKS = "stacks"  # one file of stacks, for all its clusters, in one worker


@dataclass(frozen=True, slots=True)
class Job:
    """The order for one worker."""

    task: Task
    root: str
    files: tuple[str, ...]
    limits: Limits
    importable: tuple[str, ...] = ()  # directories beside the root from which siblings are imported
    packages: str = ""  # a directory with what the lockfile names, to import from too
    lock: str = ""  # the lockfile as messages name it, with its origin
    clusters: tuple[dict[str, Any], ...] = ()  # as the clusters' worker answered
    only: tuple[str, ...] | None = None  # names of stacks; None means all
    exports: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # stack → cluster → name → value
    disturbed: bool = False  # for the second evaluation, in the other zygote
    without: tuple[str, ...] = ()  # layers to leave out, for the tests of the attacks: see `Sandbox.loose`


RUN_REQUEST, KILL_REQUEST = b"R", b"K"
_REQUEST = struct.Struct(
    "!cIdQIQ"
)  # verb, run, limits in seconds and bytes, layers left out, bytes of the job after it
_HELLO = struct.Struct("!I")  # bytes of JSON that follow
_ENDED = struct.Struct("!IiI?")  # run, exit code (negative: signal), processes left behind, whether time ran out


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A request of the parent: to start a run, or to end one."""

    verb: bytes
    run: int
    seconds: float = 0.0
    memory: int = 0
    without: int = 0  # see `Sandbox.loose`
    job: bytes = b""
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The report of a zygote that a run has ended."""

    run: int
    code: int
    left: int
    overtime: bool


def send_request(control: socket.socket, request: WorkerRequest) -> None:
    """Send a request together with its job and its descriptors."""
    fields = (request.verb, request.run, request.seconds, request.memory, request.without)
    header = _REQUEST.pack(*fields, len(request.job))
    socket.send_fds(control, [header], list(request.descriptors))
    control.sendall(request.job)


def receive_request(control: socket.socket) -> WorkerRequest | None:
    """Return the next request; None when the parent has closed the socket."""
    header, descriptors, _, _ = socket.recv_fds(control, _REQUEST.size, 2)
    header += _receive_bytes(control, _REQUEST.size - len(header)) if header else b""
    if len(header) < _REQUEST.size:
        return None
    verb, run, seconds, memory, without, length = _REQUEST.unpack(header)
    job = _receive_bytes(control, length)
    return WorkerRequest(verb, run, seconds, memory, without, job, tuple(descriptors)) if len(job) == length else None


def send_hello(control: socket.socket, data: bytes) -> None:
    """Send the report of a zygote that it is warm, as JSON."""
    control.sendall(_HELLO.pack(len(data)) + data)


def receive_hello(control: socket.socket) -> bytes | None:
    """Return the report of a zygote that it is warm; None when the zygote has ended."""
    header = _receive_bytes(control, _HELLO.size)
    if len(header) < _HELLO.size:
        return None
    (length,) = _HELLO.unpack(header)
    data = _receive_bytes(control, length)
    return data if len(data) == length else None


def send_ended(control: socket.socket, ended: Ended) -> None:
    """Send the report that a run has ended."""
    control.sendall(_ENDED.pack(ended.run, ended.code, ended.left, ended.overtime))


def receive_ended(control: socket.socket) -> Ended | None:
    """Return the next report of an ended run; None when the zygote has ended."""
    data = _receive_bytes(control, _ENDED.size)
    return Ended(*_ENDED.unpack(data)) if len(data) == _ENDED.size else None


def _receive_bytes(control: socket.socket, length: int) -> bytes:
    """Return that many bytes, or fewer when the other side has closed the socket."""
    parts = []
    while length:
        part = control.recv(min(length, 1 << 20))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
