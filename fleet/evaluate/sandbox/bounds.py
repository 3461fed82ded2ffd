"""Resource limits of a worker, by the kernel's count: what it may use of the machine before it fails or is ended."""

from __future__ import annotations

import contextlib
import resource
from math import ceil

from fleet.repository.settings import Limits

OPEN_FILES = 256


def impose(limits: Limits, *, alone: bool) -> None:
    """On this process. `alone`: it is to start neither processes nor threads (root is not bound by that one)."""
    seconds = ceil(limits.cpu)
    bounds = {
        "CORE": (0, 0),
        "CPU": (seconds, seconds + 1),
        "AS": (limits.memory, limits.memory),
        "FSIZE": (limits.output, limits.output),
        "NOFILE": (OPEN_FILES, OPEN_FILES),
        "MEMLOCK": (0, 0),
        "MSGQUEUE": (0, 0),
    }
    if alone:
        bounds["NPROC"] = (0, 0)
    for name, bound in bounds.items():
        if hasattr(resource, f"RLIMIT_{name}"):  # not every system has all
            with contextlib.suppress(ValueError, OSError):  # a lower one is in force already
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), bound)
