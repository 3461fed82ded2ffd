"""Python's garbage collector, told to look less often.

A command makes hundreds of thousands of objects, almost all of them plain data without cycles, and ends. With the usual
threshold the collector walks over all of them again and again, and once more at the end when everything goes anyway:
a third of the time of a large run.
"""

from __future__ import annotations

import atexit
import gc


def collect_seldom() -> None:
    gc.set_threshold(200_000, 20, 100)
    atexit.register(gc.freeze)  # what is left when the process ends needs no looking through
