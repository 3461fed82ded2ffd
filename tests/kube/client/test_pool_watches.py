"""Answers that are read as they come, as watches are, and connections through a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from asyncio import StreamReader as Incoming
from asyncio import StreamWriter as Outgoing
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from fleet.kube.client import connection, response
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.pool import ConnectionPool
from fleet.lab.cluster.certificates import LabAuthority
from tests.kube.client.recording_server import recording
from tests.kube.client.tunnel import tunnels
from tests.kube.runtime.running import eventually

HELLO = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HELLO + b"Transfer-Encoding: chunked\r\n\r\n"
Answer = Callable[[Outgoing], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[ConnectionPool, list[list[bytes]]]]:
    """A pool, and what its server was asked, connection by connection. After what `answer` writes it waits for more."""
    connections: list[list[bytes]] = []

    async def handle(incoming: Incoming, outgoing: Outgoing) -> None:
        requests: list[bytes] = []
        connections.append(requests)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                requests.append(await incoming.readuntil(b"\r\n\r\n"))
                await answer(outgoing)
        outgoing.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    pool = ConnectionPool(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", None, None, {})
    try:
        yield pool, connections
    finally:
        pool.close()
        listening.close()


def saying(*pieces: bytes) -> Answer:
    async def answer(outgoing: Outgoing) -> None:
        for piece in pieces:
            outgoing.write(piece)
            await outgoing.drain()
            await asyncio.sleep(0.01)

    return answer


def test_lines_are_read_as_they_come_wherever_the_pieces_end() -> None:
    text = CHUNKED + chunk(b"one\ntw") + chunk(b"o\n\nthree") + chunk(b"\nrest") + b"0\r\n\r\n"

    async def run(*pieces: bytes) -> list[bytes]:
        async with serving(saying(*pieces)) as (pool, _), pool.stream("/", {}, 5) as answer:
            assert answer.status == 200 and answer.headers["Transfer-Encoding"] == "chunked"
            return [line async for line in answer.lines()]

    whole = [b"one", b"two", b"", b"three"]  # and what follows the last newline was cut off
    assert asyncio.run(run(text)) == whole
    assert asyncio.run(run(*(text[n : n + 1] for n in range(len(text))))) == whole


def test_a_line_is_there_before_the_next_one_comes() -> None:
    async def run() -> None:
        seen = asyncio.Event()

        async def answer(outgoing: Outgoing) -> None:
            outgoing.write(CHUNKED + chunk(b"one\n"))
            await asyncio.wait_for(seen.wait(), 5)
            outgoing.write(chunk(b"two\n") + b"0\r\n\r\n")

        async with serving(answer) as (pool, _), pool.stream("/", {}, 5) as answer_:
            lines = []
            async for line in answer_.lines():
                lines.append(line)
                seen.set()
            assert lines == [b"one", b"two"]

    asyncio.run(run())


def test_a_connection_is_used_again_after_a_watch_only_if_that_came_to_its_end() -> None:
    async def run() -> None:
        async with serving(saying(CHUNKED + chunk(b"one\n"), chunk(b"two\n") + b"0\r\n\r\n")) as (pool, connections):
            async with pool.stream("/ended", {}, 5) as answer:
                assert [line async for line in answer.lines()] == [b"one", b"two"]
            async with pool.stream("/left", {}, 5) as answer:
                async for _ in answer.lines():
                    break
            async with pool.stream("/again", {}, 5) as answer:
                assert await answer.read() == b"one\ntwo\n"
            assert [[request.split()[1] for request in each] for each in connections] == [
                [b"/ended", b"/left"],
                [b"/again"],
            ]

    asyncio.run(run())


def test_a_watch_over_a_connection_that_the_server_had_closed_is_made_over_a_new_one() -> None:
    async def goodbye(outgoing: Outgoing) -> None:
        if list(map(len, connections)) == [2]:
            outgoing.transport.abort()
        else:
            await saying(CHUNKED + chunk(b"one\n") + b"0\r\n\r\n")(outgoing)

    connections: list[list[bytes]] = []

    async def run() -> None:
        nonlocal connections
        async with serving(goodbye) as (pool, connections):
            for _ in range(2):
                async with pool.stream("/", {}, 5) as answer:
                    assert [line async for line in answer.lines()] == [b"one"]
            assert list(map(len, connections)) == [2, 1]

    asyncio.run(run())


@pytest.mark.parametrize("broken", [chunk(b"two\n")[:-3], b"zz\r\n"], ids=["cut off", "no chunk"])
def test_a_watch_that_breaks_gives_what_came_and_then_says_so(broken: bytes) -> None:
    async def answer(outgoing: Outgoing) -> None:
        await saying(CHUNKED + chunk(b"one\n"), broken)(outgoing)
        outgoing.close()

    async def run() -> None:
        lines = []
        async with serving(answer) as (pool, _):
            with pytest.raises(BrokenError):
                async with pool.stream("/", {}, 5) as watch:
                    async for line in watch.lines():
                        lines.append(line)
            assert lines == [b"one"] and not pool._idle

    asyncio.run(run())


@pytest.mark.parametrize("pieces", [(), (CHUNKED,), (CHUNKED, chunk(b"one\n"))], ids=["no head", "a head", "a line"])
def test_silence_ends_a_watch(pieces: tuple[bytes, ...]) -> None:
    async def run() -> None:
        async with serving(saying(*pieces)) as (pool, _):
            with pytest.raises(TimeoutError, match="no answer in time"):
                async with pool.stream("/", {}, 0.3) as watch:
                    async for _ in watch.lines():
                        pass
            assert not pool._idle

    asyncio.run(run())


def test_a_server_waits_for_a_slow_reader_who_in_the_end_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server sends faster than it is read fills no memory, and the wait is no silence of the server."""
    monkeypatch.setattr(connection, "UNREAD", 10_000)
    line, count = b"x" * 9_999 + b"\n", 4_000
    sent = 0

    async def answer(outgoing: Outgoing) -> None:
        nonlocal sent
        outgoing.write(CHUNKED)
        for _ in range(count):
            outgoing.write(chunk(line))
            await outgoing.drain()
            sent += 1
        outgoing.write(b"0\r\n\r\n")

    async def run() -> None:
        async with serving(answer) as (pool, _), pool.stream("/", {}, 0.5) as watch:
            pieces = watch.pieces()
            length = len(await anext(pieces))
            await asyncio.sleep(1.5)
            assert sent < count / 2
            assert watch._connection.parser.unread < 1_000_000
            async for piece in pieces:
                length += len(piece)
            assert length == len(line) * count

    asyncio.run(run())


def test_an_event_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "LONGEST_LINE", 100)

    async def run() -> None:
        async with serving(saying(CHUNKED, *[chunk(b"x" * 40)] * 3)) as (pool, _):
            with pytest.raises(BrokenError, match="an event is longer than"):
                async with pool.stream("/", {}, 5) as watch:
                    async for _ in watch.lines():
                        pass

    asyncio.run(run())


def test_without_tls_a_proxy_gets_the_requests_themselves() -> None:
    async def run() -> None:
        seen: list[bytes] = []

        async def handle(incoming: Incoming, outgoing: Outgoing) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while True:
                    seen.append(await incoming.readuntil(b"\r\n\r\n"))
                    outgoing.write(HELLO + b"Content-Length: 2\r\n\r\nok")
            outgoing.close()

        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        pool = ConnectionPool("http://cluster.test:81/base", None, None, {}, f"http://me:i%40t@127.0.0.1:{port}")
        assert (await pool.read("/version", {})).body == b"ok"
        assert (await pool.write("PATCH", "/a b", b"", {})).body == b"ok"
        pool.close()
        listening.close()
        assert [request.split(b"\r\n")[0] for request in seen] == [
            b"GET http://cluster.test:81/base/version HTTP/1.1",
            b"PATCH http://cluster.test:81/base/a%20b HTTP/1.1",
        ]
        assert all(b"\r\nProxy-Authorization: Basic bWU6aUB0\r\n" in request for request in seen)
        assert all(b"\r\nHost: cluster.test:81\r\n" in request for request in seen)

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nwhat the server never said",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_where_a_proxy_makes_no_tunnel_nothing_was_sent(answer: bytes) -> None:
    async def run() -> None:
        asked: list[bytes] = []

        async def handle(incoming: Incoming, outgoing: Outgoing) -> None:
            asked.append(await incoming.readuntil(b"\r\n\r\n"))
            outgoing.write(answer)
            outgoing.close()

        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        proxy = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        pool = ConnectionPool("https://[2001:db8::1]:6443", ssl.create_default_context(), None, {}, proxy)
        for work in (pool.read("/version", {"Authorization": "no"}), pool.write("PATCH", "/", b"", {"A": "no"})):
            with pytest.raises(BrokenError) as problem:
                await work
            assert not problem.value.sent and problem.value.trusted
        assert asked == [b"CONNECT [2001:db8::1]:6443 HTTP/1.1\r\nHost: [2001:db8::1]:6443\r\n\r\n"] * 2
        listening.close()

    asyncio.run(run())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    authority = LabAuthority(tmp_path_factory.mktemp("authority"))
    authority.make()
    return authority


def test_a_tunnel_through_a_proxy_that_speaks_tls_itself(authority: LabAuthority) -> None:
    """The cluster's authority vouches for both, as with kubectl."""
    tls = ssl.create_default_context(cafile=str(authority.certificate_file))
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(*authority.issue("proxy", "proxy", addresses=["127.0.0.1"]))

    async def run(address: str, inner: int) -> tuple[int, int]:
        passed = 0

        async def pipe(source: Incoming, target: Outgoing) -> None:
            nonlocal passed
            while piece := await source.read(65536):
                passed += len(piece)
                target.write(piece)
                await target.drain()
            target.close()

        async def handle(incoming: Incoming, outgoing: Outgoing) -> None:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", inner)
                await incoming.readuntil(b"\r\n\r\n")
                outgoing.write(b"HTTP/1.0 200 Connection established\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    await asyncio.gather(pipe(incoming, writer), pipe(reader, outgoing))

        listening = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=own)
        proxy = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        pool = ConnectionPool(address, tls, None, {}, proxy)
        statuses = [(await pool.read("/version", {})).status for _ in range(2)]
        assert statuses == [200, 200] and len(pool._idle) == 1
        pool.close()
        listening.close()
        return passed, len(statuses)

    with recording(authority) as server:
        passed, count = asyncio.run(run(server.address, server.port))
        assert len(server.requests) == count and passed > 0


def test_a_tunnel_is_kept_and_one_that_broke_is_made_anew(authority: LabAuthority) -> None:
    tls = ssl.create_default_context(cafile=str(authority.certificate_file))
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT

    async def run(address: str, proxy: str, targets: list[str]) -> None:
        pool = ConnectionPool(address, tls, None, {}, proxy)
        await pool.read("/a", {})
        await pool.write("PATCH", "/b", b"{}", {})
        assert len(targets) == 1
        [kept] = pool._idle
        kept.drop()
        await pool.read("/c", {})
        assert len(targets) == 2
        pool.close()
        await eventually("its end", lambda: not pool._idle)

    with recording(authority) as server, tunnels() as proxy:
        asyncio.run(run(server.address, proxy.address, proxy.targets))
        assert [path for _, path, _, _ in server.requests] == ["/a", "/b", "/c"]
