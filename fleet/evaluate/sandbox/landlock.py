"""Landlock: from here on this process reads below the paths it was given, writes below those it may, and no more.

The kernel checks what is opened by where it really lies, so a symlink or a mount leads nowhere else. Newer kernels can
do more (truncating, ioctl, TCP ports, abstract sockets, signals): all that this one knows is forbidden.
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


class Access(IntFlag):
    """What can be done with files, in the kernel's bits."""

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


READ = Access.READ_FILE | Access.READ_DIR
LIST = Access.READ_DIR
WRITE = (
    READ
    | Access.WRITE_FILE
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.MAKE_SYM
    | Access.REFER
    | Access.TRUNCATE
)
_OF_A_FILE = Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
_FIRST_13_BITS = (1 << 13) - 1
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2


def version() -> int:
    """Of the kernel's Landlock, from 1 on; an OSError when it has none or it is switched off."""
    return kernel.call("landlock_create_ruleset", None, 0, _ASK_VERSION)


def handled(known: int) -> tuple[Access, int, int]:
    """Everything that this version can forbid: to files, to ports, and to what is outside of the sandbox."""
    files = Access(_FIRST_13_BITS)
    for since, more in ((2, Access.REFER), (3, Access.TRUNCATE), (5, Access.IOCTL_DEV)):
        files |= more if known >= since else Access(0)
    ports = _BIND_TCP | _CONNECT_TCP if known >= 4 else 0
    outside = _ABSTRACT_SOCKETS | _SIGNALS if known >= 6 else 0
    return files, ports, outside


def restrict(granted: Iterable[tuple[str, Access]]) -> None:
    """From here on for this thread and those it starts; it cannot be taken back. A path that is not there is none."""
    known = version()
    files, ports, outside = handled(known)
    attributes = struct.pack("=QQQ", files, ports, outside)[: 24 if known >= 6 else 16 if known >= 4 else 8]
    ruleset = kernel.call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path, access in granted:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _grant(ruleset, path, access & files)
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, access: Access) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = access if stat.S_ISDIR(os.fstat(place).st_mode) else access & _OF_A_FILE
        if allowed:
            rule = struct.pack("=Qi", allowed, place)
            kernel.call("landlock_add_rule", ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
