"""The few calls to the kernel that Python has no function for, through the C library: an OSError when one fails."""

from __future__ import annotations

import ctypes
import os
import platform

from fleet.evaluate.sandbox.syscalls import NUMBERS, Machine

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = getattr(_libc, "syscall", None)
if _syscall is not None:
    _syscall.restype = ctypes.c_long

MACHINE: Machine | None = {"x86_64": "x86_64", "aarch64": "aarch64"}.get(platform.machine())  # type: ignore[assignment]


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """A system call by its name."""
    if MACHINE is None or _syscall is None:
        raise OSError(f"the system calls of {platform.machine()} are not known")
    result: int = _syscall(ctypes.c_long(NUMBERS[MACHINE][name]), *map(_argument, arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _argument(value: int | bytes | ctypes.Array[ctypes.c_char] | None) -> object:
    """Integers as wide as a register: the C library passes them on as they come."""
    return ctypes.c_long(value) if isinstance(value, int) else value
