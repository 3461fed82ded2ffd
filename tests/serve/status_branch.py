"""What the status branch of a remote says, read by plain git; asked again and again, it is read only when it moved."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from fleet.testing import GitRemote

REF = "refs/heads/fleet/status"


@dataclass
class Told:
    remote: GitRemote
    _tip: str = ""
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)

    def record(self, cluster: str, stack: str) -> dict[str, Any]:
        """{} while it says nothing."""
        tip = self._look()
        if tip != self._tip or not tip:
            self._tip = tip
            self._known.clear()
        path = f"clusters/{cluster}/{stack}.json"
        if path not in self._known:
            try:
                self._known[path] = json.loads(self.remote.git("show", f"{tip or REF}:{path}"))
            except AssertionError:
                self._known[path] = {}
        return self._known[path]

    def _look(self) -> str:
        """Its commit, from the file that git keeps it in; "" when it is packed away or not there."""
        try:
            return (self.remote.path / REF).read_text().strip()
        except FileNotFoundError:
            return ""
