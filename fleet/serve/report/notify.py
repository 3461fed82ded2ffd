"""Reports of health to others: commit statuses on the forge, and notifications by POST to an address of the user's.

A commit gets one status per stack, and one per cluster only where something failed. Both kinds are news and no state:
what cannot be delivered is tried a few times, logged and given up; the status branch has it all. Only changes are
reported, and of a commit only the stacks that it changed, or whose outcome changes later.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import orjson

from fleet.errors import FleetError
from fleet.forge.detect import detect_repository, read_token
from fleet.forge.forge import CommitState, connect
from fleet.git.status_records import StatusReport
from fleet.kube.runtime.metrics import Counter
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.text import count_noun

MOVING = frozenset({"Progressing", "Missing", "Unknown"})
FAILED = frozenset({"Failed", "Conflict", "Cancelled"})


class CommitStatus(NamedTuple):
    """Status of a commit on the forge."""

    state: CommitState
    line: str


def context(stack: str, cluster: str = "") -> str:
    """Return the name of a status."""
    return f"fleet/{stack}/{cluster}" if cluster else f"fleet/{stack}"


def commit_statuses(
    stack: str, reports: Mapping[str, StatusReport], before: Mapping[str, CommitStatus]
) -> dict[str, CommitStatus]:
    """Return the statuses by context, from the newest report of each cluster of the stack.

    `before` is what the forge has already. A cluster that failed before and does no longer has its own status changed,
    since a status cannot be removed.
    """
    parts = {cluster: _judge_report(report) for cluster, report in sorted(reports.items())}
    ill = {cluster: status for cluster, status in parts.items() if status.state is CommitState.FAILURE}
    waiting = {cluster: status for cluster, status in parts.items() if status.state is CommitState.PENDING}
    if ill:
        cluster, status = next(iter(ill.items()))
        whole = CommitStatus(
            CommitState.FAILURE, f"{len(ill)} of {count_noun(len(parts), 'cluster')}: {cluster}: {status.line}"
        )
    elif waiting:
        cluster, status = next(iter(waiting.items()))
        whole = CommitStatus(
            CommitState.PENDING,
            f"{len(parts) - len(waiting)} of {count_noun(len(parts), 'cluster')}; {cluster}: {status.line}",
        )
    else:
        whole = CommitStatus(CommitState.SUCCESS, f"healthy in {count_noun(len(parts), 'cluster')}")
    statuses = {context(stack): whole} | {context(stack, cluster): status for cluster, status in ill.items()}
    for cluster, status in parts.items():
        if cluster not in ill and context(stack, cluster) in before:
            statuses[context(stack, cluster)] = status
    return statuses


def _judge_report(report: StatusReport) -> CommitStatus:
    """Return the status that one report amounts to."""
    line = report.message or f"{report.sync}, {report.health}"
    if report.sync in FAILED or (report.sync == "Synced" and report.health == "Degraded"):
        return CommitStatus(CommitState.FAILURE, line)
    if report.sync != "Synced" or report.health in MOVING:
        return CommitStatus(CommitState.PENDING, line)
    return CommitStatus(CommitState.SUCCESS, line)


TRIES = 4
SECONDS = 15.0
SETTLE = 1.0  # seconds in which a stack may change again
SIGNATURE = "X-Fleet-Signature-256"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Notifier:
    """Notifier of one repository: `tell` takes reports; `run` delivers."""

    origin: FollowedRepository
    options: ServeOptions
    current: CurrentCommit
    counted: Counter
    _reports: dict[str, dict[str, StatusReport]] = field(default_factory=dict)  # stack → cluster → newest
    _changed: set[str] = field(default_factory=set)  # stacks
    _moved: set[str] = field(default_factory=set)  # stacks that this commit changed
    _said: dict[str, CommitStatus] = field(default_factory=dict)  # by context, of the newest commit
    _revision: str = ""
    _turns: list[dict[str, Any]] = field(default_factory=list)
    _call: asyncio.Event = field(default_factory=asyncio.Event)
    _warned: str = ""

    def tell(self, reports: list[StatusReport], *, moved: bool) -> None:
        """Take reports of passes and agents.

        `moved`: they are about what was done or observed, not only about a commit that changes nothing of these stacks.
        """
        for report in reports:
            newest = self._reports.setdefault(report.stack, {})
            before = newest.get(report.cluster)
            newest[report.cluster] = report
            if report.revision != self._revision:
                self._revision, self._said, self._moved = report.revision, {}, set()
            if moved and before is not None and (before.revision != report.revision or before.sync == "Waiting"):
                self._moved.add(report.stack)
            if before is None or (before.sync, before.health) == (report.sync, report.health):
                continue
            self._moved.add(report.stack)
            self._turns.append(_health_change(str(self.origin), before, report))
        self._changed.update(report.stack for report in reports)
        self._call.set()

    def announce(self, reports: list[StatusReport]) -> None:
        """Notify although nothing changed: what the reports say is new."""
        self._turns += [_health_change(str(self.origin), report, report) for report in reports]
        self._call.set()

    def forget(self, stack: str, cluster: str) -> None:
        self._reports.get(stack, {}).pop(cluster, None)

    async def run(self) -> None:
        while True:
            await self._call.wait()
            await asyncio.sleep(SETTLE)
            self._call.clear()
            turns, self._turns = self._turns, []
            if turns and self.options.notify:
                await self._notify(turns)
            changed, self._changed = self._changed & self._moved, set()
            if changed and self.options.forge:
                await self._post(sorted(changed))

    async def _notify(self, turns: list[dict[str, Any]]) -> None:
        """Post a notification, and try again a few times."""
        body = orjson.dumps({"schema": "fleet.dev/notification/v1", "turns": turns})
        headers = {"Content-Type": "application/json", "User-Agent": "fleet-serve"}
        if secret := self.options.notify_secret:  # it signs as GitHub signs webhooks
            digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE] = f"sha256={digest}"
        reason = ""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
            for attempt in range(TRIES):
                try:
                    async with session.post(
                        self.options.notify, data=body, headers=headers, allow_redirects=False
                    ) as answer:
                        if answer.status < 300:
                            self.counted.labels("notification", "ok").inc()
                            return
                        reason = f"HTTP {answer.status}"
                except (aiohttp.ClientError, TimeoutError) as problem:
                    reason = str(problem) or type(problem).__name__
                await asyncio.sleep(2.0**attempt)
        self.counted.labels("notification", "failed").inc()
        log.warning("a notification of %d turns was not delivered: %s", len(turns), reason)

    async def _post(self, stacks: list[str]) -> None:
        """Set the commit statuses of some stacks that differ from those on the forge."""
        current = self.current.evaluated
        if current is None:
            return
        try:
            repository = detect_repository(self.origin.url, current.files.repository.settings.forge)
            async with connect(repository, read_token(repository, self.options.scope.environment(os.environ))) as forge:
                for stack in stacks:
                    for context, status in commit_statuses(stack, self._reports.get(stack, {}), self._said).items():
                        if self._said.get(context) != status:
                            await forge.set_status(self._revision, context, status.state, status.line)
                            self._said[context] = status
                            self.counted.labels("status", "ok").inc()
        except FleetError as problem:
            self.counted.labels("status", "failed").inc()
            if problem.message != self._warned:
                self._warned = problem.message
                log.warning("no commit statuses for %s: %s", self.origin, problem.message)


def _health_change(repository: str, before: StatusReport, after: StatusReport) -> dict[str, Any]:
    """Return a change of health as a notification has it."""
    return {
        "repository": repository,
        "stack": after.stack,
        "cluster": after.cluster,
        "revision": after.revision,
        "sync": after.sync,
        "health": after.health,
        "before": {"sync": before.sync, "health": before.health},
        "message": after.message,
    }
