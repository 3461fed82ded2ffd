"""Resource limits of a worker, by the kernel's count: what it may use of the machine before it fails or is ended."""

from __future__ import annotations

import contextlib
import resource
from math import ceil

from fleet.evaluate.sandbox.level import Layer
from fleet.repository.settings import Limits

OPEN_FILES = 256
_BY_LAYER = {
    Layer.CPU: ("CPU",),
    Layer.MEMORY: ("AS", "MEMLOCK", "MSGQUEUE", "CORE"),
    Layer.FILE_SIZE: ("FSIZE",),
    Layer.OPEN_FILES: ("NOFILE",),
    Layer.PROCESSES: ("NPROC",),
}


def impose(limits: Limits, layers: frozenset[Layer]) -> None:
    """On this process, those that the layers name."""
    seconds = ceil(limits.cpu)
    bounds = {
        "CORE": (0, 0),
        "CPU": (seconds, seconds + 1),
        "AS": (limits.memory, limits.memory),
        "FSIZE": (limits.output, limits.output),
        "NOFILE": (OPEN_FILES, OPEN_FILES),
        "MEMLOCK": (0, 0),
        "MSGQUEUE": (0, 0),
        "NPROC": (0, 0),
    }
    names = {name for layer, its in _BY_LAYER.items() if layer in layers for name in its}
    for name, bound in bounds.items():
        if name in names and hasattr(resource, f"RLIMIT_{name}"):  # not every system has all
            with contextlib.suppress(ValueError, OSError):  # a lower one is in force already
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), bound)
