"""Reads over the pool, from a server that answers in every way HTTP/1.1 allows, and in some that it does not."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest

from fleet.kube.client import response
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.pool import ConnectionPool
from fleet.kube.client.response import RawResponse

HELLO = b"HTTP/1.1 200 OK\r\n"
Work = Callable[[ConnectionPool], Awaitable[RawResponse]]


def answered(*answers: bytes | None, work: Work | None = None) -> tuple[RawResponse, list[bytes]]:
    """The result of `work` (one GET) with a server that gives these answers in turn; None closes the connection."""
    requests: list[bytes] = []
    script = iter(answers)

    async def serve(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        try:
            while True:
                requests.append(await incoming.readuntil(b"\r\n\r\n"))
                answer = next(script)
                if answer is None:
                    break
                for position in range(0, len(answer), 7):  # in pieces, as networks deliver
                    outgoing.write(answer[position : position + 7])
                    await outgoing.drain()
                if b"close" in answer or (b"Content-Length" not in answer and b"chunked" not in answer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            outgoing.close()

    async def run() -> RawResponse:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool = ConnectionPool(f"http://127.0.0.1:{port}/prefix", None, None, {"Accept": "a", "User-Agent": "test"})
        try:
            return await (work(pool) if work else pool.read("/version?a=b", {}))
        finally:
            pool.close()
            server.close()

    return asyncio.run(run()), requests


@pytest.mark.parametrize(
    "answer",
    [
        HELLO + b"Content-Length: 5\r\n\r\nhello",
        HELLO + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;name=value\r\nllo\r\n0\r\n\r\n",
        HELLO + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
        HELLO + b"\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HELLO + b"Content-Length: 5\r\n\r\nhello",
        HELLO + b"content-encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"hello", mtime=0),
    ],
)
def test_an_answer_is_read_in_every_form_it_may_have(answer: bytes) -> None:
    got, requests = answered(answer)
    assert (got.status, got.body) == (200, b"hello")
    assert requests[0].startswith(b"GET /prefix/version?a=b HTTP/1.1\r\nHost: 127.0.0.1:")


def test_names_of_headers_are_told_in_one_spelling() -> None:
    got, _ = answered(b"HTTP/1.1 429 Busy\r\nretry-after: 3\r\nDATE: now\r\nContent-Length: 0\r\n\r\n")
    assert (got.status, got.headers["Retry-After"], got.headers["Date"]) == (429, "3", "now")


def test_what_a_request_says_takes_the_place_of_what_all_say() -> None:
    _, requests = answered(
        HELLO + b"Content-Length: 0\r\n\r\n", work=lambda pool: pool.read("/a", {"Accept": "special"})
    )
    assert requests[0].count(b"Accept:") == 1 and b"Accept: special\r\n" in requests[0]


def test_a_name_cannot_end_the_line_that_it_is_in() -> None:
    _, requests = answered(HELLO + b"Content-Length: 0\r\n\r\n", work=lambda pool: pool.read("/a\r\nX: y/ü b%20c", {}))
    assert requests[0].startswith(b"GET /prefix/a%0D%0AX:%20y/%C3%BC%20b%20c HTTP/1.1\r\n")


def test_a_connection_is_used_again_and_replaced_when_the_server_has_closed_it() -> None:
    whole = HELLO + b"Content-Length: 2\r\n\r\nok"

    async def three(pool: ConnectionPool) -> RawResponse:
        await pool.read("/first", {})
        assert len(pool._idle) == 1
        await pool.read("/second", {})  # closed instead of answered: asked again on a new connection
        return await pool.read("/third", {})

    got, requests = answered(whole, None, whole, whole, work=three)
    assert got.body == b"ok"
    assert [line.split()[1][-5:] for line in requests] == [b"first", b"econd", b"econd", b"third"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Le",
        HELLO + b"Content-Length: 9\r\nConnection: close\r\n\r\nhello",
        HELLO + b"Content-Length: many\r\nConnection: close\r\n\r\n",
        HELLO + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        HELLO + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhel",
        HELLO + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"hello", mtime=0)[:-9],
        HELLO + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\nnot gzip",
        b"nonsense\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_whole_is_a_broken_connection_and_never_a_short_one(answer: bytes | None) -> None:
    with pytest.raises(ConnectionError):
        answered(answer)


def test_a_read_whose_answer_had_begun_is_not_sent_again_by_itself() -> None:
    async def two(pool: ConnectionPool) -> RawResponse:
        await pool.read("/first", {})
        with pytest.raises(BrokenError):
            await pool.read("/second", {})
        return await pool.read("/third", {})

    whole = HELLO + b"Content-Length: 2\r\n\r\nok"
    _, requests = answered(whole, HELLO + b"Content-Length: 2\r\nConnection: close\r\n\r\no", whole, work=two)
    assert [line.split()[1][-5:] for line in requests] == [b"first", b"econd", b"third"]


def test_a_write_over_a_connection_that_the_server_had_closed_is_never_sent_again_by_itself() -> None:
    async def two(pool: ConnectionPool) -> RawResponse:
        await pool.read("/first", {})
        with pytest.raises(BrokenError) as problem:
            await pool.write("PATCH", "/second", b"", {})
        assert problem.value.sent, "the server may have carried it out before it closed"
        return await pool.read("/third", {})

    whole = HELLO + b"Content-Length: 2\r\n\r\nok"
    _, requests = answered(whole, None, whole, work=two)
    assert [line.split()[:2] for line in requests] == [
        [b"GET", b"/prefix/first"],
        [b"PATCH", b"/prefix/second"],
        [b"GET", b"/prefix/third"],
    ]


def test_a_read_that_is_given_up_takes_its_connection_with_it() -> None:
    begun = HELLO + b"Content-Length: 4\r\n\r\nhe"

    async def two(pool: ConnectionPool) -> RawResponse:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await pool.read("/first", {})
        assert not pool._idle
        return await pool.read("/second", {})

    got, requests = answered(begun, HELLO + b"Content-Length: 2\r\n\r\nok", work=two)
    assert got.body == b"ok" and len(requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        HELLO + b"Content-Length: 101\r\nConnection: close\r\n\r\n" + b"x" * 101,
        HELLO + b"Connection: close\r\n\r\n" + b"x" * 101,
        HELLO + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n",
        HELLO + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"x" * 10_000, mtime=0),
    ],
    ids=["a length", "until the end", "chunks", "compressed"],
)
def test_an_answer_that_is_too_long_is_not_kept(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "LONGEST_BODY", 100)
    with pytest.raises(BrokenError, match="the answer is longer than"):
        answered(answer)


def test_an_answer_compressed_otherwise_than_asked_for_is_none() -> None:
    with pytest.raises(BrokenError, match="encoded as br, which was not asked for"):
        answered(HELLO + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nok")
