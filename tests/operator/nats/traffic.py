"""Numbered messages to a stream of JetStream, in the plain text protocol of NATS.

A message is acknowledged by the server once it is in the stream's file.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

from fleet.testing.traffic import MemberAddress, WriteRefusedError

STREAM = "written"
PAGE = 500  # questions on their way at a time


def _value(number: int) -> bytes:
    return f"the value of {number}".encode()


@dataclass
class NatsConnection:
    """One client of one server: what it asks is answered to subjects below its inbox."""

    place: MemberAddress
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    inbox: str = field(default_factory=lambda: f"_INBOX.{secrets.token_hex(8)}")
    asked: int = 0

    async def begin(self) -> None:
        """Say hello, and have the stream made if it is not there."""
        await self.reader.readuntil(b"\r\n")  # INFO
        hello = {"verbose": False, "headers": True, "no_responders": True}
        self.writer.write(f"CONNECT {json.dumps(hello)}\r\nSUB {self.inbox}.* 1\r\n".encode())
        await self._call("STREAM.CREATE", {"name": STREAM, "subjects": [f"{STREAM}.*"], "storage": "file"})

    async def write(self, number: int) -> None:
        answer = await self._ask(f"{STREAM}.{number}", _value(number))
        if answer.get("stream") != STREAM:
            raise WriteRefusedError(answer.get("error", {}).get("description") or "not in the stream")

    async def count(self, *, own: bool = False) -> frozenset[int]:
        """Return the numbers in the stream, which lies at one server: it is always by its own memory."""
        state = (await self._call("STREAM.INFO", {}))["state"]
        wanted = range(state["first_seq"], state["last_seq"] + 1)
        found: set[int] = set()
        for first in range(wanted.start, wanted.stop, PAGE):
            page = range(first, min(first + PAGE, wanted.stop))
            for sequence in page:
                self._send(f"$JS.API.STREAM.MSG.GET.{STREAM}", json.dumps({"seq": sequence}).encode())
            for _ in page:
                message = json.loads((await self._next(self.inbox))[1]).get("message", {})
                number = int(message.get("subject", ".0").partition(".")[2])
                if b64decode(message.get("data", "")) == _value(number):
                    found.add(number)
        return frozenset(found)

    def close(self) -> None:
        self.writer.transport.abort()

    async def _call(self, api: str, question: dict[str, Any]) -> dict[str, Any]:
        answer = await self._ask(f"$JS.API.{api}.{STREAM}", json.dumps(question).encode())
        if "error" in answer:
            raise WriteRefusedError(answer["error"].get("description", api))
        return answer

    async def _ask(self, subject: str, payload: bytes) -> dict[str, Any]:
        _, content = await self._next(self._send(subject, payload))
        answer: dict[str, Any] = json.loads(content)
        return answer

    def _send(self, subject: str, payload: bytes) -> str:
        """Send a message, and return the subject of its answer."""
        self.asked += 1
        reply = f"{self.inbox}.{self.asked}"
        self.writer.write(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
        return reply

    async def _next(self, begins: str) -> tuple[str, bytes]:
        """Return the next message whose subject begins so. One with headers says that nobody answers."""
        while True:
            words = (await self.reader.readuntil(b"\r\n")).decode().split()
            if words[0] == "PING":
                self.writer.write(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                content = (await self.reader.readexactly(int(words[-1]) + 2))[:-2]
                if words[0] == "HMSG":
                    raise WriteRefusedError(content.decode().split("\r\n")[0])
                if words[1].startswith(begins):
                    return words[1], content
            elif words[0] == "-ERR":
                raise WriteRefusedError(" ".join(words))


class NatsTraffic:
    async def connect(self, place: MemberAddress, tls: ssl.SSLContext | None) -> NatsConnection:
        streams = await asyncio.open_connection(place.address, place.port, ssl=tls)
        connection = NatsConnection(place, *streams)
        await connection.begin()
        return connection
