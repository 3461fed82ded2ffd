"""The GET-only client against a server that answers in every way HTTP/1.1 allows, and in some that it does not."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest

from fleet.kube.client.reader import Reader, ReaderResponse

HELLO = b"HTTP/1.1 200 OK\r\n"
Work = Callable[[Reader], Awaitable[ReaderResponse]]


def answered(*answers: bytes | None, work: Work | None = None) -> tuple[ReaderResponse, list[bytes]]:
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

    async def run() -> ReaderResponse:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader = Reader(f"http://127.0.0.1:{port}/prefix", None, None, {"Accept": "a", "User-Agent": "test"})
        try:
            return await (work(reader) if work else reader.get("/version?a=b", {}))
        finally:
            reader.close()
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
        HELLO + b"Content-Length: 0\r\n\r\n", work=lambda reader: reader.get("/a", {"Accept": "special"})
    )
    assert requests[0].count(b"Accept:") == 1 and b"Accept: special\r\n" in requests[0]


def test_a_name_cannot_end_the_line_that_it_is_in() -> None:
    _, requests = answered(
        HELLO + b"Content-Length: 0\r\n\r\n", work=lambda reader: reader.get("/a\r\nX: y/ü b%20c", {})
    )
    assert requests[0].startswith(b"GET /prefix/a%0D%0AX:%20y/%C3%BC%20b%20c HTTP/1.1\r\n")


def test_a_connection_is_used_again_and_replaced_when_the_server_has_closed_it() -> None:
    whole = HELLO + b"Content-Length: 2\r\n\r\nok"

    async def three(reader: Reader) -> ReaderResponse:
        await reader.get("/first", {})
        assert len(reader._idle) == 1
        await reader.get("/second", {})  # closed instead of answered: asked again on a new connection
        return await reader.get("/third", {})

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
