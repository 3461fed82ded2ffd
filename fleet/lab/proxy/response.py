"""Responses of the proxy: errors of an API server, bodies as the acts of a plan change them, and skewed Leases.

A body is bytes, or events of a watch that come one by one.

Of a shifted Lease, what is stored stays true: a client that changes a Lease often sends a time back as it saw it (a
holder that renews keeps `acquireTime`), and a shift that is stored and shown again would grow with every renewal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from fleet.lab.proxy.actions import Act, Cut, DelayEvents, DropEvents, Expire, Freeze

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def status_object(code: int, message: str = "", retry_after: int | None = None) -> dict[str, Any]:
    """Return the Status object that an API server sends with an error of this code."""
    reason = REASONS.get(code, "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or f"{reason or code}, as planned",
        "reason": reason,
        **({"details": {"retryAfterSeconds": retry_after}} if retry_after is not None else {}),
        "code": code,
    }


GONE = orjson.dumps({"type": "ERROR", "object": status_object(410, "too old resource version")}) + b"\n"
Hold = Callable[[float | None], Awaitable[None]]  # so many seconds, or for as long as the plan is this one


class CutError(Exception):
    """The place in a body where the connection is to break."""


class BreakPoints:
    """The places where a body is to be cut or frozen, and how far it has been sent."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self._left = [act for act in acts if isinstance(act, Cut | Freeze)]
        self._passed = 0
        self._marks = [0]  # how many bytes had passed after each event

    @property
    def events(self) -> int:
        return len(self._marks) - 1

    def pass_event(self) -> None:
        self._marks.append(self._passed)

    def advance(self, most: int) -> tuple[int, Cut | Freeze | None]:
        """Return how many of the next `most` bytes pass, and the act that follows.

        It is called with 0 between two pieces.
        """
        rooms = [(self._room(act), act) for act in self._left if act.after_events <= self.events]
        room, act = min(rooms, key=lambda pair: pair[0], default=(most, None))
        if act is None or room > most or (room == most and most):
            self._passed += most
            return most, None
        self._left.remove(act)
        self._passed += room
        return room, act

    def _room(self, act: Cut | Freeze) -> int:
        return max(0, self._marks[act.after_events] + act.after_bytes - self._passed)


@dataclass(frozen=True, slots=True)
class ResponseShape:
    """The changes to a response: `events` says whether each piece of its body is an event of a watch."""

    acts: Sequence[Act]
    events: bool
    hold: Hold

    async def apply(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the body as the client gets it; raise CutError where it breaks."""
        places, number = BreakPoints(self.acts), 0
        async for part in self._halting(b"", places):
            yield part
        if self._is_expired(places):
            yield GONE
            return
        late = sum(act.seconds for act in self.acts if isinstance(act, DelayEvents)) if self.events else 0
        async for piece in _delay_pieces(pieces, late) if late else pieces:
            number += 1
            if self._is_dropped(number):
                continue
            async for part in self._halting(piece, places):
                yield part
            if self.events:
                places.pass_event()
                async for part in self._halting(b"", places):
                    yield part
            if self._is_expired(places):
                yield GONE
                return

    async def _halting(self, piece: bytes, places: BreakPoints) -> AsyncIterator[bytes]:
        while True:
            room, act = places.advance(len(piece))
            if room:
                yield piece[:room]
            piece = piece[room:]
            if act is None:
                return
            if isinstance(act, Cut):
                raise CutError
            await self.hold(None)

    def _is_dropped(self, number: int) -> bool:
        return self.events and any(act.drops(number) for act in self.acts if isinstance(act, DropEvents))

    def _is_expired(self, places: BreakPoints) -> bool:
        return self.events and any(places.events >= act.after_events for act in self.acts if isinstance(act, Expire))


async def _delay_pieces(pieces: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield each piece so many seconds after it came, also when many come at once."""
    arrivals: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

    async def take() -> None:
        async for piece in pieces:
            arrivals.put_nowait((time.monotonic(), piece))

    reader = asyncio.create_task(take())
    reader.add_done_callback(lambda _: arrivals.put_nowait((time.monotonic(), None)))
    try:
        while True:
            moment, piece = await arrivals.get()
            await asyncio.sleep(moment + seconds - time.monotonic())
            if piece is None:
                await reader  # to hear of it if it broke
                return
            yield piece
    finally:
        reader.cancel()


LEASE_TIMES = ("acquireTime", "renewTime")
_MOST_REMEMBERED = 10_000


class LeaseClock:
    """A clock that shifts the times in Leases, and restores those that a client sends back."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}  # as shown → as stored

    def show(self, document: bytes, seconds: float) -> bytes:
        """Shift the times of a Lease, a list of them or an event of a watch; other documents are left alone."""
        try:
            content = orjson.loads(document)
        except orjson.JSONDecodeError:
            return document
        for lease in content.get("items") or [content.get("object", content)]:
            spec = lease.get("spec") or {}
            for name in LEASE_TIMES:
                if spec.get(name):
                    spec[name] = self._shift(spec[name], seconds)
        return orjson.dumps(content)

    def _shift(self, stored: str, seconds: float) -> str:
        moment = datetime.fromisoformat(stored.replace("Z", "+00:00")) + timedelta(seconds=seconds)
        shifted = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._shown[shifted] = stored
        if len(self._shown) > _MOST_REMEMBERED:
            del self._shown[next(iter(self._shown))]
        return shifted

    def store(self, document: bytes) -> bytes:
        """Restore the times in a Lease that a client only saw; documents without one are left alone."""
        try:
            content = orjson.loads(document)
        except orjson.JSONDecodeError:
            return document
        spec = content.get("spec") if isinstance(content, dict) else None
        if not isinstance(spec, dict) or not any(spec.get(name) in self._shown for name in LEASE_TIMES):
            return document
        for name in LEASE_TIMES:
            if spec.get(name) in self._shown:
                spec[name] = self._shown[spec[name]]
        return orjson.dumps(content)
