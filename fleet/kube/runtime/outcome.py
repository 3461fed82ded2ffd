"""Outcomes of a reconcile, what follows from each, and their metrics.

`classify` is the one place that decides what follows; it is pure. `Instruments` measures under the names that
controller-runtime gave; gauges are read when Prometheus asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fleet.errors import ConflictError
from fleet.kube.runtime.guard import NotLeadingError
from fleet.kube.runtime.metrics import (
    SECONDS,
    WAITS,
    Collector,
    Counter,
    Histogram,
    Labels,
    ReadMetric,
    begin_series,
)
from fleet.kube.runtime.queue import Item, Queue


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a pass that went well. With `requeue_after`, there is another in so many seconds (0: at once)."""

    requeue_after: float | None = None


class TerminalError(Exception):
    """Error for a pass that need not be tried again until the object changes."""


class Requeue(Enum):
    """When the key of a pass that ended comes again."""

    WAIT = "until something changes"
    AFTER = "again after the time it asked for"
    BACK_OFF = "again, later with each failure"
    DROP = "never: another process leads"


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """What follows from the end of a pass."""

    label: str  # of controller_runtime_reconcile_total
    then: Requeue
    after: float = 0.0
    says: str = ""  # message for the log; "" is not logged


def classify(ended: Result | BaseException | None, seconds: float) -> ReconcileOutcome:
    """Return what follows from a pass that returned or raised `ended`; `seconds` is the time that it was given."""
    match ended:
        case None | Result(requeue_after=None):
            return ReconcileOutcome("success", Requeue.WAIT)
        case Result(requeue_after=float() | int() as after):
            return ReconcileOutcome("requeue_after", Requeue.AFTER, after=after)
        case NotLeadingError():
            return ReconcileOutcome("error", Requeue.DROP)
        case TerminalError():
            return ReconcileOutcome("error", Requeue.WAIT, says=f"will not be tried again until it changes: {ended}")
        case TimeoutError():
            return ReconcileOutcome("error", Requeue.BACK_OFF, says=f"did not end within {seconds:g} s")
        case ConflictError():
            return ReconcileOutcome("error", Requeue.BACK_OFF, says=f"somebody else was quicker: {ended}")
        case _:
            return ReconcileOutcome("error", Requeue.BACK_OFF, says=str(ended) or type(ended).__name__)


LABELS = ("success", "requeue_after", "error")  # of an outcome
ONE: Labels = ("controller",)
QUEUE: Labels = ("controller", "name")


class Instruments:
    """All metrics of an operator; `queues` maps controllers to their queues."""

    def __init__(
        self,
        queues: Mapping[str, Queue[Any]],
        workers: Mapping[str, int],
        leads: Callable[[], bool],
        watched: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        self.passes = Counter(
            "controller_runtime_reconcile_total",
            "Passes by controller and result.",
            ("controller", "result"),
            registry=None,
        )
        self.errors = Counter("controller_runtime_reconcile_errors_total", "Passes that failed.", ONE, registry=None)
        self.terminal = Counter(
            "controller_runtime_terminal_reconcile_errors_total", "Passes that failed for good.", ONE, registry=None
        )
        self.timeouts = Counter(
            "controller_runtime_reconcile_timeouts_total", "Passes that took too long.", ONE, registry=None
        )
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds", "Time of a pass.", ONE, buckets=SECONDS, registry=None
        )
        self.waited = Histogram(
            "workqueue_queue_duration_seconds", "Time in the queue.", QUEUE, buckets=WAITS, registry=None
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds", "Time with a worker.", QUEUE, buckets=WAITS, registry=None
        )
        self._gauges = [
            *_gauges(queues, workers, leads),
            ReadMetric(
                "fleet_operator_kind_watched",
                "1 while all objects of a kind are seen; 0: nothing is done about them.",
                ("kind",),
                lambda: [((kind,), float(is_watched)) for kind, is_watched in watched().items()],
            ),
        ]

        for name in queues:
            begin_series(self.passes, *((name, label) for label in LABELS))
            for metric in (self.errors, self.terminal, self.timeouts, self.seconds):
                begin_series(metric, (name,))
            for waits in (self.waited, self.worked):
                begin_series(waits, (name, name))

    def saw(self, controller: str, item: Item[Any], ended: Any, verdict: ReconcileOutcome, seconds: float) -> None:
        """Count one pass."""
        self.passes.labels(controller, verdict.label).inc()
        if verdict.label == "error":
            self.errors.labels(controller).inc()
        if isinstance(ended, TerminalError):
            self.terminal.labels(controller).inc()
        if isinstance(ended, TimeoutError):
            self.timeouts.labels(controller).inc()
        self.seconds.labels(controller).observe(seconds)
        self.waited.labels(controller, controller).observe(item.waited)
        self.worked.labels(controller, controller).observe(seconds)

    def all(self) -> list[Collector]:
        """Return the metrics, for `exposition`."""
        own = (self.passes, self.errors, self.terminal, self.timeouts, self.seconds, self.waited, self.worked)
        return [*own, *self._gauges]


def _gauges(
    queues: Mapping[str, Queue[Any]], workers: Mapping[str, int], leads: Callable[[], bool]
) -> Iterator[Collector]:
    """Make the metrics that are read from queues and workers when Prometheus asks."""

    def each(read: Callable[[Queue[Any]], float]) -> Callable[[], list[tuple[Labels, float]]]:
        return lambda: [((name, name), read(queue)) for name, queue in queues.items()]

    def depths() -> list[tuple[Labels, float]]:
        return [
            ((name, name, str(priority)), float(count))
            for name, queue in queues.items()
            for priority, count in queue.depth().items()
        ]

    yield ReadMetric("workqueue_depth", "Keys that wait for a worker.", (*QUEUE, "priority"), depths)
    yield ReadMetric("workqueue_adds_total", "Keys put in.", QUEUE, each(lambda q: q.adds), kind="counter")
    yield ReadMetric(
        "workqueue_retries_total", "Keys put in after failures.", QUEUE, each(lambda q: q.retries), kind="counter"
    )
    yield ReadMetric(
        "workqueue_unfinished_work_seconds", "Time of all passes under way.", QUEUE, each(lambda q: sum(q.running()))
    )
    yield ReadMetric(
        "workqueue_longest_running_processor_seconds",
        "Time of the longest pass under way.",
        QUEUE,
        each(lambda q: max(q.running(), default=0.0)),
    )
    yield ReadMetric(
        "controller_runtime_active_workers",
        "Workers that have a key.",
        ONE,
        lambda: [((name,), float(len(queue.running()))) for name, queue in queues.items()],
    )
    yield ReadMetric(
        "controller_runtime_max_concurrent_reconciles",
        "Workers.",
        ONE,
        lambda: [((name,), float(number)) for name, number in workers.items()],
    )
    yield ReadMetric(
        "leader_election_master_status", "1 while this process leads.", (), lambda: [((), 1.0 if leads() else 0.0)]
    )
