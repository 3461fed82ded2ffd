"""Metrics of controllers and of the service, in Prometheus' own client library. The names are controller-runtime's.

Dashboards and alerts written for operators in Go work as they are. Counters and histograms are the library's; values
that a queue or a service has anyway are read when Prometheus asks, by `ReadMetric`. Only processes that serve metrics
load this module: the library takes 70 ms to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = [
    "SECONDS",
    "WAITS",
    "Collector",
    "Counter",
    "Histogram",
    "Labels",
    "ReadMetric",
    "begin_series",
    "exposition",
]

Labels = tuple[str, ...]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
WAITS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)


class ReadMetric(Collector):
    """A metric whose values are read when Prometheus asks: `read` returns the value for each set of labels."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Labels,
        read: Callable[[], Iterable[tuple[Labels, float]]],
        *,
        kind: Literal["counter", "gauge"] = "gauge",
    ) -> None:
        self.name, self.text, self.labels, self.kind = name, text, labels, kind
        self._read = read

    def collect(self) -> Iterator[Metric]:
        family = (CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily)(
            self.name, self.text, labels=self.labels
        )
        for values, number in self._read():
            family.add_metric(values, number)
        yield family


def begin_series(metric: Counter | Histogram, *values: Labels) -> None:
    """Make a series at 0 for each set of label values: `rate()` then sees the increase by a first event as well."""
    for labels in values:
        metric.labels(*labels)


def exposition(collectors: Iterable[Collector]) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_WithoutCreated(tuple(collectors)))
    return generate_latest(registry)


class _WithoutCreated(Collector):
    """Collectors without the library's second series per metric, its creation time: controller-runtime has none."""

    def __init__(self, collectors: tuple[Collector, ...]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            for metric in collector.collect():
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
                yield metric
