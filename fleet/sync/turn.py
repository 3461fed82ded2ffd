"""The errors that a change is which waits for its turn: nothing is wrong with it."""

from __future__ import annotations

from fleet.errors import PolicyError


class WaitingError(PolicyError):
    """It is not its turn yet."""


class PartlyWaitingError(WaitingError):
    """It has begun, and what is left waits for the health of what was done."""
