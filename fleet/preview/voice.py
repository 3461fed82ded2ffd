"""As whom a preview speaks on a forge: one repository may hold several fleets, and each has its comment and status."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.forge.sticky import Topic

CONTEXT = "fleet/preview"


@dataclass(frozen=True, slots=True)
class Voice:
    below: str = ""  # the fleet's directory in the repository; "" for its root
    page: str = ""  # an address for people, with all of it

    @property
    def context(self) -> str:
        """The name of the commit status."""
        return f"{CONTEXT}/{self.below}" if self.below else CONTEXT

    @property
    def title(self) -> str:
        return f"fleet preview of {self.below}" if self.below else "fleet preview"

    @property
    def topic(self) -> Topic:
        return Topic("preview", self.below)
