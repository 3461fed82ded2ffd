"""A queue that delays, drops and reorders packets.

It is run by path, without packages, and may import the standard library only. It takes packets from the kernel
(nfnetlink_queue, in the network that it was started in) and says of each when it goes on, or that it does not. Packets
themselves are never copied here: only their numbers are.
"""

from __future__ import annotations

import heapq
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

READY = "ready"
DROP, ACCEPT = 0, 1
_NETFILTER, _QUEUE_SUBSYSTEM = 12, 3  # of <linux/netlink.h> and <linux/netfilter/nfnetlink.h>
_PACKET, _VERDICT, _CONFIG = (_QUEUE_SUBSYSTEM << 8 | message for message in (0, 1, 2))
_MOST_WAITING = 1 << 16  # packets; more than that are lost, as in a router that is overrun


@dataclass(slots=True)
class Disturbance:
    """The fate of packets, one after the other. Pure: the same seed decides the same for the same sequence."""

    delay: float = 0
    jitter: float = 0
    loss: float = 0
    reorder: float = 0
    hold: float = 0
    seed: int = 0
    _chance: Random = field(init=False, repr=False)
    _latest: float = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)  # noqa: S311 - nothing secret about it

    def release_time(self, now: float) -> float | None:
        """Return when a packet that came now goes on; None if never.

        Only packets that are held back lose their place.
        """
        loss_draw, hold_draw, jitter_draw = (self._chance.random() for _ in range(3))
        if loss_draw < self.loss:
            return None
        due = now + self.delay + self.jitter * (2 * jitter_draw - 1)
        if hold_draw < self.reorder:
            return due + self.hold
        self._latest = max(self._latest, due)
        return self._latest


class PacketQueue:
    """One of the kernel's queues."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._socket.bind((0, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE: room for bursts
        self._socket.setsockopt(270, 5, 1)  # SOL_NETLINK, NETLINK_NO_ENOBUFS: a burst that is lost is no error
        self._configure(1, struct.pack("!BxH", 1, 0))  # bind
        self._configure(2, struct.pack("!IB", 0, 1))  # say of packets only that they are there
        self._configure(3, struct.pack("!I", _MOST_WAITING))

    def _configure(self, attribute: int, value: bytes) -> None:
        self._send(_CONFIG, attribute, value, flags=0x5)  # a request that is answered
        response = self._socket.recv(65536)
        code = struct.unpack_from("=i", response, 16)[0]
        if code:
            raise OSError(-code, f"the kernel refused queue {self._number}")

    def _send(self, message: int, attribute: int, value: bytes, flags: int = 0x1) -> None:
        padded = value + b"\0" * (-len(value) % 4)
        body = struct.pack("!BBH", 0, 0, self._number) + struct.pack("=HH", 4 + len(value), attribute) + padded
        self._socket.send(struct.pack("=IHHII", 16 + len(body), message, flags, 0, 0) + body)

    def fileno(self) -> int:
        return self._socket.fileno()

    def arrivals(self) -> Iterator[int]:
        """Yield the numbers of the packets that wait now."""
        while True:
            try:
                data = self._socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            yield from packet_numbers(data)

    def decide(self, packet: int, verdict: int) -> None:
        self._send(_VERDICT, 2, struct.pack("!II", verdict, packet))


def packet_numbers(data: bytes) -> Iterator[int]:
    """Yield the numbers of the packets in messages of the kernel."""
    position = 0
    while position + 16 <= len(data):
        length, message = struct.unpack_from("=IH", data, position)
        if message == _PACKET:
            attribute = position + 20
            while attribute + 4 <= position + length:
                size, kind = struct.unpack_from("=HH", data, attribute)
                if kind == 1:
                    yield struct.unpack_from("!I", data, attribute + 4)[0]
                    break
                attribute += max(4, size + 3 & ~3)
        position += max(16, length + 3 & ~3)


def serve(queue: PacketQueue, disturbance: Disturbance) -> None:
    waiting: list[tuple[float, int]] = []
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        select.select([queue], [], [], pause)
        now = time.monotonic()
        for packet in queue.arrivals():
            due = disturbance.release_time(now)
            if due is None:
                queue.decide(packet, DROP)
            else:
                heapq.heappush(waiting, (due, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            queue.decide(heapq.heappop(waiting)[1], ACCEPT)


def main() -> None:
    settings = dict(argument.split("=") for argument in sys.argv[2:])
    seed = int(settings.pop("seed", 0))
    queue = PacketQueue(int(sys.argv[1]))
    print(READY, flush=True)
    serve(queue, Disturbance(**{name: float(value) for name, value in settings.items()}, seed=seed))


if __name__ == "__main__":
    main()
