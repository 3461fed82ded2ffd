"""The lines of a body as they come, however long: aiohttp's own refuse those of more than its buffer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


async def lines(body: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Without what follows the last newline: an event that was cut off is none."""
    parts: list[bytes] = []
    async for chunk in body.iter_any():
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            parts.append(line)
            yield b"".join(parts)
            parts.clear()
        if rest:
            parts.append(rest)
