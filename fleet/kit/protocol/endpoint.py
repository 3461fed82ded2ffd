"""The address of a member, and the two errors of a conversation with it, which must never be mistaken for each other:

Unreachable     nothing is known: no connection, wrong certificate, no answer in time, or one that the engine would
                not give. A command may have been carried out all the same.
MemberRefused   the member answered, and the answer is no.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import ResourceError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member is, and the name that its certificate must have."""

    address: str
    port: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.address}:{self.port})"


class Unreachable(ResourceError):  # noqa: N818 - a state of the member, and the word for it
    """No answer: nothing is known."""

    def __init__(self, endpoint: Endpoint, why: str, engine: str = "the member") -> None:
        super().__init__(f"{engine} at {endpoint} cannot be reached: {why}")
        self.endpoint = endpoint
        self.why = why


class MemberRefused(ResourceError):  # noqa: N818
    """An answer, and it is no. `code` is the engine's."""

    engine = "the member"  # for people; a client's own errors derive from this class

    def __init__(self, endpoint: Endpoint, code: int, reason: str) -> None:
        super().__init__(f"{self.engine} at {endpoint} refused: {reason}")
        self.endpoint = endpoint
        self.code = code
        self.reason = reason

    def says(self, *parts: str) -> bool:
        """Tell whether the reason has one of these words in it."""
        return any(part in self.reason for part in parts)
