"""Landlock: a process that can read only below the paths it is granted, and write only below those granted for that.

The kernel checks where an opened file really is, so a symlink or a mount leads nowhere else. Newer kernels can forbid
more (truncating, ioctl, TCP ports, abstract sockets, signals): everything that this kernel can forbid is forbidden.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterable
from enum import IntFlag

from fleet.evaluate.sandbox import kernel

_ASK_VERSION, _PATH_BENEATH = 1, 1


class FileAccess(IntFlag):
    """The kinds of access to files, as the kernel's bits."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = FileAccess.READ_FILE | FileAccess.READ_DIR
LIST = FileAccess.READ_DIR
WRITE = (
    READ
    | FileAccess.WRITE_FILE
    | FileAccess.REMOVE_DIR
    | FileAccess.REMOVE_FILE
    | FileAccess.MAKE_DIR
    | FileAccess.MAKE_REG
    | FileAccess.MAKE_SYM
    | FileAccess.REFER
    | FileAccess.TRUNCATE
)
_OF_A_FILE = (
    FileAccess.EXECUTE | FileAccess.WRITE_FILE | FileAccess.READ_FILE | FileAccess.TRUNCATE | FileAccess.IOCTL_DEV
)
_FIRST_13_BITS = (1 << 13) - 1
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2


def version() -> int:
    """Return the version of the kernel's Landlock, 1 or more; raise OSError when it has none or it is switched off."""
    return kernel.call("landlock_create_ruleset", None, 0, _ASK_VERSION)


def handled_access(kernel_version: int) -> tuple[FileAccess, int, int]:
    """Return all that a version can forbid: access to files, to ports, and to what is outside of the sandbox."""
    files = FileAccess(_FIRST_13_BITS)
    for since, more in ((2, FileAccess.REFER), (3, FileAccess.TRUNCATE), (5, FileAccess.IOCTL_DEV)):
        files |= more if kernel_version >= since else FileAccess(0)
    ports = _BIND_TCP | _CONNECT_TCP if kernel_version >= 4 else 0
    outside = _ABSTRACT_SOCKETS | _SIGNALS if kernel_version >= 6 else 0
    return files, ports, outside


def restrict(granted: Iterable[tuple[str, FileAccess]]) -> None:
    """Restrict this thread, and those it starts, to the granted paths for good; missing paths are left out."""
    kernel_version = version()
    files, ports, outside = handled_access(kernel_version)
    length = 24 if kernel_version >= 6 else 16 if kernel_version >= 4 else 8
    attributes = struct.pack("=QQQ", files, ports, outside)[:length]
    ruleset = kernel.call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path, access in granted:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _grant(ruleset, path, access & files)
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, access: FileAccess) -> None:
    """Grant access to a path and what is below it; raise FileNotFoundError if it is missing."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = access if stat.S_ISDIR(os.fstat(place).st_mode) else access & _OF_A_FILE
        if allowed:
            rule = struct.pack("=Qi", allowed, place)
            kernel.call("landlock_add_rule", ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
