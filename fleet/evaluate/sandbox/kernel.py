"""The few calls to the kernel that Python has no function for, through the C library: an OSError when one fails."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

from fleet.evaluate.sandbox.syscalls import NUMBERS, Machine

_syscall = getattr(ctypes.CDLL(None, use_errno=True), "syscall", None)
_syscall_as_python = getattr(ctypes.PyDLL(None, use_errno=True), "syscall", None)  # the interpreter's lock is kept
for _function in (_syscall, _syscall_as_python):
    if _function is not None:
        _function.restype = ctypes.c_long

MACHINE: Machine | None = {"x86_64": "x86_64", "aarch64": "aarch64"}.get(platform.machine())  # type: ignore[assignment]


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """A system call by its name."""
    return _call(_syscall, name, *arguments)


def clone(flags: int) -> int:
    """A copy of this process, as the kernel makes it; Python itself has to be told before and after."""
    return _call(_syscall_as_python, "clone", flags, 0, 0, 0, 0)


def _call(function: Any, name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    if MACHINE is None or function is None:
        raise OSError(f"the system calls of {platform.machine()} are not known")
    result: int = function(ctypes.c_long(NUMBERS[MACHINE][name]), *map(_argument, arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _argument(value: int | bytes | ctypes.Array[ctypes.c_char] | None) -> object:
    """Integers as wide as a register: the C library passes them on as they come."""
    return ctypes.c_long(value) if isinstance(value, int) else value
