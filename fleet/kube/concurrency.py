"""Run tasks together, in order, and end them.

Several things at once, as one: the first failure cancels the others and is raised itself, not in a group.

People read one error at a time, and callers catch `FleetError`, not groups of it.

Do many things as concurrently as their order allows; what comes after a failure is not done.

It knows nothing of Kubernetes: keys, what comes before each, and how to do one. A fixed number of workers take what is
free, so ten thousand steps cost ten thousand queue entries and not as many tasks.

How tasks end: all of them, before anybody goes on, and with the failure of the first that failed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from fleet.objects.desired import Key

T = TypeVar("T")


async def gather(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in the order of the works."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failures:
        problem: BaseException = failures
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        raise problem from None
    return [task.result() for task in tasks]


R = TypeVar("R")


async def run_in_order(
    before: Mapping[Key, set[Key]],
    do: Callable[[Key], Awaitable[R]],
    skip: Callable[[Key, Key], R],
    *,
    succeeded: Callable[[R], bool],
    rank: Callable[[Key], int],
    workers: int,
    hold: Callable[[Key], Awaitable[R | None]] | None = None,
    held: Collection[Key] = (),
) -> dict[Key, R]:
    """`skip(key, cause)` makes the result of a key of which the predecessor `cause` did not succeed.

    `hold` may take its time over a key of those `held` when its turn has come, which keeps no worker from others; what
    it returns is the key's result, and with None the key is done as others are.
    """
    if not before:
        return {}
    after: dict[Key, list[Key]] = defaultdict(list)
    for key, others in before.items():
        for other in others:
            after[other].append(key)
    missing = {key: len(others) for key, others in before.items()}
    results: dict[Key, R] = {}
    arriving: asyncio.Queue[Key | None] = asyncio.Queue()
    free: asyncio.PriorityQueue[tuple[int, int, Key | None]] = asyncio.PriorityQueue()
    count = 0

    def admit(key: Key) -> None:
        nonlocal count
        count += 1
        free.put_nowait((rank(key), count, key))

    def enqueue(key: Key) -> None:
        if key in held:
            arriving.put_nowait(key)
        else:
            admit(key)

    def settle(key: Key, result: R) -> None:
        finished = [(key, result)]
        while finished:
            done, its = finished.pop()
            results[done] = its
            for follower in after.get(done, ()):
                if follower in results:
                    continue
                missing[follower] -= 1
                if not succeeded(its):
                    finished.append((follower, skip(follower, done)))
                elif missing[follower] == 0:
                    enqueue(follower)
        if len(results) == len(before):
            arriving.put_nowait(None)
            for worker in range(workers):
                free.put_nowait((1 << 30, worker, None))

    async def work() -> None:
        while (key := (await free.get())[2]) is not None:
            settle(key, await do(key))

    async def wait(key: Key) -> None:
        result = await hold(key) if hold else None
        if result is None:
            admit(key)
        else:
            settle(key, result)

    async def usher() -> None:
        async with asyncio.TaskGroup() as group:
            while (key := await arriving.get()) is not None:
                group.create_task(wait(key))

    for key, number in missing.items():
        if number == 0:
            enqueue(key)
    await gather([*(work() for _ in range(min(workers, len(before)))), *([usher()] if held else [])])
    return results


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what runs, wait for all, then raise the first failure; being cancelled is none."""
    for task in tasks:
        if not task.done():
            task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
