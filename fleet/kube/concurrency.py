"""Helpers that run tasks together, run them in order, and end them. They know nothing of Kubernetes.

`gather` raises the first failure itself, not a group of failures, and cancels the other tasks: users read one error at
a time, and callers catch `FleetError`.

`run_in_order` does many things as concurrently as their order allows; what comes after a failure is not done. A fixed
number of workers take what is ready, so ten thousand steps cost ten thousand queue entries and not as many tasks.

`end_tasks` waits for all tasks to end before its caller goes on, and raises the failure of the first that failed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from fleet.objects.desired import Key

T = TypeVar("T")


async def gather(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the coroutines together and return their results in the same order; raise the first failure."""
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
    delayed: Collection[Key] = (),
) -> dict[Key, R]:
    """Run `do` for every key once those before it have succeeded, and return the results by key.

    `skip(key, cause)` makes the result of a key whose predecessor `cause` did not succeed.

    `hold` may delay a key in `delayed` when its turn has come, without keeping a worker from other keys. If it returns
    a result, that is the key's result; after None the key is done like the others.
    """
    if not before:
        return {}
    after: dict[Key, list[Key]] = defaultdict(list)
    for key, predecessors in before.items():
        for predecessor in predecessors:
            after[predecessor].append(key)
    missing = {key: len(predecessors) for key, predecessors in before.items()}
    results: dict[Key, R] = {}
    arriving: asyncio.Queue[Key | None] = asyncio.Queue()
    free: asyncio.PriorityQueue[tuple[int, int, Key | None]] = asyncio.PriorityQueue()
    count = 0

    def admit(key: Key) -> None:
        nonlocal count
        count += 1
        free.put_nowait((rank(key), count, key))

    def enqueue(key: Key) -> None:
        if key in delayed:
            arriving.put_nowait(key)
        else:
            admit(key)

    def settle(key: Key, result: R) -> None:
        finished = [(key, result)]
        while finished:
            done, outcome = finished.pop()
            results[done] = outcome
            for follower in after.get(done, ()):
                if follower in results:
                    continue
                missing[follower] -= 1
                if not succeeded(outcome):
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
    await gather([*(work() for _ in range(min(workers, len(before)))), *([usher()] if delayed else [])])
    return results


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks that still run, wait for all, and raise the first failure; a cancellation is none."""
    for task in tasks:
        if not task.done():
            task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
