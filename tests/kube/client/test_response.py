"""Answers over HTTP/1.1, whole and in pieces, good and bad."""

from __future__ import annotations

import pytest

from fleet.kube.client.response import RawResponse, ResponseParser

PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nDate: now\r\n\r\n"
    b"6\r\nhello \r\n5;x=y\r\nworld\r\n0\r\nTrailer: x\r\n\r\n"
)
ANNOUNCED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN
EMPTY = b"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def parsed(*pieces: bytes) -> RawResponse:
    parser = ResponseParser()
    *first, last = pieces
    for piece in first:
        assert parser.feed(piece) is None
    answer = parser.feed(last)
    assert answer is not None
    return answer


def test_an_answer_has_a_status_headers_and_a_body() -> None:
    answer = parsed(PLAIN)
    assert answer == (200, {"Content-Type": "application/json", "Content-Length": "11"}, b"hello world", True)


@pytest.mark.parametrize("text", [PLAIN, CHUNKED, ANNOUNCED, EMPTY, LAST])
def test_it_does_not_matter_where_the_pieces_end(text: bytes) -> None:
    whole = parsed(text)
    for cut in range(1, len(text)):
        assert parsed(text[:cut], text[cut:]) == whole
    assert parsed(*(text[n : n + 1] for n in range(len(text)))) == whole


def test_chunks_are_put_together_and_trailers_left_out() -> None:
    assert parsed(CHUNKED) == (
        201,
        {"Transfer-Encoding": "chunked", "Date": "now"},
        b"hello world",
        True,
    )


def test_a_connection_is_used_again_only_if_it_may_be() -> None:
    assert parsed(EMPTY).reusable
    assert not parsed(LAST).reusable
    assert not parsed(PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0")).reusable
    assert not parsed(PLAIN + b"HTTP/1.1 200 OK").reusable, "more came than was asked for"


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    parser = ResponseParser()
    assert parser.feed(b"HTTP/1.1 502 Bad Gateway\r\n\r\nno ") is None
    assert parser.feed(b"luck") is None
    assert parser.end() == (502, {}, b"no luck", False)


@pytest.mark.parametrize("text", [PLAIN, CHUNKED])
def test_an_answer_that_is_cut_off_is_none(text: bytes) -> None:
    for cut in range(len(text) - 1):
        parser = ResponseParser()
        assert parser.feed(text[:cut]) is None
        with pytest.raises(ValueError, match="in the middle"):
            parser.end()


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 777 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 300_000,
    ],
)
def test_what_is_not_clear_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        ResponseParser().feed(text)
