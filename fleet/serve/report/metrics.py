"""Reports of a change in three places at once: a line of the log, an event in the cluster, a number in the metrics.

Only changes are reported: a stack that is as it was reports nothing, however often it is synced.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable

from fleet.forge.forge import CommitState
from fleet.kube.client.client import Client
from fleet.kube.resources import NAMESPACE
from fleet.kube.runtime.events import Recorder
from fleet.kube.runtime.metrics import SECONDS, Collector, Counter, Histogram, Labels, ReadMetric, begin_series
from fleet.sync.result import Result

log = logging.getLogger(__name__)
CONTROLLER = "fleet-serve"
OUTCOMES = ("ok", "failed")
SYNC_WORDS = ("Synced", "Unreachable", "Drifted", "Waiting", "Conflict", "Failed")  # of `sync_word`
HOOK_OUTCOMES = ("heard", "ignored", "refused", "unreadable", "unknown")
ROLLBACK_OUTCOMES = ("pushed", "proposed", "stopped", "over", "failed")
STACK: Labels = ("repository", "stack", "cluster")


class Metrics:
    """Metrics of all repositories of a process."""

    def __init__(self) -> None:
        self.fetches = _counter("fleet_fetches_total", "Looks at a repository, by outcome.", "repository", "result")
        self.evaluated = _counter("fleet_evaluated_stacks_total", "Stacks that were evaluated.", "repository")
        self.passes = _counter("fleet_passes_total", "Looks at a stack in a cluster.", "repository", "result")
        self.seconds = _histogram("fleet_pass_seconds", "Time of a pass.", "repository")
        self.lag = _histogram("fleet_commit_to_applied_seconds", "From a commit to its last apply.", "repository")
        self.writes = _counter("fleet_applied_objects_total", "Objects that were written or deleted.", "repository")
        self.repairs = _counter("fleet_drift_repairs_total", "Objects that were put back as git says.", "repository")
        self.told = _counter("fleet_status_writes_total", "Writes of health into git.", "repository", "result")
        self.hooks = _counter("fleet_webhooks_total", "Webhooks that came, by outcome.", "result")
        self.outside = _counter("fleet_told_total", "Commit statuses and notifications.", "what", "result")
        self.previews = _counter("fleet_previews_total", "Previews of pull requests.", "repository", "result")
        self.rollbacks = _counter("fleet_rollbacks_total", "Stacks taken back by themselves.", "repository", "result")
        self.gauges: list[ReadMetric] = []
        begin_series(self.hooks, *((outcome,) for outcome in HOOK_OUTCOMES))
        begin_series(self.outside, *((what, result) for what in ("notification", "status") for result in OUTCOMES))

    def begin_repository(self, name: str) -> None:
        """Make the series of a repository, at 0."""
        for metric in (self.evaluated, self.seconds, self.lag, self.writes, self.repairs):
            begin_series(metric, (name,))
        begin_series(self.fetches, *((name, result) for result in ("new", "same", "failed")))
        begin_series(self.told, *((name, result) for result in OUTCOMES))
        begin_series(self.passes, *((name, word) for word in SYNC_WORDS))
        begin_series(self.previews, *((name, str(state)) for state in CommitState), (name, "failed"))
        begin_series(self.rollbacks, *((name, outcome) for outcome in ROLLBACK_OUTCOMES))

    def all(self) -> list[Collector]:
        """Return every metric, in the order of the reference page."""
        counted = (self.fetches, self.evaluated, self.passes, self.seconds, self.lag, self.writes, self.repairs)
        return [*counted, self.told, self.hooks, self.outside, self.previews, self.rollbacks, *self.gauges]


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=None)


def _histogram(name: str, text: str, *labels: str) -> Histogram:
    return Histogram(name, text, labels, buckets=SECONDS, registry=None)


class HealthLog:
    """Last result of every stack in every cluster."""

    def __init__(self, repository: str) -> None:
        self._repository = repository
        self._last: dict[tuple[str, str], tuple[str, str, str]] = {}

    def health(self) -> Iterable[tuple[Labels, float]]:
        return [((self._repository, *pair, state), 1.0) for pair, (_, state, _) in sorted(self._last.items()) if state]

    def forget(self, pair: tuple[str, str]) -> None:
        self._last.pop(pair, None)

    def turn(self, word: str, result: Result, revision: str) -> bool:
        """Log a result if it differs from the last one; return whether it does."""
        pair, error = (result.stack, result.cluster), result.problem or result.unhealthy
        now = (word, result.health, error.message if error else "")
        before = self._last.get(pair)
        self._last[pair] = now
        done = any(verb.writes for verb in result.done)
        if not done and (before == now or (before is None and not error)):
            return False  # nor is the first sync of a stack that is as it should be reported
        level = logging.WARNING if error or result.health in ("Degraded", "Missing") else logging.INFO
        about = {"repository": self._repository, "stack": pair[0], "cluster": pair[1], "revision": revision[:12]}
        unhealthy = next(
            (obj for obj in result.objects if obj.state == result.health != "Healthy" and obj.message), None
        )
        detail = f": {error.message}" if error else f": {unhealthy.title}: {unhealthy.message}" if unhealthy else ""
        log.log(
            level,
            "%s on %s: %s, %s, %s%s",
            *pair,
            word,
            result.words,
            result.health,
            detail,
            extra={**about, "sync": word, "health": result.health},
        )
        return True


def recorder(client: Client) -> Recorder:
    """Return a recorder of events in a cluster, named after this process."""
    return Recorder(client, CONTROLLER, f"{socket.gethostname()}_{os.getpid()}")


def tell_cluster(events: Recorder, result: Result, word: str) -> None:
    """Record an event on the stack's inventory, which is where users look for what fleet did in a cluster."""
    error = result.problem or result.unhealthy
    note = f"{result.words}, {result.health}" + (f": {error.message}" if error else "")
    events.record(_inventory(result.stack), word, note, action="Sync", warning=error is not None)


def tell_rollback(events: Recorder, stack: str, outcome: str, note: str) -> None:
    """Record an event about a stack that was rolled back, or could not be."""
    reason = {"pushed": "RolledBack", "proposed": "RollbackProposed"}.get(outcome, "NotRolledBack")
    events.record(_inventory(stack), reason, note, action="Rollback", warning=True)


def _inventory(stack: str) -> dict[str, object]:
    """Return the reference to the inventory of a stack."""
    metadata = {"name": f"{stack}.inventory.0", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
