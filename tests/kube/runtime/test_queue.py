"""The queue, with data and a clock that the test moves."""

from __future__ import annotations

import asyncio
import random

import pytest

from fleet.kube.runtime.queue import LOW, NORMAL, Backoff, Queue
from tests.kube.runtime.clock import Clock


def drained(queue: Queue[str]) -> list[str]:
    keys = []
    while (item := queue.take()) is not None:
        keys.append(item.key)
        queue.done(item.key)
    return keys


def test_a_key_is_in_it_once_however_often_it_is_added() -> None:
    queue: Queue[str] = Queue(clock=Clock())
    for key in "abcab":
        queue.add(key)
    assert len(queue) == 3
    assert drained(queue) == ["a", "b", "c"]


def test_a_key_that_a_worker_has_is_handed_out_again_only_when_it_is_done() -> None:
    queue: Queue[str] = Queue(clock=Clock())
    queue.add("a")
    first = queue.take()
    assert first is not None
    queue.add("a")
    queue.add("a")
    assert queue.take() is None
    queue.done("a")
    assert drained(queue) == ["a"]


def test_what_changed_goes_before_what_is_only_looked_at_again() -> None:
    queue: Queue[str] = Queue(clock=Clock())
    for key in "abc":
        queue.add(key, LOW)
    queue.add("new")
    queue.add("b", NORMAL)
    assert queue.depth() == {LOW: 2, NORMAL: 2}
    assert drained(queue) == ["new", "b", "a", "c"]


def test_a_lower_priority_does_not_put_a_key_back() -> None:
    queue: Queue[str] = Queue(clock=Clock())
    queue.add("a", NORMAL)
    queue.add("b", NORMAL)
    queue.add("a", LOW)
    assert drained(queue) == ["a", "b"]


def test_the_priority_of_what_was_asked_for_meanwhile_is_the_highest() -> None:
    queue: Queue[str] = Queue(clock=Clock())
    queue.add("a")
    queue.take()
    queue.add("a", NORMAL)
    queue.add("a", LOW)
    queue.add("b", LOW)
    queue.done("a")
    assert drained(queue) == ["a", "b"]


def test_a_key_for_later_comes_when_it_is_due_and_not_before() -> None:
    clock = Clock()
    queue: Queue[str] = Queue(clock=clock)
    queue.add_after("slow", 10)
    queue.add_after("soon", 5)
    assert queue.take() is None and queue.due_in() == 5
    clock.pass_by(5)
    assert drained(queue) == ["soon"]
    assert queue.due_in() == 5
    clock.pass_by(7)
    item = queue.take()
    assert item is not None and item.key == "slow" and item.waited == 2
    assert queue.due_in() is None


def test_of_several_times_the_earliest_counts_and_now_is_the_earliest() -> None:
    clock = Clock()
    queue: Queue[str] = Queue(clock=clock)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 20)
    assert queue.due_in() == 3
    queue.add("a")
    assert drained(queue) == ["a"]
    clock.pass_by(100)
    assert drained(queue) == [] and queue.due_in() is None


def test_failures_of_a_key_wait_twice_as_long_each_time_and_success_is_forgiving() -> None:
    clock = Clock()
    queue: Queue[str] = Queue(Backoff(first=1, most=60), clock=clock)
    delays = []
    for _ in range(9):
        delays.append(queue.retry("a"))
        clock.pass_by(100)
        assert drained(queue) == ["a"]
    assert all(0.75 * 2**n <= delay <= 2**n for n, delay in enumerate(delays[:6]))
    assert all(45 <= delay <= 60 for delay in delays[6:])
    assert queue.failures("a") == 9 and queue.retry("b") <= 1
    queue.forgive("a")
    assert queue.retry("a") <= 1


def test_backoff_never_overflows_and_its_jitter_is_the_chance_it_is_given() -> None:
    backoff = Backoff(first=0.1, most=300)
    assert backoff.delay(10_000, chance=lambda: 1.0) == 300
    assert backoff.delay(1, chance=lambda: 0.0) == pytest.approx(0.075)


def test_no_key_is_lost_or_doubled_whatever_the_order_of_things() -> None:
    """Against a model: what was added since it was last taken comes, and never twice at a time."""
    chance, clock = random.Random(7), Clock()
    queue: Queue[int] = Queue(clock=clock)
    wanted: set[int] = set()
    working: set[int] = set()
    for _ in range(20_000):
        key = chance.randrange(20)
        match chance.randrange(5):
            case 0:
                queue.add(key, chance.choice([LOW, NORMAL]))
                wanted.add(key)
            case 1:
                queue.add_after(key, chance.choice([0.5, 2, 4]))
                wanted.add(key)
            case 2:
                clock.pass_by(chance.random())
            case 3 if len(working) < 4:
                item = queue.take()
                if item is not None:
                    assert item.key not in working and item.key in wanted
                    working.add(item.key)
                    wanted.discard(item.key)
            case _ if working:
                done = chance.choice(sorted(working))
                working.remove(done)
                queue.done(done)
    for key in sorted(working):
        queue.done(key)
    clock.pass_by(10)
    left = []
    while (item := queue.take()) is not None:
        left.append(item.key)
    assert sorted(left) == sorted(wanted)


def test_workers_that_sleep_are_woken_by_a_key_and_by_its_time() -> None:
    async def run() -> list[str]:
        queue: Queue[str] = Queue()
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def worker() -> None:
            while True:
                item = await queue.get()
                seen.put_nowait(item.key)
                queue.done(item.key)

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        await asyncio.sleep(0.01)
        queue.add_after("later", 0.1)
        queue.add_after("soon", 0.03)
        queue.add("now")
        async with asyncio.timeout(5):
            order = [await seen.get() for _ in range(3)]
        for one in workers:
            one.cancel()
        return order

    assert asyncio.run(run()) == ["now", "soon", "later"]


def test_a_key_is_not_lost_with_a_worker_that_is_cancelled_as_it_comes() -> None:
    async def run() -> str:
        queue: Queue[str] = Queue()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        return (await asyncio.wait_for(second, 5)).key

    assert asyncio.run(run()) == "a"


def test_cleared_it_holds_nothing_but_what_workers_have() -> None:
    clock = Clock()
    queue: Queue[str] = Queue(clock=clock)
    for key in "ab":
        queue.add(key)
    queue.add_after("c", 1)
    queue.take()
    queue.add("a")
    queue.clear()
    clock.pass_by(2)
    queue.done("a")
    assert queue.take() is None and queue.running() == []
