"""What every kind of fault has to say: how it begins and how it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from fleet.lab.faults.fault import Active, Fault

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

Facts = dict[str, Any]  # plain JSON


class Kind(ABC):
    """One way in which something can be wrong."""

    lasts: ClassVar[bool] = True  # or it happens once: it ends as soon as it has begun, and nothing is undone

    @abstractmethod
    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        """Find what it happens to, and refuse what cannot be. Changes nothing."""

    @abstractmethod
    def begin(self, lab: Lab, active: Active) -> None:
        """Make it so."""

    def end(self, lab: Lab, active: Active) -> None:
        """Undo it, as often as asked, whatever is left of it; from its facts alone."""
        return

    def settle(self, lab: Lab, active: Active) -> None:
        """Wait until what was undone works again. Comes when all that is to be undone is: one may need another."""
        return

    def renew(self, lab: Lab, active: Active, node: str) -> None:
        """A node may have come back: make again what it had of this fault and has lost with its namespaces, if so."""
        return
