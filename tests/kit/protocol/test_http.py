"""A client over HTTP of members that may answer anything: it ends in time, within bounds, and only by right."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from fleet.kit.credentials.certificates import Authority, Leaf, client_context
from fleet.kit.protocol.bounds import read_number, read_text
from fleet.kit.protocol.endpoint import Endpoint, MemberRefused, Unreachable
from fleet.kit.protocol.http import HttpMembers

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
VARZ = {"server_name": "bus-0", "version": "2.10.29", "connections": 3}


class NatsMonitor(HttpMembers):
    """The monitoring of a NATS server, as a type of NATS whose members are asked would have it."""

    engine = "NATS"

    async def connections(self, endpoint: Endpoint) -> tuple[str, int]:
        answer = await self.ask(endpoint, "/varz")
        with self.understood(endpoint):
            body = orjson.loads(answer.content)
            return read_text(body, "server_name"), read_number(body, "connections")


async def talk(
    handler: Handler,
    call: Callable[[NatsMonitor, Endpoint], Awaitable[Any]],
    *,
    served: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    seconds: float = 5,
    name: str = "bus-0.test",
) -> Any:
    """Return what a client makes of a member that answers so."""
    server = web.ServerRunner(web.Server(handler))
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0, ssl_context=served).start()
    try:
        async with NatsMonitor(tls, seconds) as client:
            return await call(client, Endpoint("127.0.0.1", server.addresses[0][1], name))
    finally:
        await server.cleanup()


def answers(body: bytes, status: int = 200, **headers: str) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers=headers)

    return handler


def ask(client: NatsMonitor, endpoint: Endpoint) -> Awaitable[tuple[str, int]]:
    return client.connections(endpoint)


def test_a_question_is_answered() -> None:
    assert asyncio.run(talk(answers(orjson.dumps(VARZ)), ask)) == ("bus-0", 3)


def test_a_status_that_is_an_error_is_for_the_engine_to_read() -> None:
    async def send(client: NatsMonitor, endpoint: Endpoint) -> Any:
        return await client.send(endpoint, "/reload", b"{}")

    answer = asyncio.run(talk(answers(b"no", 503), send))
    assert (answer.status, answer.content) == (503, b"no")


@pytest.mark.parametrize("body", [b'{"connections": "x"}', b"[]", b"", b'{"connections": -1}', b"[" * 5000])
def test_what_the_engine_would_not_say_is_no_answer(body: bytes) -> None:
    with pytest.raises(Unreachable, match=r"NATS at bus-0.test .* an answer that is not NATS's"):
        asyncio.run(talk(answers(body), ask))


def test_an_endless_answer_is_given_up() -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * (1 << 20))

    with pytest.raises(Unreachable, match="longer than 256 KiB"):
        asyncio.run(talk(endless, ask))


def test_a_compressed_answer_stays_as_small_as_it_was_sent() -> None:
    content = gzip.compress(b" " * (64 << 20))

    async def packed(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=content, headers={"Content-Encoding": "gzip"})

    with pytest.raises(Unreachable, match="not NATS's"):
        asyncio.run(talk(packed, ask))


def test_a_silent_member_is_waited_for_no_longer_than_said() -> None:
    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(2)
        return web.Response()

    with pytest.raises(Unreachable, match=r"no answer in 0\.2 s"):
        asyncio.run(talk(silent, ask, seconds=0.2))


def test_a_member_that_leads_elsewhere_is_not_followed() -> None:
    async def send(client: NatsMonitor, endpoint: Endpoint) -> Any:
        return await client.ask(endpoint, "/varz")

    answer = asyncio.run(talk(answers(b"", 302, Location="http://127.0.0.1:1/varz"), send))
    assert answer.status == 302


def test_a_question_is_repeated_on_a_new_connection_and_a_command_is_not() -> None:
    requests: list[str] = []

    async def closing(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request.path)
        if len(requests) % 2:
            assert request.transport is not None
            request.transport.close()
        return web.Response(body=orjson.dumps(VARZ))

    assert asyncio.run(talk(closing, ask)) == ("bus-0", 3)
    assert requests == ["/varz", "/varz"]
    requests.clear()

    async def send(client: NatsMonitor, endpoint: Endpoint) -> Any:
        return await client.send(endpoint, "/reload", b"{}")

    with pytest.raises(Unreachable):
        asyncio.run(talk(closing, send))
    assert requests == ["/reload"]


class LedByAnotherError(Exception):
    """Another process leads."""


@pytest.mark.parametrize("asked_before", [0, 1])
def test_nothing_is_sent_once_another_process_leads(asked_before: int) -> None:
    """Neither a request that begins then, nor the body of one that has begun."""
    bodies: list[bytes] = []
    asked: list[int] = []

    async def keep(request: web.BaseRequest) -> web.StreamResponse:
        bodies.append(await request.read())
        return web.Response()

    def allowed() -> None:
        asked.append(1)
        if len(asked) > asked_before:
            raise LedByAnotherError

    async def send(client: NatsMonitor, endpoint: Endpoint) -> Any:
        return await client.guarded(allowed).send(endpoint, "/reload", b"all of it")

    with pytest.raises(LedByAnotherError):
        asyncio.run(talk(keep, send))
    assert b"all of it" not in bodies


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, ssl.SSLContext]:
    """Return a CA, and what serves with a certificate of it for one name."""
    directory: Path = tmp_path_factory.mktemp("certificates")
    authority = Authority.new("test")
    pair = authority.issue(Leaf("bus-0", ("bus-0.test",), server=True))
    (directory / "pair.pem").write_bytes(pair.cert_pem + pair.key_pem)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(directory / "pair.pem")
    return authority, served


def test_a_member_is_known_by_the_name_in_its_certificate(certificates: tuple[Authority, ssl.SSLContext]) -> None:
    authority, served = certificates
    handler, tls = answers(orjson.dumps(VARZ)), client_context(authority)
    assert asyncio.run(talk(handler, ask, served=served, tls=tls)) == ("bus-0", 3)
    with pytest.raises(Unreachable, match="certificate"):
        asyncio.run(talk(handler, ask, served=served, tls=tls, name="bus-1.test"))


def test_a_member_with_a_certificate_of_others_is_not_reached(certificates: tuple[Authority, ssl.SSLContext]) -> None:
    tls = client_context(Authority.new("another"))
    with pytest.raises(Unreachable, match="certificate"):
        asyncio.run(talk(answers(b"{}"), ask, served=certificates[1], tls=tls))


def test_a_refusal_is_told_from_silence() -> None:
    refused = MemberRefused(Endpoint("127.0.0.1", 1, "bus-0"), 7, "not leader")
    assert refused.says("leader") and not refused.says("full")
    assert not isinstance(refused, Unreachable)
    assert str(refused) == "the member at bus-0 (127.0.0.1:1) refused: not leader"
