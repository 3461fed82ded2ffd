"""One way to run git, and the only module that knows GitPython.

GitPython starts the process; this decides with which environment, configuration and limits. Every command runs in a
session of its own without a terminal, so that nothing can ask a question and all of it can be ended at once.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from fleet import errors
from fleet.git import environment
from fleet.git.failure import from_stderr
from fleet.git.limits import USUAL, Limits

OLDEST = (2, 34)
_STDERR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="surrogateescape").strip()


@dataclass(frozen=True, slots=True)
class Git:
    """git in one place: in `directory`, found from there as git does, or in the bare repository `git_dir`."""

    directory: Path
    git_dir: Path | None = None
    limits: Limits = USUAL

    def run(
        self,
        what: str,
        *arguments: str,
        stdin: bytes = b"",
        protocol: str | None = None,
        variables: Mapping[str, str] | None = None,
        accept: Sequence[int] = (0,),
    ) -> Result:
        """Run one command to its end. `what` names it in errors; `protocol` is the one it may reach a remote with."""
        seconds = self.limits.transfer_seconds if protocol else self.limits.seconds
        with self._started(what, arguments, protocol, variables or {}, seconds) as process:
            assert process.stdin and process.stdout and process.stderr  # noqa: S101 - asked for in _started
            feeder = _Thread(_feed, process.stdin, stdin)
            complaints = _Thread(_read_tail, process.stderr)
            stdout = _read(process.stdout, self.limits.output_bytes + 1)
            if len(stdout) > self.limits.output_bytes:
                raise errors.ResourceError(f"cannot {what}: git's output is over {self.limits.output_bytes} bytes")
            status = process.wait()
            feeder.join()
            stderr = complaints.result().decode(errors="replace")
        if status == -signal.SIGXFSZ or "File too large" in stderr or f"signal {int(signal.SIGXFSZ)}" in stderr:
            raise errors.ResourceError(
                f"cannot {what}: the transfer is over the limit of {self.limits.transfer_bytes} bytes",
                hint="is this the right repository? Configuration repositories are small",
            )
        if status not in accept:
            raise from_stderr(what, stderr)
        return Result(status, stdout, stderr)

    @contextlib.contextmanager
    def conversation(self, what: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that is written to and read from by turns (`cat-file --batch`); ended when the block ends."""
        with self._started(what, arguments, None, {}, self.limits.seconds) as process:
            assert process.stderr  # noqa: S101
            complaints = _Thread(_read_tail, process.stderr)
            try:
                yield process
            except (EOFError, BrokenPipeError) as error:
                process.wait()
                raise from_stderr(what, complaints.result().decode(errors="replace")) from error

    @contextlib.contextmanager
    def _started(
        self, what: str, arguments: Sequence[str], protocol: str | None, extra: Mapping[str, str], seconds: float
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = [*self._prefix(protocol), "git", *self._place(), *arguments]
        settings = environment.variables(
            global_config=_access_config(self.directory), protocol=protocol, overrides=extra
        )
        process = _start(command, self.directory, settings)
        late = threading.Event()

        def stop() -> None:
            late.set()
            _end(process)

        watchdog = threading.Timer(seconds, stop)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield process
        except Exception as error:
            if late.is_set():
                raise errors.TimeoutError(f"cannot {what}: git took longer than {seconds:g} s") from error
            raise
        else:
            if late.is_set():
                raise errors.TimeoutError(f"cannot {what}: git took longer than {seconds:g} s")
        finally:
            watchdog.cancel()
            _end(process)

    def _prefix(self, protocol: str | None) -> list[str]:
        if protocol is None:
            return []
        # The limit on a file's size is what stops an endless pack: git itself has none for what it fetches.
        blocks = str(self.limits.transfer_bytes // 512)
        return ["sh", "-c", 'ulimit -f "$1" 2>/dev/null; shift; exec "$@"', "sh", blocks]

    def _place(self) -> list[str]:
        return ["--no-pager", "--literal-pathspecs", *([f"--git-dir={self.git_dir}"] if self.git_dir else [])]


def _start(command: list[str], directory: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    git = _gitpython()
    if not directory.is_dir():
        raise errors.NotFoundError(f"there is no directory {directory}")
    # GitPython passes the whole environment on and cannot take variables away: `env -u` does.
    unset = [word for name in environment.dropped(os.environ) if name not in settings for word in ("-u", name)]
    started = git.Git(str(directory)).execute(
        ["env", *unset, *command] if unset else command,
        istream=subprocess.PIPE,
        as_process=True,
        env=dict(settings),
        shell=False,
        start_new_session=True,
    )
    process: subprocess.Popen[bytes] = started.proc
    started.proc = None  # ours to end: its own way ends the first process only
    return process


@cache
def _gitpython():  # type: ignore[no-untyped-def]
    """Import GitPython when the first command runs: it is slow to import and starts git to see whether it is there."""
    missing = errors.ConfigurationError(
        "git was not found on this machine", hint=f"install git {OLDEST[0]}.{OLDEST[1]} or newer"
    )
    if not shutil.which("git"):
        raise missing
    try:
        import git  # noqa: PLC0415
    except ImportError as error:
        raise missing from error
    version = git.Git().version_info[:2]
    if version < OLDEST:
        raise errors.ConfigurationError(f"git {version[0]}.{version[1]} is too old", hint=missing.hint)
    return git


def _access_config(directory: Path) -> str:
    """A private file with what the person's configuration says about access, as seen from `directory`."""
    path = _private_directory() / hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()
    if not path.exists():
        query = ["git", "config", "--null", "--show-scope", "--get-regexp", environment.ACCESS_KEYS]
        process = _start(query, directory, {"GIT_TERMINAL_PROMPT": "0"})
        try:
            listing, _ = process.communicate(timeout=30)
        finally:
            _end(process)
        draft = path.with_suffix(f".{os.urandom(6).hex()}")
        draft.touch(mode=0o600)
        draft.write_text(environment.config_text(environment.access_settings(listing)), errors="surrogateescape")
        draft.replace(path)  # whole at once: another thread may ask for it
    return str(path)


@cache
def _private_directory() -> Path:
    owner, directory = os.getpid(), tempfile.mkdtemp(prefix="fleet-git-")

    def remove() -> None:
        if os.getpid() == owner:  # a forked child leaves it to its parent
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return Path(directory)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started; it leads a session of its own."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            with contextlib.suppress(OSError, ValueError):
                stream.close()


class _Thread(threading.Thread):
    """A reader or writer beside the main one; its result is read after its end."""

    def __init__(self, work, *arguments: object) -> None:  # type: ignore[no-untyped-def]
        super().__init__(daemon=True)
        self._work, self._arguments, self._value = work, arguments, b""
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the pipe was closed: the process has ended
            self._value = self._work(*self._arguments) or b""

    def result(self) -> bytes:
        self.join()
        return self._value


def _feed(stream: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        stream.write(data)
    stream.close()


def _read(stream: IO[bytes], most: int) -> bytes:
    """At most `most` bytes; what follows stays unread: the caller ends the process."""
    parts, left = [], most
    while left > 0 and (part := stream.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _read_tail(stream: IO[bytes]) -> bytes:
    """All of it, so that the process never blocks, of which the end is kept."""
    tail = b""
    while part := stream.read1(1 << 16):  # type: ignore[attr-defined]
        tail = (tail + part)[-_STDERR_BYTES:]
    return tail
