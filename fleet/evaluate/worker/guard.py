"""What a stack cannot do, said at the line that tries: start processes, talk to the network, end its own process.

A stack describes; whatever it finds out by itself would make two evaluations differ. This is a help, not a wall: code
that means harm gets around it, and for that there are the limits, the zygote's care for processes, and the sandbox.
It also notes which files of the repository were read and which of its directories were listed, so that a stack none of
whose files changed need not be evaluated again; and what else of the machine was looked at: then that is not so.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any, NoReturn

from fleet import ROOT

_PROCESS = "a stack cannot start or end processes"
_NETWORK = "a stack cannot use the network"
_FORBIDDEN = {
    **dict.fromkeys(
        (
            "os.fork",
            "os.forkpty",
            "os.posix_spawn",
            "os.system",
            "os.exec",
            "os.spawn",
            "subprocess.Popen",
            "os.kill",
            "os.killpg",
            "signal.pthread_kill",
        ),
        _PROCESS,
    ),
    **dict.fromkeys(
        (
            "socket.connect",
            "socket.bind",
            "socket.sendto",
            "socket.sendmsg",
            "socket.getaddrinfo",
            "socket.gethostbyname",
            "socket.gethostbyaddr",
            "socket.getnameinfo",
        ),
        _NETWORK,
    ),
}
HINTS = {
    _PROCESS: "write what the program would print into a file of the repository, and read that",
    _NETWORK: "write what you would fetch into a file of the repository, and read that",
}


class RefusedError(PermissionError):
    """An OSError, so that libraries which merely try (and can do without) go on."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Ledger:
    """The files that were read and the directories that were listed, of the repository and elsewhere."""

    def __init__(self, root: Path, packages: str) -> None:
        self._root = str(root) + os.sep
        self._installed = (*_installed(), *([packages + os.sep] if packages else []))
        self._files: set[str] = set()
        self._directories: set[str] = set()
        self._foreign: set[str] = set()

    def note(self, event: str, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor of a file that was opened before
        full = os.path.normpath(Path.cwd() / os.fsdecode(path))
        if (full + os.sep).startswith(self._root) and "site-packages" not in full:
            noted = self._files if event == "open" else self._directories
            noted.add(full[len(self._root) :].replace(os.sep, "/") or ".")
        elif not full.startswith(self._installed):
            self._foreign.add(full)

    def files(self) -> list[str]:
        return sorted(file for file in self._files if Path(self._root, file).is_file())

    def directories(self) -> list[str]:
        return sorted(self._directories)

    def foreign(self) -> list[str]:
        """What is neither of the repository nor of Python, its packages or fleet; a few of them say enough."""
        return sorted(self._foreign)[:10]


def _installed() -> tuple[str, ...]:
    """Where that lies which changes only when something is installed, and the time zones."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {ROOT, "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/dev"}
    return tuple(path + os.sep for path in {*paths, *map(os.path.realpath, paths)})


def stand_guard(root: Path, packages: str = "") -> Ledger:
    """From here on in this process; it cannot be taken back."""
    ledger = Ledger(root, packages)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FORBIDDEN:
            message = _FORBIDDEN[event]
            raise RefusedError(message, HINTS[message])
        if event == "open" or (event in ("os.listdir", "os.scandir") and not _called_by_import()):
            ledger.note(event, arguments[0])

    def refuse_exit(_code: int = 0) -> NoReturn:
        raise RefusedError(_PROCESS, "return from the function, or raise an error")

    os._exit = refuse_exit  # type: ignore[assignment]
    os.abort = refuse_exit
    sys.addaudithook(hook)
    return ledger


def _called_by_import() -> bool:
    """The import system lists every directory it searches; which file it then takes is noted anyway."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename.startswith("<frozen importlib")
