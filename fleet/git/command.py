"""One way to run git: with which environment, configuration and limits.

Every command runs in a session of its own without a terminal, so that nothing can ask a question and all of it can be
ended at once. GitPython's objects know no limits and read the clone's configuration themselves: docs/design.md has the
reasons why nothing is written with them here.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from fleet import errors
from fleet.git import environment
from fleet.git.environment import DEFAULT_LIMITS, GitLimits
from fleet.git.errors import error_from_stderr

OLDEST = (2, 34)
# The programs at the other end, which is this machine where the remote is a path. A clone can name others, and of
# several settings the first one counts: an option is what wins.
_OTHER_END = {
    "fetch": "--upload-pack=git-upload-pack",
    "ls-remote": "--upload-pack=git-upload-pack",
    "push": "--receive-pack=git-receive-pack",
}
_STDERR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class GitResult:
    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="surrogateescape").strip()

    @property
    def lines(self) -> list[str]:
        """Return the output split as git ends lines: file names may contain what Python takes for the end of one."""
        return [os.fsdecode(line) for line in self.stdout.split(b"\n") if line]


@dataclass(frozen=True, slots=True)
class Git:
    """The git program for one place: `directory`, where it finds its repository, or the bare repository `git_dir`."""

    directory: Path
    git_dir: Path | None = None
    limits: GitLimits = DEFAULT_LIMITS

    def run(
        self,
        what: str,
        *arguments: str,
        stdin: bytes = b"",
        protocol: str | None = None,
        variables: Mapping[str, str] | None = None,
        accept: Sequence[int] = (0,),
    ) -> GitResult:
        """Run one command to its end. `what` names it in errors; `protocol` is the one that may reach a remote.

        Raises the error for git's stderr when the status is not in `accept`, TimeoutError and ResourceError at the
        limits.
        """
        seconds = self.limits.transfer_seconds if protocol else self.limits.seconds
        process = self._start(arguments, protocol, variables or {})
        try:
            deadline = time.monotonic() + seconds
            stdout, stderr_bytes = _communicate(process, stdin, self.limits.output_bytes, deadline)
            if len(stdout) > self.limits.output_bytes:
                raise errors.ResourceError(f"cannot {what}: git's output is over {self.limits.output_bytes} bytes")
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except (_LateError, subprocess.TimeoutExpired):
            raise errors.TimeoutError(f"cannot {what}: git took longer than {seconds:g} s") from None
        finally:
            _end(process)
        stderr = stderr_bytes.decode(errors="replace")
        if status == -signal.SIGXFSZ or "File too large" in stderr or f"signal {int(signal.SIGXFSZ)}" in stderr:
            raise errors.ResourceError(
                f"cannot {what}: the transfer is over the limit of {self.limits.transfer_bytes} bytes",
                hint="is this the right repository? Configuration repositories are small",
            )
        if status not in accept:
            raise error_from_stderr(what, stderr, unused=_access(self.directory).overruled if protocol else ())
        return GitResult(status, stdout, stderr)

    @contextlib.contextmanager
    def conversation(self, what: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command that is written to and read from by turns (`cat-file --batch`); it ends with the block."""
        seconds = self.limits.seconds
        process = self._start(arguments, None, {})
        late = threading.Event()

        def stop() -> None:
            late.set()
            _end(process)

        watchdog = threading.Timer(seconds, stop)
        watchdog.daemon = True
        watchdog.start()
        assert process.stderr  # noqa: S101 - a pipe, always
        stderr = _Tail(process.stderr)
        try:
            yield process
        except Exception as error:
            if late.is_set():
                raise errors.TimeoutError(f"cannot {what}: git took longer than {seconds:g} s") from error
            if isinstance(error, EOFError | BrokenPipeError):
                process.wait()
                raise error_from_stderr(what, stderr.text()) from error
            raise
        finally:
            watchdog.cancel()
            _end(process)
        if late.is_set():
            raise errors.TimeoutError(f"cannot {what}: git took longer than {seconds:g} s")

    def person(self) -> tuple[str, str] | None:
        """Return the name and the address that the user's configuration gives to commits; None when it has none."""
        query = ["git", "config", "--null", "--get-regexp", r"^user\.(name|email)$"]
        process = _start_process(query, self.directory, {"GIT_TERMINAL_PROMPT": "0"})
        try:
            listing, _ = process.communicate(timeout=30)
        finally:
            _end(process)
        entries = (entry.partition("\n") for entry in listing.decode(errors="replace").split("\0"))
        values = {key: value for key, _, value in entries if value}
        return (values["user.name"], values["user.email"]) if len(values) == 2 else None

    def _start(
        self, arguments: Sequence[str], protocol: str | None, extra: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        access = _access(self.directory)
        settings = environment.variables(
            global_config=access.path,
            programs=access.programs,
            access=access.overruling,
            protocol=protocol,
            overrides=extra,
        )
        first, *rest = arguments
        other_end = [_OTHER_END[first]] if first in _OTHER_END else []
        command = [*self._prefix(protocol), "git", *self._place(), first, *other_end, *rest]
        return _start_process(command, self.directory, settings)

    def _prefix(self, protocol: str | None) -> list[str]:
        # The limit on a file's size is what stops an endless pack, the one on memory endless names of branches, and
        # packs and trees that unfold to more than they are: git itself has none for what it fetches or reads.
        memory = self.limits.transfer_memory_bytes if protocol else self.limits.memory_bytes
        limits = [str(self.limits.transfer_bytes // 512) if protocol else "unlimited", str(memory // 1024)]
        return ["sh", "-c", 'ulimit -f "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; shift 2; exec "$@"', "sh", *limits]

    def _place(self) -> list[str]:
        return ["--no-pager", "--literal-pathspecs", *([f"--git-dir={self.git_dir}"] if self.git_dir else [])]


def _start_process(command: list[str], directory: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    _check_version()
    if not directory.is_dir():
        raise errors.NotFoundError(f"there is no directory {directory}")
    unset = set(environment.dropped_variables(os.environ))
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**inherited, "LANGUAGE": "C", "LC_ALL": "C", **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    _running_processes().add(process)
    return process


@cache
def _running_processes() -> set[subprocess.Popen[bytes]]:
    """Return the processes that were started and have not ended: at exit this process ends them, wherever it is."""
    owner, running = os.getpid(), set[subprocess.Popen[bytes]]()

    def end_all() -> None:
        if os.getpid() == owner:  # a forked child leaves them to its parent
            for process in list(running):
                _kill(process)

    atexit.register(end_all)
    return running


@cache
def _check_version() -> None:
    """Refuse an older git: it does not know all settings that protect us, and would silently do without them."""
    hint = f"install git {OLDEST[0]}.{OLDEST[1]} or newer"
    try:
        output = subprocess.run(["git", "version"], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise errors.ConfigurationError("git was not found on this machine", hint=hint) from error
    match = re.search(r"(\d+)\.(\d+)", output)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        raise errors.ConfigurationError(f"{output.strip()} is too old", hint=hint)


class _Access(NamedTuple):
    """Access settings and programs of the configuration that applies in one directory."""

    path: str  # of a private file with the access settings of the user's configuration
    programs: tuple[str, ...]  # that are configured as filters or hooks, and shall not be run
    overruled: tuple[str, ...]  # which settings of the clone are not used
    overruling: tuple[tuple[str, str], ...]  # what is set in their place


@cache
def _access(directory: Path) -> _Access:
    """Read the access settings that apply in `directory`, and write the user's part of them to a private file."""
    path = _private_directory() / hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()
    query = ["git", "config", "--null", "--show-scope", "--get-regexp", environment.ASKED_KEYS]
    process = _start_process(query, directory, {"GIT_TERMINAL_PROMPT": "0"})
    try:
        listing, _ = process.communicate(timeout=30)
    finally:
        _end(process)
    draft = path.with_suffix(f".{os.urandom(6).hex()}")
    draft.touch(mode=0o600)
    text = environment.config_text(environment.access_settings(listing), os.environ.get("SSL_CERT_FILE", ""))
    draft.write_text(text, errors="surrogateescape")
    draft.replace(path)  # whole at once: another thread may ask for it
    return _Access(
        str(path),
        environment.programs(listing),
        environment.overruled_settings(listing),
        tuple(environment.overruling_settings(listing)),
    )


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
        _kill(process)
        process.wait()
    _running_processes().discard(process)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            with contextlib.suppress(OSError, ValueError):
                stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _LateError(Exception):
    """The time of a command was up before it was done."""


def _communicate(process: subprocess.Popen[bytes], stdin: bytes, most: int, deadline: float) -> tuple[bytes, bytes]:
    """Return what a process wrote to stdout and the end of its stderr.

    It is read to a little more than `most` bytes of stdout; raises _LateError at the deadline.
    """
    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - pipes, always
    stdout, tail, unsent = bytearray(), b"", memoryview(stdin)
    with selectors.DefaultSelector() as ready:
        if unsent:
            os.set_blocking(process.stdin.fileno(), False)
            ready.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        ready.register(process.stdout, selectors.EVENT_READ)
        ready.register(process.stderr, selectors.EVENT_READ)
        while ready.get_map() and len(stdout) <= most:
            events = ready.select(max(0.0, deadline - time.monotonic()))
            if not events:
                raise _LateError
            for key, _ in events:
                if key.fileobj is process.stdin:
                    try:
                        unsent = unsent[os.write(key.fd, unsent[: 1 << 16]) :]
                    except BrokenPipeError:
                        unsent = unsent[len(unsent) :]
                    if unsent:
                        continue
                elif part := os.read(key.fd, 1 << 20):
                    if key.fileobj is process.stdout:
                        stdout += part
                    else:
                        tail = (tail + part)[-_STDERR_BYTES:]
                    continue
                ready.unregister(key.fileobj)
                if key.fileobj is process.stdin:
                    process.stdin.close()
    return bytes(stdout), tail


class _Tail(threading.Thread):
    """Thread that reads all of a process's stderr, so that the process never blocks, and keeps the end of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream, self._tail = stream, b""
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the pipe was closed: the process has ended
            while part := self._stream.read1(1 << 16):  # type: ignore[attr-defined]
                self._tail = (self._tail + part)[-_STDERR_BYTES:]

    def text(self) -> str:
        self.join()
        return self._tail.decode(errors="replace")
