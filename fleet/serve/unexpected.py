"""What nobody foresaw, in code or in what a cluster shows: it is logged with its traceback, and ends nothing.

A service that ends takes every stack of every cluster with it, and the next one meets the same thing again. So what
goes wrong in one pass is the problem of its stacks, and what goes wrong beside passes is begun anew after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fleet.errors import FleetError
from fleet.kube.runtime.queue import Backoff

HINT = "this is a fault of fleet itself; the service's log has its traceback"

log = logging.getLogger(__name__)


class UnexpectedError(FleetError):
    """Without the words of what it is made from: these may be anything, also what is secret."""

    def __init__(self, where: str, problem: Exception) -> None:
        super().__init__(f"{where}: unexpected {type(problem).__name__}", hint=HINT)


async def steadily(what: str, run: Callable[[], Awaitable[None]]) -> None:
    """What is meant to run for ever, and is begun anew should it fail."""
    failures, backoff = 0, Backoff(first=1.0, most=300.0)
    while True:
        try:
            await run()
        except Exception:  # whatever it is
            log.exception("%s failed, and begins anew", what)
        failures += 1
        await asyncio.sleep(backoff.delay(failures))
