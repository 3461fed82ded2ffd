"""That a stack is left as it is until somebody says otherwise: who said so, when and why.

It stands in the stack's inventory, in the cluster itself: whoever looks at the cluster sees it, command line and
service alike, and no process has to remember it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote


@dataclass(frozen=True, slots=True)
class Suspension:
    at: str  # UTC, RFC 3339, whole seconds
    by: str
    reason: str = ""
    everywhere: bool = True  # also in clusters of the fleet that have no such word yet

    def __str__(self) -> str:
        since = f" since {self.at}" if self.at else ""
        return f"suspended{since} by {self.by}" + (f": {self.reason}" if self.reason else "")

    def line(self) -> str:
        """As it is stored: one line, in which people read what it says."""
        words = (self.at, quote(self.by, safe=" @"), quote(self.reason, safe=" ,.;:!?#@/()'"))
        return "\t".join((*words, "everywhere" if self.everywhere else "here"))

    @classmethod
    def read(cls, line: str) -> Suspension | None:
        """None when there is none. What was written by hand counts: nobody says so for nothing."""
        if "\t" not in line:
            return cls("", "somebody", line.strip()) if line.strip() else None
        at, by, reason, scope, *_ = [*line.split("\t"), "", "", ""]
        return cls(at, unquote(by) or "somebody", unquote(reason), scope != "here")
