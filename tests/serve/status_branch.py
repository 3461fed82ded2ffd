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
        if not tip:
            return {}
        if tip != self._tip:
            self._tip = tip
            self._known.clear()
        path = f"clusters/{cluster}/{stack}.json"
        if path not in self._known:
            try:
                self._known[path] = json.loads(self.remote.git("show", f"{tip}:{path}"))
            except AssertionError:
                self._known[path] = {}
        return self._known[path]

    def _look(self) -> str:
        """Its commit, from the files that git keeps it in; "" when it is not there. A git each time would be most of a
        test that waits for the first record.
        """
        try:
            return (self.remote.path / REF).read_text().strip()
        except FileNotFoundError:
            pass
        packed = self.remote.path / "packed-refs"
        lines = packed.read_text().splitlines() if packed.exists() else []
        return next((line.partition(" ")[0] for line in lines if line.endswith(f" {REF}")), "")
