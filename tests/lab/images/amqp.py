"""As much of AMQP 0-9-1 as it takes to declare a queue, publish to it and get the message back."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

METHOD, HEADER, BODY = 1, 2, 3
END = b"\xce"


class Connection:
    """`with Connection(address) as connection: connection.declare("queue")`, as the user guest."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection((address, 5672), timeout=20)
        self._stream = self._socket.makefile("rwb")
        self._stream.write(b"AMQP\x00\x00\x09\x01")
        self.properties = self._expect(10, 10)  # connection.start: what the server says about itself
        self._send(0, 10, 11, _table() + _short("PLAIN") + _long("\0guest\0guest") + _short("en_US"))
        tune = self._expect(10, 30)
        self._send(0, 10, 31, tune[:8])
        self._send(0, 10, 40, _short("/") + b"\0\0")
        self._expect(10, 41)
        self._send(1, 20, 10, b"\0")
        self._expect(20, 11)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def declare(self, queue: str) -> None:
        durable = 0b00010
        self._send(1, 50, 10, b"\0\0" + _short(queue) + bytes([durable]) + _table())
        self._expect(50, 11)

    def publish(self, queue: str, body: bytes) -> None:
        self._send(1, 60, 40, b"\0\0" + _short("") + _short(queue) + b"\0")
        self._frame(HEADER, 1, struct.pack(">HHQH", 60, 0, len(body), 0))
        self._frame(BODY, 1, body)

    def get(self, queue: str) -> bytes:
        self._send(1, 60, 70, b"\0\0" + _short(queue) + b"\1")
        self._expect(60, 71)
        self._receive()  # the header
        return self._receive()[1]

    def _send(self, channel: int, kind: int, method: int, arguments: bytes) -> None:
        self._frame(METHOD, channel, struct.pack(">HH", kind, method) + arguments)

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        self._stream.write(struct.pack(">BHI", kind, channel, len(payload)) + payload + END)
        self._stream.flush()

    def _receive(self) -> tuple[int, bytes]:
        self._stream.flush()
        kind, _, size = struct.unpack(">BHI", self._stream.read(7))
        payload = self._stream.read(size)
        assert self._stream.read(1) == END
        return kind, payload

    def _expect(self, kind: int, method: int) -> bytes:
        frame, payload = self._receive()
        assert (frame, *struct.unpack(">HH", payload[:4])) == (METHOD, kind, method), payload
        return payload[4:]


def _short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _long(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


def _table() -> bytes:
    return struct.pack(">I", 0)
