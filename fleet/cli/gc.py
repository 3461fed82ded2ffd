"""Python's garbage collector, told to look less often.

A command makes hundreds of thousands of objects, almost all of them plain data without cycles, and ends. With the usual
threshold the collector walks over all of them again and again, and once more at the end when everything goes anyway:
a third of the time of a large run. A service looks at as much again and again.
"""

from __future__ import annotations

import atexit
import gc


def collect_seldom() -> None:
    """For a command, which ends."""
    gc.set_threshold(200_000, 20, 100)
    atexit.register(gc.freeze)  # what is left when the process ends needs no looking through


def collect_less() -> None:
    """For a process that goes on: what has cycles is still found soon, and the plain data of a look is left alone."""
    gc.set_threshold(10_000, 10, 10)
