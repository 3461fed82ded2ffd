"""End connections that clients have with an API server, so that they come again and meet the proxy."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from pathlib import Path

import psutil

from fleet.lab.faults.api.port import OWN

_PIDFD_GETFD = 438
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def may_be_ended() -> bool:
    """Whether this user may take hold of another process's connections."""
    return os.geteuid() == 0 or not _YAMA.exists() or _YAMA.read_text().strip() == "0"


def end_all(server: int, port: int) -> int:
    """Those that the process `server` took at its port, but for the ones with itself. How many there were."""
    try:
        found = [one for one in psutil.Process(server).net_connections("tcp4") if one.raddr]
        handle = os.pidfd_open(server)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return 0
    own = {one.laddr for one in found if one.raddr.port == port}
    chosen = [one for one in found if one.laddr.port == port and one.raddr not in own and one.raddr.ip != OWN]
    chosen = [one for one in chosen if one.status == psutil.CONN_ESTABLISHED]
    try:
        for one in chosen:
            with contextlib.suppress(OSError), _borrowed(handle, one.fd) as connection:
                connection.shutdown(socket.SHUT_RDWR)
    finally:
        os.close(handle)
    return len(chosen)


def _borrowed(handle: int, number: int) -> socket.socket:
    """A file of another process, which keeps it too."""
    libc = ctypes.CDLL(None, use_errno=True)
    copy = libc.syscall(_PIDFD_GETFD, handle, number, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return socket.socket(fileno=copy)
