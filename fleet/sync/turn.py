"""The errors that a change is which waits for its turn: nothing is wrong with it."""

from __future__ import annotations

from fleet.errors import PolicyError


class WaitingError(PolicyError):
    """It is not its turn yet. `who` waits is a stack, or an object of one."""

    def __init__(self, cluster: str, who: str, reason: str) -> None:
        super().__init__(f"{cluster}: {who} waits: {reason}", hint="the next sync goes on from there")

    @property
    def reason(self) -> str:
        """Without what it is about; of the message, from which secret values are taken out."""
        return self.message.partition(" waits: ")[2]


class PartlyWaitingError(WaitingError):
    """It has begun, and what is left waits for the health of what was done."""
