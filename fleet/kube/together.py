"""Several things at once, as one: the first failure cancels the others and is raised itself, not in a group.

People read one error at a time, and callers catch `FleetError`, not groups of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
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
