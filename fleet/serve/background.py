"""Threads and tasks that must not end.

What waits for git: each call in a thread of its own, which nobody else has to wait for.

A host that accepts connections and never answers keeps a call for minutes. In the pool that asyncio shares out, a few
of them would keep everything else from running there, name lookups for clusters included; and the process could not end
before they do. They stay few all the same: each task of a service has one call under way at a time.

What nobody foresaw, in code or in what a cluster shows: it is logged with its traceback, and ends nothing.

A service that ends takes every stack of every cluster with it, and the next one meets the same thing again. So what
goes wrong in one pass is the problem of its stacks, and what goes wrong beside passes is begun anew after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from fleet.errors import FleetError
from fleet.kube.runtime.queue import Backoff

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What it returns or raises. If whoever waits is cancelled, it goes on for as long as the process does."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(how: Callable[[Any], None], what: Any) -> None:
        if not future.done():
            how(what)

    def work() -> None:
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as problem:
            outcome: tuple[Callable[[Any], None], Any] = (future.set_exception, problem)
        else:
            outcome = (future.set_result, result)
        with contextlib.suppress(RuntimeError):  # the loop has ended before it
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=work, name="git", daemon=True).start()
    return await future


HINT = "this is a fault of fleet itself; the service's log has its traceback"

log = logging.getLogger(__name__)


class UnexpectedError(FleetError):
    """Without the words of what it is made from: these may be anything, also what is secret."""

    def __init__(self, where: str, problem: Exception) -> None:
        super().__init__(f"{where}: unexpected {type(problem).__name__}", hint=HINT)


async def run_forever(what: str, run: Callable[[], Awaitable[None]]) -> None:
    """What is meant to run for ever, and is begun anew should it fail."""
    failures, backoff = 0, Backoff(first=1.0, most=300.0)
    while True:
        try:
            await run()
        except Exception:  # whatever it is
            log.exception("%s failed, and begins anew", what)
        failures += 1
        await asyncio.sleep(backoff.delay(failures))
