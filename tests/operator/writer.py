"""A client of an app that never stops writing, and remembers what it was promised.

Each write has a number of its own. One that the engine answered with yes was acknowledged, and must be there for ever
after; one without an answer may be there or not. The writer speaks to members by the engine's traffic with the app's
own connection Secret, and follows their addresses. It runs beside the test, which breaks things meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from types import TracebackType
from typing import Self

from fleet.testing.traffic import TRAFFIC_ERRORS, MemberAddress, Traffic, TrafficConnection

FRESH = 0.1  # seconds: within them before a fault, there was an acknowledgement
DENSE = 200  # acknowledgements a second, below which a fault has too little to lose


Find = Callable[[], Sequence[MemberAddress]]  # who may be asked now; it may take its time, or fail


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was done to the app while the writer wrote."""

    what: str
    at: float


class Writer:
    """`with Writer(traffic, find, tls) as writer:` writes until the end of the block, or until `stop`."""

    def __init__(
        self, traffic: Traffic, find: Find, tls: ssl.SSLContext | None, *, rate: float = 300.0, workers: int = 24
    ) -> None:
        self._traffic = traffic
        self._find = find
        self._tls = tls
        self._gap = workers / rate  # seconds between two writes of one worker
        self._workers = workers
        self._places: Sequence[MemberAddress] = ()
        self._number = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._write()), daemon=True)
        self._acknowledged: dict[int, float] = {}  # in the order of their answers
        self.unanswered = 0
        self.cut = 0  # connections that the other side ended
        self.faults: list[Fault] = []
        self.last_problem = ""

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.goes_on(10)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> frozenset[int]:
        """The numbers of all writes that were acknowledged."""
        self._stopped.set()
        self._thread.join(30)
        return self.acknowledged

    @property
    def acknowledged(self) -> frozenset[int]:
        return frozenset(self._acknowledged.copy())

    def times(self) -> list[float]:
        """Of all acknowledgements, by the clock of `time.monotonic`."""
        return list(self._acknowledged.copy().values())

    def goes_on(self, count: int = 50, seconds: float = 60.0) -> None:
        """Wait until so many more writes were acknowledged."""
        wanted, end = len(self._acknowledged) + count, time.monotonic() + seconds
        while len(self._acknowledged) < wanted:
            if time.monotonic() > end:
                raise AssertionError(f"writes do not go on: {self.last_problem or 'no answer'}")
            time.sleep(0.02)

    def strike(self, what: str, action: Callable[[], object]) -> Fault:
        """Do something bad while writes are being acknowledged: the last one a moment ago."""
        end = time.monotonic() + 60
        while not (times := self.times()) or time.monotonic() - times[-1] > FRESH / 4:
            if time.monotonic() > end:
                raise AssertionError(f"no writes are acknowledged that {what} could disturb: {self.last_problem}")
            time.sleep(0.001)
        fault = Fault(what, time.monotonic())
        self.faults.append(fault)
        action()
        return fault

    def was_writing(self) -> None:
        """Before each fault there was an acknowledgement, or the fault has shown nothing."""
        times = self.times()
        for fault in self.faults:
            before = bisect_right(times, fault.at)
            assert before and fault.at - times[before - 1] <= FRESH, f"nothing was written right before {fault.what}"

    def rate(self) -> float:
        """Acknowledgements in a second: the median over all seconds, those without any included."""
        times = self.times()
        counts = [0] * max(1, int(times[-1] - times[0]))
        for one in times:
            with suppress(IndexError):  # the last second is not a whole one
                counts[int(one - times[0])] += 1
        return median(counts)

    def was_dense(self, *, always: bool) -> None:
        """Enough was written to show anything: judged where it must be, or where nobody else uses the machine."""
        rate, load = self.rate(), os.getloadavg()[0]
        print(
            f"{len(self.acknowledged)} acknowledged writes, {rate:.0f}/s, load {load:.1f}, {self.unanswered} unanswered"
        )
        if always or load < (os.cpu_count() or 1):
            assert rate >= DENSE, f"{rate:.0f} writes a second are too few to show anything"

    def outage(self, since: float, until: float | None = None) -> float:
        """The longest time without an acknowledgement, from right before `since`."""
        times = self.times()
        first = max(0, bisect_left(times, since) - 1)
        last = bisect_right(times, until) + 1 if until is not None else len(times)
        found = times[first:last]
        return max((later - earlier for earlier, later in pairwise(found)), default=0.0)

    async def _write(self) -> None:
        following = asyncio.create_task(self._follow())
        await asyncio.gather(*(self._work(index) for index in range(self._workers)))
        following.cancel()

    async def _follow(self) -> None:
        """Addresses change with every restart."""
        while True:
            try:
                self._places = tuple(await asyncio.to_thread(self._find)) or self._places
            except Exception as problem:  # whatever it is: the old addresses are as good as any
                self.last_problem = f"{type(problem).__name__}: {problem}"
            await asyncio.sleep(0.3)

    async def _work(self, turn: int) -> None:
        """One connection, one write at a time; after each failure it asks the next member."""
        connection: TrafficConnection | None = None
        while not self._stopped.is_set():
            begun = time.monotonic()
            if not self._places:
                await asyncio.sleep(0.05)
                continue
            place = self._places[turn % len(self._places)]
            if connection is not None and connection.place != place:
                connection.close()
                connection = None
            try:
                # Without a leader an engine may hold a write for seconds; who waits so long sees its end too late.
                async with asyncio.timeout(random.uniform(0.4, 0.8)):
                    connection = connection or await self._traffic.connect(place, self._tls)
                    self._number += 1
                    number = self._number
                    await connection.write(number)
                self._acknowledged[number] = time.monotonic()
            except TRAFFIC_ERRORS as problem:
                self.last_problem = f"{place.name}: {type(problem).__name__}: {problem}"
                self.unanswered += 1
                self.cut += isinstance(problem, OSError | EOFError) and not isinstance(problem, TimeoutError)
                turn += 1
                if connection is not None:
                    connection.close()
                    connection = None
                await asyncio.sleep(random.uniform(0.0, 0.02))
            await asyncio.sleep(max(0.0, begun + self._gap - time.monotonic()))
        if connection is not None:
            connection.close()


def lost(
    traffic: Traffic,
    numbers: frozenset[int],
    place: MemberAddress,
    tls: ssl.SSLContext | None,
    *,
    own: bool = False,
) -> list[int]:
    """Which of these writes a member does not have. `own`: by its own memory, without asking the others."""
    return sorted(numbers - asyncio.run(_count(traffic, place, tls, own=own)))


async def _count(traffic: Traffic, place: MemberAddress, tls: ssl.SSLContext | None, *, own: bool) -> frozenset[int]:
    async with asyncio.timeout(60):
        connection = await traffic.connect(place, tls)
        try:
            return await connection.count(own=own)
        finally:
            connection.close()
