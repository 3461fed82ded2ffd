"""The audit log of an API server, read by a test: which user asked it for what."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import ResourceError

DELETIONS = frozenset({"delete", "deletecollection"})
WRITES = frozenset({"create", "update", "patch", *DELETIONS})
STAGES = frozenset({"ResponseStarted", "ResponseComplete", "Panic"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered, or that is being answered: a watch."""

    user: str
    agent: str
    verb: str
    uri: str
    resource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    body: Any = field(default=None, hash=False)  # what was sent; kept of deletions and of changes of StatefulSets
    is_over: bool = True  # not for a watch that goes on

    @property
    def is_write(self) -> bool:
        """Return whether it could have changed something: dry-runs do not, and neither do reviews of rights."""
        return self.verb in WRITES and not self.dry_run and not self.resource.endswith("reviews")


class AuditLog:
    """The audit log of one API server; `mark()` before and `requests(since=…)` after tell what happened between."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """Return a position: the end of the log now."""
        self._settle()
        return self.path.stat().st_size if self.path.exists() else 0

    def requests(self, since: int = 0, user: str | None = None, agent: str | None = None) -> list[Request]:
        """Return the requests since a mark, each once, by a user's name or a beginning of the client's user agent.

        Raises ResourceError if the server has begun a new log since the mark.
        """
        self._settle()
        if not self.path.exists() and not since:
            return []
        with self.path.open("rb") as log:
            if since > (size := log.seek(0, os.SEEK_END)):
                raise ResourceError(
                    f"{self.path} has {size} bytes, and the mark is at {since}: a new log was begun in between",
                    hint="mark it again; what was asked in between is in the log's older files",
                )
            log.seek(since)
            events = [orjson.loads(line) for line in log.read().splitlines() if line.endswith(b"}")]
        return [
            request
            for request in map(_parse_request, _last_events(events))
            if (user is None or request.user == user) and (not agent or request.agent.startswith(agent))
        ]

    def count(
        self, since: int = 0, user: str | None = None, agent: str | None = None, *, dry_run: bool = False
    ) -> Counter[tuple[str, str]]:
        """Count how often each user used each verb; dry-runs are counted apart."""
        requests = self.requests(since, user, agent)
        return Counter((request.user, request.verb) for request in requests if request.dry_run == dry_run)

    def writes(self, since: int = 0, user: str | None = None, agent: str | None = None) -> list[Request]:
        """Return the requests that could have changed something."""
        return [request for request in self.requests(since, user, agent) if request.is_write]

    def _settle(self, quiet: float = 0.1) -> None:
        """Wait until the log stops growing, for requests whose client did not live to see the answer.

        Those that were answered need no waiting: a server logs a request before it ends the answer to it.
        """
        size, deadline = -1, time.monotonic() + 2
        while time.monotonic() < deadline:
            now = self.path.stat().st_size if self.path.exists() else 0
            if now == size:
                return
            size = now
            time.sleep(quiet)


def _last_events(events: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Return the last event of each request: a watch has one when it begins and one when it ends."""
    last_events: dict[str, dict[str, Any]] = {}
    for event in events:
        identity, stage = event["auditID"], event["stage"]
        if stage == "ResponseComplete" and event["verb"] == "watch" and identity not in last_events:
            continue  # the request is from before the mark
        if stage in STAGES:
            last_events[identity] = event
    return last_events.values()


def _is_dry_run(event: dict[str, Any]) -> bool:
    """Return whether the query says so, or the options that are sent with a deletion."""
    options = event.get("requestObject") if event.get("verb") in DELETIONS else None
    return "dryRun=All" in event.get("requestURI", "") or (isinstance(options, dict) and bool(options.get("dryRun")))


def _parse_request(event: dict[str, Any]) -> Request:
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
        dry_run=_is_dry_run(event),
        body=event.get("requestObject"),
        is_over=event["stage"] != "ResponseStarted",
    )
