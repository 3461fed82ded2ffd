"""Jobs and frames between parent and zygote.

What a worker is asked to do, as data: evaluate these files of that repository, within these limits.

The frames between the command line and its zygotes: small, fixed, and with nothing of the user's code in them.

A zygote says first which sandbox it gives. The parent asks for a run and hands over two file descriptors with the
request: where the worker writes its result and where it prints. The zygote answers once per run, when nothing of it is
alive any more. What user code produces never passes through the zygote; it goes straight to the parent, which caps it
and validates it.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.repository.settings import Limits

# A worker that is out of time is ended by the first of three that can: its own alarm, which knows the line; a watchdog
# in its process that needs no Python to run; the zygote. Seconds after the limit.
WATCHDOG_SECONDS, KILL_SECONDS = 0.5, 1.5
UNCONFINED = b"Unconfined: "  # in the place of an answer: no code was run, and why


class Task(StrEnum):
    CLUSTERS = "clusters"  # all files of clusters, in one worker
    STACKS = "stacks"  # one file of stacks, for all its clusters, in one worker


@dataclass(frozen=True, slots=True)
class Job:
    task: Task
    root: str
    files: tuple[str, ...]
    limits: Limits
    importable: tuple[str, ...] = ()  # directories beside the root from which siblings are imported
    packages: str = ""  # a directory with what the lockfile names, to import from too
    lock: str = ""  # what that file is called, for people; with a word about where it comes from
    clusters: tuple[dict[str, Any], ...] = ()  # as the clusters' worker answered
    only: tuple[str, ...] | None = None  # names of stacks; None means all
    exports: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # stack → cluster → name → value
    disturbed: bool = False  # the second time, in the other zygote
    without: tuple[str, ...] = ()  # layers to leave out, for the tests of the attacks: see `Sandbox.loose`


RUN_REQUEST, KILL_REQUEST = b"R", b"K"
_REQUEST = struct.Struct("!cIdQIQ")  # verb, run, seconds and bytes it may take, layers less, bytes of a job that follow
_HELLO = struct.Struct("!I")  # bytes of JSON that follow
_ENDED = struct.Struct("!IiI?")  # run, exit code (negative: signal), processes left behind, whether time ran out


@dataclass(frozen=True, slots=True)
class Request:
    verb: bytes
    run: int
    seconds: float = 0.0
    memory: int = 0
    without: int = 0  # see `Sandbox.loose`
    job: bytes = b""
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    run: int
    code: int
    left: int
    overtime: bool


def send_request(control: socket.socket, request: Request) -> None:
    about = (request.verb, request.run, request.seconds, request.memory, request.without)
    header = _REQUEST.pack(*about, len(request.job))
    socket.send_fds(control, [header], list(request.descriptors))
    control.sendall(request.job)


def receive_request(control: socket.socket) -> Request | None:
    """The next request; None when the other side has gone."""
    header, descriptors, _, _ = socket.recv_fds(control, _REQUEST.size, 2)
    header += _exactly(control, _REQUEST.size - len(header)) if header else b""
    if len(header) < _REQUEST.size:
        return None
    verb, run, seconds, memory, without, length = _REQUEST.unpack(header)
    job = _exactly(control, length)
    return Request(verb, run, seconds, memory, without, job, tuple(descriptors)) if len(job) == length else None


def send_hello(control: socket.socket, data: bytes) -> None:
    control.sendall(_HELLO.pack(len(data)) + data)


def receive_hello(control: socket.socket) -> bytes | None:
    """What the zygote says of itself; None when it has gone."""
    header = _exactly(control, _HELLO.size)
    if len(header) < _HELLO.size:
        return None
    (length,) = _HELLO.unpack(header)
    data = _exactly(control, length)
    return data if len(data) == length else None


def send_ended(control: socket.socket, ended: Ended) -> None:
    control.sendall(_ENDED.pack(ended.run, ended.code, ended.left, ended.overtime))


def receive_ended(control: socket.socket) -> Ended | None:
    data = _exactly(control, _ENDED.size)
    return Ended(*_ENDED.unpack(data)) if len(data) == _ENDED.size else None


def _exactly(control: socket.socket, length: int) -> bytes:
    """That many bytes, or fewer when the other side has gone."""
    parts = []
    while length:
        part = control.recv(min(length, 1 << 20))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
