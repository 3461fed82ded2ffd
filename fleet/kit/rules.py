"""Rules that mean the same in the specs of all app types."""

from __future__ import annotations

from fleet.model.base import Rule
from fleet.model.types import amount

ONLY_GROWS = Rule(
    cel="quantity(self).compareTo(quantity(oldSelf)) >= 0",
    message="cannot become smaller: volumes only grow",
    allows=lambda old, new: amount(new) >= amount(old),
    hint="make a new app with less storage and restore a backup into it",
)
