"""Give up what root, or the owner of a namespace, could do: for good, also by way of other programs."""

from __future__ import annotations

import contextlib
import os
import struct

from fleet.evaluate.sandbox import kernel

_SET_NO_NEW_PRIVILEGES, _DROP_FROM_BOUNDING_SET, _SET_DUMPABLE = 38, 24, 4
_AMBIENT, _CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64


def keep_none() -> None:
    """Of this process and all that it could ever start."""
    with contextlib.suppress(OSError):  # who may not has none to lose
        for number in range(_MOST_CAPABILITIES):
            kernel.call("prctl", _DROP_FROM_BOUNDING_SET, number, 0, 0, 0)
    with contextlib.suppress(OSError):
        kernel.call("prctl", _AMBIENT, _CLEAR_ALL, 0, 0, 0)
    with contextlib.suppress(PermissionError):  # likewise
        os.setgroups([])
    kernel.call("capset", struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *(0,) * 6))
    forgo_new_ones()


def forgo_new_ones() -> None:
    """No program with set-user-ID gives any back; the kernel asks for it before Landlock and seccomp."""
    kernel.call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
