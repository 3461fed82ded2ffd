"""Child process for work on untrusted input: bounded in time, memory and output, and killable at any moment.

C code that does not let go of the interpreter stops all threads of a process, its handler of SIGTERM included; code
that exhausts memory takes it from every repository. So such work is done in a process of its own, which gets less of
the processors than the service. It ends when its time is over, when the task that waits for it is cancelled, and with
the service in whatever way that ends. A task goes in and an answer comes out as bytes; nothing else is shared.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson

from fleet.errors import FleetError
from fleet.evaluate.processes import die_first, die_with_parent

MIB = 1024 * 1024
MOST_SAID = 64 * 1024  # bytes of standard error that are kept
GRACE = 10.0  # seconds after which a child ends itself, should the parent not end it
OUT_OF_MEMORY = 86  # the exit code of a child that reached its memory limit
WITHHELD = ("FLEET_WEBHOOK_SECRET", "FLEET_NOTIFY_SECRET")  # of the environment: no child needs them


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of what a child may use; its own children have limits of their own."""

    seconds: float  # of wall-clock time
    cpu: int  # seconds of CPU time
    memory: int  # bytes of its own data
    answer: int = 24 * MIB  # bytes
    nice: int = 10  # its niceness, so that the service goes first

    @property
    def words(self) -> bytes:
        """Return the limits as an argument of the child."""
        return orjson.dumps([self.seconds, self.cpu, self.memory, self.nice])


class ChildEndedError(FleetError):
    """Error of a child that did not finish."""


HINT = "make the change smaller, or split it; it is tried again with the next commit"


async def ask_child(
    module: str, task: bytes, bounds: ChildLimits, *, files: Sequence[int] = (), withheld: Collection[str] = ()
) -> bytes:
    """Run a module as a process, with the task on its standard input; return what it wrote to its standard output.

    `files` are descriptors that it inherits, `withheld` variables that it does not. Raises ChildEndedError when the
    child was killed for what it used, or ended otherwise than it should. If the awaiting task is cancelled, the child
    is killed.
    """
    directory = tempfile.mkdtemp(prefix="fleet-child-")
    environment = {name: value for name, value in os.environ.items() if name not in {*WITHHELD, *withheld}}
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module, str(os.getpid()), bounds.words.decode()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environment, "TMPDIR": directory},
            pass_fds=tuple(files),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(bounds.seconds):
                return await _exchange(process, task, bounds)
        except TimeoutError:
            raise ChildEndedError(f"it took longer than {bounds.seconds:g} s and was ended", hint=HINT) from None
        finally:
            await asyncio.shield(_kill(process))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _exchange(process: asyncio.subprocess.Process, task: bytes, bounds: ChildLimits) -> bytes:
    """Write the task to a child and return its answer; raise ChildEndedError if it failed or wrote too much."""
    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - pipes, always
    errors = asyncio.create_task(_read_tail(process.stderr))
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the exit code says why
            process.stdin.write(task)
            await process.stdin.drain()
            process.stdin.close()
        answer = bytearray()
        while part := await process.stdout.read(1 << 16):
            answer += part
            if len(answer) > bounds.answer:
                raise ChildEndedError(f"what it came to is more than {bounds.answer // MIB} MiB", hint=HINT)
        code = await process.wait()
        if code:
            raise _explain_exit(code, bounds, await errors)
        return bytes(answer)
    finally:
        errors.cancel()
        await asyncio.gather(errors, return_exceptions=True)


def _explain_exit(code: int, bounds: ChildLimits, errors: bytes) -> ChildEndedError:
    """Return the error for the exit code of a child."""
    if code == -signal.SIGXCPU:
        return ChildEndedError(f"it used more than {bounds.cpu} s of CPU time and was ended", hint=HINT)
    if code == OUT_OF_MEMORY or b"MemoryError" in errors:
        return ChildEndedError(f"it needed more than {bounds.memory // MIB} MiB of memory and was ended", hint=HINT)
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    frames = [line for line in errors.decode(errors="replace").splitlines() if line.startswith('  File "')]
    if code in (-signal.SIGSEGV, -signal.SIGABRT):  # C code ends so when an allocation fails
        how += f", which may be for want of memory: it has {bounds.memory // MIB} MiB"
    log.warning("a child process ended %s\n%s", how, "\n".join(frames))  # not its messages: these may be secret
    return ChildEndedError(f"it ended {how}", hint=HINT)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end; return its last bytes."""
    tail = b""
    while part := await stream.read(1 << 16):
        tail = (tail + part)[-MOST_SAID:]
    return tail


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a child, and wait until it is gone; what it started ends when it does."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    # The process is gone only when its pipes are read to their end: it may be blocked on a full one.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            for stream in (process.stdout, process.stderr):
                while stream and await stream.read(1 << 16):
                    pass
            await process.wait()


def begin_child() -> tuple[bytes, ChildLimits]:
    """Apply the limits that the parent set, as the first thing in a child; return the task.

    `bound_memory` sets the limit of memory: what is started before it has limits of its own.
    """
    parent, (seconds, cpu, memory, nice) = int(sys.argv[1]), orjson.loads(sys.argv[2])
    die_with_parent(parent)
    die_first()
    with contextlib.suppress(OSError):
        os.nice(nice)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)
    _limit_resource(resource.RLIMIT_CORE, 0)
    _limit_resource(resource.RLIMIT_CPU, cpu)
    return sys.stdin.buffer.read(), ChildLimits(seconds, cpu, memory, nice=nice)


def bound_memory(bounds: ChildLimits) -> None:
    """Make allocations beyond the memory limit fail with MemoryError from here on."""
    _limit_resource(resource.RLIMIT_DATA, bounds.memory)


def _limit_resource(what: int, most: int) -> None:
    """Set a soft limit: a child's own children may have another one, and set it themselves."""
    _, hard = resource.getrlimit(what)
    with contextlib.suppress(ValueError, OSError):  # a lower one is in force already
        resource.setrlimit(what, (most, hard))
