"""Writes over connections of our own: what was sent and what was not is certain."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from asyncio import StreamReader as Incoming
from asyncio import StreamWriter as Outgoing
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from fleet.kube.client import pool as pool_module
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.pool import ConnectionPool
from fleet.kube.runtime.guard import NotLeadingError
from fleet.testing import Cluster
from tests.kube.runtime.running import eventually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """What came in, connection by connection; `answer` says what goes out."""

    def __init__(self, answer: Callable[[Outgoing], Awaitable[None]]) -> None:
        self._answer = answer
        self.received: list[list[tuple[str, bytes]]] = []  # heads and bodies of whole requests
        self.bytes = 0

    async def handle(self, incoming: Incoming, outgoing: Outgoing) -> None:
        requests: list[tuple[str, bytes]] = []
        self.received.append(requests)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await incoming.readuntil(b"\r\n\r\n")).decode()
                body = b""
                length = int(head.partition("Content-Length: ")[2].partition("\r\n")[0])
                while len(body) < length:
                    piece = await incoming.read(length - len(body))
                    self.bytes += len(piece)
                    if not piece:
                        return
                    body += piece
                requests.append((head, body))
                await self._answer(outgoing)
        outgoing.close()


async def ok(outgoing: Outgoing) -> None:
    outgoing.write(OK)


@contextlib.asynccontextmanager
async def serving(answer: Callable[[Outgoing], Awaitable[None]] = ok) -> AsyncIterator[tuple[Server, ConnectionPool]]:
    server = Server(answer)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = ConnectionPool(f"http://127.0.0.1:{port}/base", None, None, {"User-Agent": "test"})
    try:
        yield server, pool
    finally:
        pool.close()
        listening.close()


async def send(
    pool: ConnectionPool, data: bytes = b"{}", check: Callable[[], None] = lambda: None
) -> tuple[int, bytes]:
    answer = await pool.write("PATCH", "/things/a b\r\nX: y?force=true", data, {"X-One": "1"}, check)
    return answer.status, answer.body


def test_a_request_is_whole_and_its_connection_is_kept_for_the_next() -> None:
    async def run() -> None:
        async with serving() as (server, pool):
            for _ in range(3):
                assert await send(pool, b"hello") == (200, b"ok")
            ((head, body), *others) = server.received[0]
            first, *headers = head.rstrip("\r\n").split("\r\n")
            assert first == "PATCH /base/things/a%20b%0D%0AX:%20y?force=true HTTP/1.1", "a name cannot end the line"
            assert headers[1:] == ["User-Agent: test", "X-One: 1", "Content-Length: 5"]
            assert body == b"hello" and len(others) == 2 and len(server.received) == 1

    asyncio.run(run())


def test_a_header_cannot_end_the_line_either() -> None:
    async def run() -> None:
        async with serving() as (server, pool):
            with pytest.raises(BrokenError, match="a header has a line break") as problem:
                await pool.write("POST", "/", b"", {"Authorization": "Bearer x\r\nX: y"}, lambda: None)
            assert not problem.value.sent and server.received == []

    asyncio.run(run())


def test_requests_at_once_have_connections_of_their_own() -> None:
    async def run() -> None:
        async with serving() as (server, pool):
            await asyncio.gather(*(send(pool) for _ in range(5)))
            await asyncio.gather(*(send(pool) for _ in range(5)))
            assert len(server.received) == 5

    asyncio.run(run())


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    async def goodbye(outgoing: Outgoing) -> None:
        outgoing.write(OK)
        await outgoing.drain()
        outgoing.close()

    async def run() -> None:
        async with serving(goodbye) as (server, pool):
            for _ in range(3):
                assert await send(pool) == (200, b"ok")
                await asyncio.sleep(0.05)
            assert [len(one) for one in server.received] == [1, 1, 1]

    asyncio.run(run())


def test_what_the_guard_holds_back_is_not_sent() -> None:
    def shut() -> None:
        raise NotLeadingError("another may lead")

    async def run() -> None:
        async with serving() as (server, pool):
            await send(pool)
            for _ in range(2):  # over a kept connection, and over a new one
                with pytest.raises(NotLeadingError):
                    await send(pool, check=shut)
            await eventually("both connections", lambda: len(server.received) == 2)
            await asyncio.sleep(0.05)
            assert [len(one) for one in server.received] == [1, 0]

    asyncio.run(run())


def test_a_guard_that_shuts_in_the_middle_of_a_long_request_leaves_it_unfinished() -> None:
    asked = 0

    def shut_later() -> None:
        nonlocal asked
        asked += 1
        if asked > 10:
            raise NotLeadingError("another may lead")

    async def run() -> None:
        async with serving() as (server, pool):
            assert await send(pool, b"x" * 20_000_000) == (200, b"ok")
            with pytest.raises(NotLeadingError):
                await send(pool, b"x" * 20_000_000, shut_later)
            await asyncio.sleep(0.1)
            assert [len(one) for one in server.received] == [1] and server.bytes < 40_000_000

    asyncio.run(run())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b"what?\r\n\r\n"])
def test_without_a_whole_answer_it_may_have_happened(answer: bytes) -> None:
    async def broken(outgoing: Outgoing) -> None:
        outgoing.write(answer)
        await outgoing.drain()
        outgoing.close()

    async def run() -> None:
        async with serving(broken) as (_, pool):
            with pytest.raises(BrokenError) as problem:
                await send(pool)
            assert problem.value.sent and problem.value.trusted

    asyncio.run(run())


def test_silence_ends_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "READ_SECONDS", 3.0)
    written = bytearray()

    async def slow(outgoing: Outgoing) -> None:
        """Byte by byte for longer than the silence that is allowed, then nothing any more."""
        for byte in OK[:-1]:
            outgoing.write(bytes((byte,)))
            written.append(byte)
            await asyncio.sleep(0.1)

    async def run() -> None:
        async with serving(slow) as (_, pool):
            with pytest.raises(TimeoutError, match="no answer in time"):
                await send(pool)
            assert written == OK[:-1]  # which took longer than the silence that is allowed

    asyncio.run(run())


def test_a_server_that_is_not_there_got_nothing() -> None:
    async def run() -> None:
        async with serving() as (_, pool):
            pass
        with pytest.raises(BrokenError) as problem:
            await send(pool)
        assert not problem.value.sent and problem.value.trusted

    asyncio.run(run())


def test_an_early_refusal_of_a_long_request_is_its_answer() -> None:
    async def handle(incoming: Incoming, outgoing: Outgoing) -> None:
        await incoming.readuntil(b"\r\n\r\n")
        outgoing.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await outgoing.drain()

    async def run() -> None:
        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        pool = ConnectionPool(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", None, None, {})
        assert (await send(pool, b"x" * 50_000_000))[0] == 413
        assert pool._take_idle() is None
        listening.close()

    asyncio.run(run())


def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    async def never(outgoing: Outgoing) -> None:
        await asyncio.sleep(0.1)
        outgoing.write(OK)

    async def run() -> None:
        async with serving(never) as (server, pool):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await send(pool)
            assert await send(pool) == (200, b"ok")
            assert len(server.received) == 2, "a late answer cannot be taken for that of another request"

    asyncio.run(run())


def test_a_server_that_is_not_trusted_got_nothing(cluster: Cluster) -> None:
    server = cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")

    async def run() -> None:
        pool = ConnectionPool(server, ssl.create_default_context(), None, {})
        with pytest.raises(BrokenError) as problem:
            await send(pool)
        assert not problem.value.sent and not problem.value.trusted

    asyncio.run(run())
