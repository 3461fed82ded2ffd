"""The refusal, at the line that tries, of what a stack cannot do: start processes, use the network, end its process.

A stack describes; what it found out by itself would make two evaluations differ. This module helps the user and is no
security boundary: hostile code gets around it, and is held by the limits, the zygote and the sandbox instead. The
module also notes which files of the repository were read and which of its directories were listed: a stack is not
evaluated again while these are unchanged. That does not hold for a stack that read other files of the machine, so these
are noted, too.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any, NoReturn

from fleet import ROOT
from fleet.apps.registry import installed_directories

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


class ActionRefusedError(PermissionError):
    """The refusal of an action; an OSError, so that libraries which can do without the action go on."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class FilesRead:
    """The files that were read and the directories that were listed, of the repository and elsewhere."""

    def __init__(self, root: Path, packages: str) -> None:
        self._root = str(root) + os.sep
        self._installed = (*_list_installed(), *([packages + os.sep] if packages else []))
        self._files: set[str] = set()
        self._directories: set[str] = set()
        self._foreign: set[str] = set()

    def note(self, event: str, path: object) -> None:
        """Note that a path was opened or listed."""
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor of a file that was opened before
        full = os.path.normpath(Path.cwd() / os.fsdecode(path))
        if (full + os.sep).startswith(self._root) and "site-packages" not in full:
            paths = self._files if event == "open" else self._directories
            paths.add(full[len(self._root) :].replace(os.sep, "/") or ".")
        elif not full.startswith(self._installed):
            self._foreign.add(full)

    def files(self) -> list[str]:
        """Return the files of the repository that were opened and exist."""
        return sorted(file for file in self._files if Path(self._root, file).is_file())

    def directories(self) -> list[str]:
        """Return the directories of the repository that were listed."""
        return sorted(self._directories)

    def foreign(self) -> list[str]:
        """Return the first few paths that are neither of the repository nor of Python, its packages or fleet."""
        return sorted(self._foreign)[:10]


def _list_installed() -> tuple[str, ...]:
    """Return the directories that change only by an installation, and those of time zones and devices."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {ROOT, *map(str, installed_directories()), "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/dev"}
    return tuple(path + os.sep for path in {*paths, *map(os.path.realpath, paths)})


def stand_guard(root: Path, packages: str = "") -> FilesRead:
    """Refuse what a stack cannot do in this process from now on, for good; return the ledger of what it reads."""
    ledger = FilesRead(root, packages)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FORBIDDEN:
            message = _FORBIDDEN[event]
            raise ActionRefusedError(message, HINTS[message])
        if event == "open" or (event in ("os.listdir", "os.scandir") and not _called_by_import()):
            ledger.note(event, arguments[0])

    def refuse_exit(_code: int = 0) -> NoReturn:
        raise ActionRefusedError(_PROCESS, "return from the function, or raise an error")

    os._exit = refuse_exit  # type: ignore[assignment]
    os.abort = refuse_exit
    sys.addaudithook(hook)
    return ledger


def _called_by_import() -> bool:
    """Return whether the import system lists a directory: it lists all it searches, and opening a file is noted."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename.startswith("<frozen importlib")
