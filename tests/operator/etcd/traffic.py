"""Numbered keys in an etcd, by its gateway."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.testing.traffic import MemberAddress, WriteRefusedError

PREFIX = b"written/"
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class EtcdConnection:
    """HTTP as far as etcd's gateway needs it, one question at a time: a library's client takes twice the time of one
    of the two cores that everything shares."""

    place: MemberAddress
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        body = orjson.dumps(question)
        head = f"POST /v3/{path} HTTP/1.1\r\nHost: {self.place.name}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        status, headers = _head(await self.reader.readuntil(b"\r\n\r\n"))
        content = b""
        if "content-length" in headers:
            content = await self.reader.readexactly(int(headers["content-length"]))
        else:
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                content += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        answer: dict[str, Any] = orjson.loads(content)
        if status != 200:
            raise WriteRefusedError(answer.get("message") or answer.get("error") or f"HTTP {status}")
        return answer

    async def write(self, number: int) -> None:
        await self.ask("kv/put", {"key": _encoded(_key(number)), "value": _encoded(_value(number))})

    async def count(self, *, own: bool = False) -> frozenset[int]:
        found: set[int] = set()
        begin, end = PREFIX, PREFIX[:-1] + bytes([PREFIX[-1] + 1])
        while True:
            asked = {"key": _encoded(begin), "range_end": _encoded(end), "limit": PAGE, "serializable": own}
            answer = await self.ask("kv/range", asked)
            page = answer.get("kvs", ())
            for one in page:
                number = int(b64decode(one["key"]).removeprefix(PREFIX))
                if b64decode(one.get("value", "")) == _value(number):
                    found.add(number)
            if not answer.get("more"):
                return frozenset(found)
            begin = b64decode(page[-1]["key"]) + b"\0"

    def close(self) -> None:
        self.writer.transport.abort()


class EtcdTraffic:
    async def connect(self, place: MemberAddress, tls: ssl.SSLContext | None) -> EtcdConnection:
        name = place.name if tls else None
        streams = await asyncio.open_connection(
            place.address, place.port, ssl=tls, server_hostname=name, limit=64 << 20
        )
        return EtcdConnection(place, *streams)


def _head(content: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = content.decode().rstrip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


def _key(number: int) -> bytes:
    return PREFIX + f"{number:09d}".encode()


def _value(number: int) -> bytes:
    return f"the value of {number}".encode()


def _encoded(content: bytes) -> str:
    return b64encode(content).decode()
