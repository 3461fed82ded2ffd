from __future__ import annotations

import asyncio

import pytest

from fleet.kube.client.limits import ConcurrencyLimit, Patience, is_worth_retrying, retry_after, retry_delay


def test_delays_grow_to_a_limit_and_differ_between_clients() -> None:
    assert all(0.05 <= retry_delay(1) <= 0.1 for _ in range(50))
    assert all(2.5 <= retry_delay(20) <= 5.0 for _ in range(50))
    assert len({retry_delay(5) for _ in range(50)}) > 10


def test_what_the_server_asks_for_is_never_undercut() -> None:
    assert all(retry_delay(1, 7.0) >= 7.0 for _ in range(50))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0", 0.0), (None, None), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("99999", 60.0)],
)
def test_retry_after_is_whole_seconds_or_nothing(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_an_internal_error_is_tried_a_few_times_and_a_refusal_not_at_all() -> None:
    patience = Patience(internal_errors=3)
    assert [is_worth_retrying(500, attempt, patience) for attempt in (1, 2, 3)] == [True, True, False]
    assert is_worth_retrying(429, 50) and is_worth_retrying(503, 50)
    assert not any(is_worth_retrying(status, 1) for status in (400, 401, 403, 404, 409, 410, 422))


def test_the_gate_lets_in_as_many_as_allowed_and_fewer_once_narrowed() -> None:
    async def most_inside(gate: ConcurrencyLimit) -> int:
        seen = 0

        async def one() -> None:
            nonlocal seen
            async with gate:
                seen = max(seen, gate.inside)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(one() for _ in range(50)))
        assert gate.inside == 0
        return seen

    async def run() -> None:
        gate = ConcurrencyLimit(8)
        assert await most_inside(gate) == 8
        gate.narrow()
        gate.narrow()  # the same overload, told by another answer
        assert await most_inside(gate) == 4
        for _ in range(100):
            gate.widen()
        assert await most_inside(gate) == 8

    asyncio.run(run())


def test_a_cancelled_waiter_gives_its_turn_to_the_next() -> None:
    async def run() -> None:
        gate = ConcurrencyLimit(1)
        async with gate:
            first, second = asyncio.create_task(gate.__aenter__()), asyncio.create_task(gate.__aenter__())
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait_for(second, 1)
        assert gate.inside == 1

    asyncio.run(run())


def test_nobody_is_overtaken_by_those_who_come_back_at_once() -> None:
    """A worker that is done asks for the next in the same breath; whoever waits must still get a turn."""

    async def run() -> int:
        gate, turns = ConcurrencyLimit(2), 0

        async def busy() -> None:
            nonlocal turns
            while True:
                async with gate:
                    turns += 1
                    await asyncio.sleep(0)

        workers = [asyncio.create_task(busy()) for _ in range(2)]
        await asyncio.sleep(0.01)
        before = turns
        async with gate:
            waited = turns - before
        for worker in workers:
            worker.cancel()
        return waited

    assert asyncio.run(run()) <= 3
