"""Threads for blocking calls, and tasks that must not end.

Each call to git runs in a thread of its own, which no other task has to wait for. A host that accepts connections and
never answers keeps a call for minutes. In the thread pool that asyncio shares out, a few of them would keep everything
else from running there, name lookups for clusters included; and the process could not end before they do. The threads
stay few all the same: each task of a service has one call under way at a time.

An unexpected error, caused by code or by what a cluster shows, is logged with its traceback and ends nothing. A service
that ended would stop syncing every stack of every cluster, and the next process would meet the same error. So an error
in one pass is the error of its stacks, and a task beside the passes that fails is started again after a while.
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
    """Run a blocking function in a thread of its own; return or raise what it does.

    If the awaiting task is cancelled, the function goes on for as long as the process does.
    """
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
        with contextlib.suppress(RuntimeError):  # the loop ended before the thread
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=work, name="git", daemon=True).start()
    return await future


HINT = "this is a fault of fleet itself; the service's log has its traceback"

log = logging.getLogger(__name__)


class UnexpectedError(FleetError):
    """Error that stands for an exception, without its message: that may be anything, also a secret."""

    def __init__(self, where: str, problem: Exception) -> None:
        super().__init__(f"{where}: unexpected {type(problem).__name__}", hint=HINT)


async def run_forever(what: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a task that is meant to run for ever, and start it again after a while should it end or fail."""
    failures, backoff = 0, Backoff(first=1.0, most=300.0)
    while True:
        try:
            await run()
        except Exception:  # whatever it is, the task is started again
            log.exception("%s failed, and begins anew", what)
        failures += 1
        await asyncio.sleep(backoff.delay(failures))
