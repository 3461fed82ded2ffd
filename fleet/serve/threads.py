"""What waits for git: each call in a thread of its own, which nobody else has to wait for.

A host that accepts connections and never answers keeps a call for minutes. In the pool that asyncio shares out, a few
of them would keep everything else from running there, name lookups for clusters included; and the process could not end
before they do. They stay few all the same: each task of a service has one call under way at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
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
