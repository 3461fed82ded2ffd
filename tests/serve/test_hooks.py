"""Strangers at the address of webhooks: nobody who is not the forge fills the memory or keeps others from an answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from fleet.forge import FORGES
from fleet.forge.forge import Event, PushEvent
from fleet.forge.webhook import MOST_BYTES
from fleet.kube.runtime import operator as server
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.operator import serving
from fleet.serve.process import WebhookBodies, Webhooks
from tests.serve.forks import WITHOUT_CLUSTERS, Fork
from tests.serve.process import Process

SECRET = "s3cret"
SIGNED = {
    "github": f"X-Hub-Signature-256: sha256={'0' * 64}",
    "gitea": f"X-Gitea-Signature: {'0' * 64}",
    "gitlab": "Webhook-Signature: v1,AAAA",
}
PUSH = json.dumps(
    {
        "ref": "refs/heads/main",
        "before": "1" * 40,
        "after": "2" * 40,
        "repository": {"full_name": "team/fleet", "html_url": "https://git.example.com/team/fleet"},
    }
).encode()


@dataclass
class Stranger:
    """A connection, on which what is sent is written down to the byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def status(self) -> int:
        """Return the status of the next answer; 0 once the connection is closed."""
        async with asyncio.timeout(10):
            try:
                line = await self.reader.readline()
            except ConnectionError:
                return 0
        return int(line.split()[1]) if line else 0


@dataclass
class Listening:
    address: tuple[str, int]
    hooks: Webhooks
    heard: list[Event]
    strangers: list[Stranger] = field(default_factory=list)

    async def stranger(self) -> Stranger:
        self.strangers.append(made := Stranger(*await asyncio.open_connection(*self.address)))
        return made

    async def forge(self) -> int:
        """Send a webhook as Gitea does, and return the status of the answer."""
        about = (f"Content-Length: {len(PUSH)}", *(f"{name}: {value}" for name, value in signed(PUSH).items()))
        asking = await self.stranger()
        await asking.send("POST /hooks/gitea HTTP/1.1", "Host: fleet", *about, body=PUSH)
        return await asking.status()


@asynccontextmanager
async def listening(most: int = 4 << 20, seconds: float = 15.0) -> AsyncIterator[Listening]:
    heard: list[Event] = []
    hooks = Webhooks(
        SECRET, heard.append, Counter("hooks", "", ("result",), registry=None), WebhookBodies(most), seconds
    )
    async with serving(("127.0.0.1", 0), hooks.answer) as address:
        yield (place := Listening(address, hooks, heard))
        for stranger in place.strangers:
            stranger.writer.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", FORGES)
def test_who_shows_no_signature_is_refused_before_a_body_is_read(kind: str) -> None:
    async def refused(*headers: str) -> int:
        async with listening() as place:
            stranger = await place.stranger()
            about = ("Host: fleet", f"Content-Length: {MOST_BYTES}", *headers)
            await stranger.send(f"POST /hooks/{kind} HTTP/1.1", *about)
            return await stranger.status()

    assert asyncio.run(refused()) == 403
    assert asyncio.run(refused(SIGNED[kind].partition(":")[0] + ": x")) == 403
    assert asyncio.run(refused("X-Gitlab-Token: wrong")) == 403


def test_a_body_that_is_longer_than_any_forge_s_is_refused_before_it_is_read() -> None:
    async def refused() -> int:
        async with listening() as place:
            stranger = await place.stranger()
            about = ("Host: fleet", f"Content-Length: {MOST_BYTES + 1}", SIGNED["gitea"])
            await stranger.send("POST /hooks/gitea HTTP/1.1", *about)
            return await stranger.status()

    assert asyncio.run(refused()) == 413


def test_bodies_of_all_connections_together_are_bounded_and_the_forge_is_heard_meanwhile() -> None:
    """Without a bound, these are 40 times 2 MiB."""

    async def attacked() -> None:
        async with listening(most=4 << 20) as place:
            bodies, largest = place.hooks.bodies, 0
            strangers = [await place.stranger() for _ in range(40)]
            for stranger in strangers:
                about = ("Host: fleet", f"Content-Length: {MOST_BYTES}", SIGNED["gitea"])
                await stranger.send("POST /hooks/gitea HTTP/1.1", *about, body=b"x" * (1 << 16))
            for _ in range(31):
                for stranger in strangers:
                    stranger.writer.write(b"x" * (1 << 16))
                await asyncio.sleep(0.01)
                largest = max(largest, bodies.size)
            assert await place.forge() == 202
            assert largest > 1 << 20, "they are being read"
            assert largest <= 4 << 20
            for stranger in strangers:
                stranger.writer.close()
            assert [type(one) for one in place.heard] == [PushEvent]
            async with asyncio.timeout(10):
                while bodies.size:  # noqa: ASYNC110 - of connections that are being closed
                    await asyncio.sleep(0.01)

    asyncio.run(attacked())


def signed(body: bytes) -> dict[str, str]:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Gitea-Event": "push", "X-Gitea-Signature": signature}


def test_strangers_with_bodies_do_not_fill_the_memory_of_a_real_service(tmp_path: Path) -> None:
    """50 times 6 MiB are sent, of 50 times 25 MiB that are announced; 48 MiB of all bodies may be there at a time."""
    process = Process(tmp_path, Fork.make(tmp_path, files=WITHOUT_CLUSTERS).remote.url)
    process.environment |= {"FLEET_WEBHOOK_SECRET": SECRET, "KUBECONFIG": str(tmp_path / "none")}
    head = f"POST /hooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Length: {MOST_BYTES}\r\n{SIGNED['gitea']}\r\n\r\n"
    strangers: list[socket.socket] = []
    try:
        process.start("--no-status", poll="1h")
        process.until("it is ready", lambda: process.ask("/readyz")[0] == 200)
        assert process.ask("/hooks/gitea", PUSH, signed(PUSH))[0] == 202
        assert process.process is not None
        service = psutil.Process(process.process.pid)
        before = largest = service.memory_info().rss
        for _ in range(50):
            strangers.append(socket.create_connection(("127.0.0.1", process.port)))
            strangers[-1].settimeout(20)
            strangers[-1].sendall(head.encode())
        for part in range(96):
            for stranger in strangers:
                with suppress(ConnectionError):  # it was given up
                    stranger.sendall(bytes(1 << 16))
            largest = max(largest, service.memory_info().rss)
            if part % 32 == 31:
                assert process.ask("/hooks/gitea", PUSH, signed(PUSH))[0] == 202
        assert largest - before > 16 << 20, "they are being read"
        assert largest - before < 130 << 20
    finally:
        for stranger in strangers:
            stranger.close()
        process.kill()


def test_the_largest_body_is_given_up_and_the_others_go_on() -> None:
    from fleet.serve.process import WebhookBody

    bodies, small, large, larger = WebhookBodies(100), WebhookBody(), WebhookBody(), WebhookBody()
    bodies.add(small, b"x" * 10)
    bodies.add(large, b"x" * 40)
    bodies.add(larger, b"x" * 45)
    assert bodies.size == 95
    bodies.add(small, b"x" * 10)
    assert (small.given_up, large.given_up, larger.given_up) == (False, False, True)
    assert (bodies.size, larger.parts) == (60, [])
    bodies.add(larger, b"x")
    bodies.drop(larger)
    bodies.drop(large)
    bodies.drop(small)
    assert bodies.size == 0


def test_who_does_not_go_on_with_a_body_or_a_header_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE", 0.3)

    async def slow() -> list[int]:
        async with listening(seconds=0.3) as place:
            strangers = [await place.stranger() for _ in range(3)]
            about = ("Host: fleet", f"Content-Length: {MOST_BYTES}", SIGNED["github"])
            await strangers[0].send("POST /hooks/github HTTP/1.1", *about, body=b"{")
            strangers[1].writer.write(b"POST /hooks/github HTTP/1.1\r\nHost: fl")
            return [await one.status() for one in strangers]

    assert asyncio.run(slow()) == [408, 0, 0], "a body, a header, nothing at all"


def test_of_very_many_connections_the_newest_are_kept_so_a_probe_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 8)

    async def crowded() -> tuple[int, list[int]]:
        async with listening() as place:
            strangers = [await place.stranger() for _ in range(12)]
            await asyncio.sleep(0.1)
            answer = await place.forge()
            return answer, [await one.status() for one in strangers[:4]]

    assert asyncio.run(crowded()) == (202, [0] * 4)
