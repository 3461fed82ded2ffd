"""How tasks end: all of them, before anybody goes on, and with the failure of the first that failed."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what runs, wait for all, then raise the first failure; being cancelled is none."""
    for task in tasks:
        if not task.done():
            task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
