"""Settings of Python's garbage collector: it runs less often than by default.

A command makes hundreds of thousands of objects, almost all of them plain data without cycles, and ends. With the usual
threshold the collector walks over all of them again and again, and once more at the end when everything goes anyway:
a third of the time of a large run. A service reads as much in every reconcile.
"""

from __future__ import annotations

import atexit
import gc


def collect_rarely() -> None:
    """Set the collector for a command, which ends."""
    gc.set_threshold(1_000_000, 20, 100)  # 10,000 objects of a cluster are 300,000 of Python's, none in a cycle
    atexit.register(gc.freeze)  # what is left when the process ends needs no looking through


def collect_less() -> None:
    """Set the collector for a process that goes on.

    What has cycles is still collected soon, and the plain data of one reconcile is left alone.
    """
    gc.set_threshold(10_000, 10, 10)
