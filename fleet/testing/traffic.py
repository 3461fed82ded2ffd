"""Numbered writes to an engine, and how to count them again: what a test needs to say that nothing is lost.

An engine's traffic is a small client of its own protocol. One write has one number; one that the engine acknowledged
must be there for ever after, and one without an answer may be there or not.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """Where a member is reached, and the name that its certificate must have."""

    address: str
    name: str
    port: int


class WriteRefusedError(Exception):
    """The engine answered, and not with yes."""


# What a connection raises for a member that cannot be reached, ends in the middle, or says no.
TRAFFIC_ERRORS = (WriteRefusedError, TimeoutError, OSError, EOFError, ValueError)


class TrafficConnection(Protocol):
    """A connection to one member, with one question at a time. Both calls raise TRAFFIC_ERRORS; the caller ends them
    after a time of its own, and closes the connection then.
    """

    @property
    def place(self) -> MemberAddress: ...

    async def write(self, number: int) -> None:
        """Write a number, and return once the engine has acknowledged it."""

    async def count(self, *, own: bool = False) -> frozenset[int]:
        """Return the numbers that are there as they were written. `own`: by the member's memory alone, without asking
        the others.
        """

    def close(self) -> None:
        """Drop the connection, with whatever is under way on it."""


class Traffic(Protocol):
    """The client of one engine."""

    async def connect(self, place: MemberAddress, tls: ssl.SSLContext | None) -> TrafficConnection:
        """Return a connection to a member that is ready for writes. Raise TRAFFIC_ERRORS if there is none."""
