"""Who asked an API server for what: a reader of its audit log."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request."""

    user: str
    agent: str
    verb: str
    uri: str
    resource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    body: Any = field(default=None, hash=False)  # what was sent; kept of changes of StatefulSets alone

    @property
    def is_write(self) -> bool:
        """Whether it could have changed something: dry-runs do not, and neither do reviews of rights."""
        return self.verb in WRITES and not self.dry_run and not self.resource.endswith("reviews")


class AuditLog:
    """The audit log of one API server; `mark()` before and `requests(since=…)` after tell what happened between."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """A position: the end of the log now."""
        self._settle()
        return self.path.stat().st_size if self.path.exists() else 0

    def requests(self, since: int = 0, user: str | None = None, agent: str | None = None) -> list[Request]:
        """What was asked since a mark, by a user's name or a beginning of the client's user agent."""
        self._settle()
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(since)
            found = [_request(orjson.loads(line)) for line in log.read().splitlines() if line.endswith(b"}")]
        return [
            request
            for request in found
            if request and (user is None or request.user == user) and (not agent or request.agent.startswith(agent))
        ]

    def count(
        self, since: int = 0, user: str | None = None, agent: str | None = None, *, dry_run: bool = False
    ) -> Counter[tuple[str, str]]:
        """How often each user used each verb; dry-runs are counted apart."""
        requests = self.requests(since, user, agent)
        return Counter((one.user, one.verb) for one in requests if one.dry_run == dry_run)

    def writes(self, since: int = 0, user: str | None = None, agent: str | None = None) -> list[Request]:
        """The requests that could have changed something."""
        return [request for request in self.requests(since, user, agent) if request.is_write]

    def _settle(self, quiet: float = 0.1) -> None:
        """A request is logged a moment after it was answered: wait until the log stops growing."""
        size, deadline = -1, time.monotonic() + 2
        while time.monotonic() < deadline:
            now = self.path.stat().st_size if self.path.exists() else 0
            if now == size:
                return
            size = now
            time.sleep(quiet)


def _request(event: dict[str, Any]) -> Request | None:
    if event.get("stage") not in {"ResponseComplete", "ResponseStarted", "Panic"}:
        return None
    reference = event.get("objectRef", {})
    resource = "/".join(part for part in (reference.get("resource", ""), reference.get("subresource", "")) if part)
    return Request(
        user=event.get("user", {}).get("username", ""),
        agent=event.get("userAgent", ""),
        verb=event.get("verb", ""),
        uri=event.get("requestURI", ""),
        resource=resource,
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=All" in event.get("requestURI", ""),
        body=event.get("requestObject"),
    )
