"""Queue of keys to reconcile: keys, never events, so a hundred changes of one object are one pass.

A key is in it at most once, and never handed out while a worker still has it: added meanwhile, it comes again when that
worker is done. Urgent keys go first, and within one priority the order is that of arrival. Pure but for `get`, which
sleeps; the clock is a parameter.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

LOW = -100  # start-up and resync: all keys at once, and none has changed
NORMAL = 0


class Item(NamedTuple, Generic[K]):
    """A key for a worker, which calls `done(key)` at the end, however the pass ended."""

    key: K
    priority: int
    waited: float  # seconds since it was due


class _Place(NamedTuple):
    """Place of a key in the queue."""

    priority: int
    turn: int
    since: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delay of a key after its n-th failure in a row: doubling, with jitter, up to `most`."""

    first: float = 0.1
    most: float = 300.0

    def delay(self, failures: int, chance: Callable[[], float] = random.random) -> float:
        """Return the seconds to wait after so many failures in a row."""
        longest = min(self.most, self.first * 2.0 ** min(failures - 1, 40))
        return longest * (0.75 + 0.25 * chance())


class Queue(Generic[K]):
    """Queue of keys. `add`, `add_after`, `retry` put keys in; workers call `take` (or `await get()`) and `done`."""

    def __init__(self, backoff: Backoff | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._turns = itertools.count()
        self._order: list[tuple[int, int, K]] = []  # a heap; stale places stay in it until they come to the top
        self._queued: dict[K, _Place] = {}
        self._due: list[tuple[float, int, K]] = []  # a heap, likewise
        self._later: dict[K, tuple[float, int]] = {}
        self._working: dict[K, float] = {}
        self._again: dict[K, int] = {}
        self._failures: dict[K, int] = {}
        self._sleeping: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self.adds = 0
        self.retries = 0

    def __len__(self) -> int:
        """Return how many keys could be taken now, including those that became due."""
        self._bring_due()
        return len(self._queued)

    def depth(self) -> Counter[int]:
        """Return how many keys wait for a worker, by priority."""
        self._bring_due()
        return Counter(place.priority for place in self._queued.values())

    def running(self) -> list[float]:
        """Return for how many seconds each worker has had its key."""
        now = self._clock()
        return [now - since for since in self._working.values()]

    def add(self, key: K, priority: int = NORMAL) -> None:
        """Queue a key as soon as possible. If it was to come later, it comes now instead."""
        self.adds += 1
        self._put(key, priority, self._clock())
        self._wake()

    def add_after(self, key: K, seconds: float, priority: int = NORMAL) -> None:
        """Queue a key after so many seconds; of several calls the earliest time counts."""
        if seconds <= 0:
            self.add(key, priority)
            return
        due = self._clock() + seconds
        waiting = self._later.get(key)
        if key in self._queued or (waiting is not None and waiting[0] <= due):
            return
        self._later[key] = (due, priority)
        heapq.heappush(self._due, (due, next(self._turns), key))
        self._set_alarm()

    def retry(self, key: K, priority: int = NORMAL) -> float:
        """Queue a key again after a failure, each time later than the last time, and return the seconds."""
        self.retries += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures)
        self.add_after(key, delay, priority)
        return delay

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def forgive(self, key: K) -> None:
        """Forget a key's failures, because its pass went well: the next failure is a first one again."""
        self._failures.pop(key, None)

    def take(self) -> Item[K] | None:
        """Return the next key for a worker; None if there is none now."""
        self._bring_due()
        while self._order:
            _, turn, key = heapq.heappop(self._order)
            place = self._queued.get(key)
            if place is None or place.turn != turn:
                continue  # its priority was raised, so it has another place
            del self._queued[key]
            now = self._clock()
            self._working[key] = now
            return Item(key, place.priority, now - place.since)
        return None

    def take_also(self, fits: Callable[[K], bool], most: int) -> list[Item[K]]:
        """Return further keys that wait and fit, for a worker that does several at a time."""
        self._bring_due()
        keys = [key for key in self._queued if fits(key)][:most]
        now = self._clock()
        taken = []
        for key in keys:
            place = self._queued.pop(key)
            self._working[key] = now
            taken.append(Item(key, place.priority, now - place.since))
        return taken

    def done(self, key: K) -> None:
        """Take a key back from its worker. If it was added meanwhile, it is queued now."""
        del self._working[key]
        priority = self._again.pop(key, None)
        if priority is not None:
            self._put(key, priority, self._clock())
            self._wake()

    def due_in(self) -> float | None:
        """Return the seconds until a key that waits for its time is due; None if none does."""
        self._drop_stale_dues()
        return max(0.0, self._due[0][0] - self._clock()) if self._due else None

    def clear(self) -> None:
        """Forget all keys but those that workers have: on losing the lead, and at the end."""
        for part in (self._order, self._queued, self._due, self._later, self._again, self._failures):
            part.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    async def get(self) -> Item[K]:
        """Wait for the next key and return it."""
        while (item := self.take()) is None:
            turn = asyncio.get_running_loop().create_future()
            self._sleeping.append(turn)
            self._set_alarm()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # this worker was woken and is cancelled: wake another
                raise
        return item

    def _put(self, key: K, priority: int, since: float) -> None:
        later = self._later.pop(key, None)
        if later is not None:
            priority = max(priority, later[1])
        if key in self._working:
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        present = self._queued.get(key)
        if present is not None:
            if present.priority >= priority:
                return
            since = present.since
        place = self._queued[key] = _Place(priority, next(self._turns), since)
        heapq.heappush(self._order, (-priority, place.turn, key))

    def _bring_due(self) -> None:
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            due, _, key = heapq.heappop(self._due)
            later = self._later.get(key)
            if later is not None and later[0] == due:
                self.adds += 1
                self._put(key, later[1], due)

    def _drop_stale_dues(self) -> None:
        while self._due and self._later.get(self._due[0][2], (None, 0))[0] != self._due[0][0]:
            heapq.heappop(self._due)

    def _wake(self) -> None:
        while self._sleeping:
            turn = self._sleeping.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _set_alarm(self) -> None:
        """Set the timer for the next due key, if a worker sleeps: a busy worker looks by itself before it sleeps."""
        seconds = self.due_in()
        if seconds is None or not self._sleeping:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        for _ in range(len(self)):
            self._wake()
        self._set_alarm()
