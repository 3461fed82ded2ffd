"""Counters, gauges and histograms, and their text for Prometheus. The names are controller-runtime's.

Dashboards and alerts written for operators in Go work as they are. Written here because it is a screenful: a client
library would be one more dependency in every image.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

Labels = tuple[str, ...]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
WAITS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)


class Metric(Protocol):
    def lines(self) -> Iterator[str]: ...


class Counter:
    """Counts by label values; `add("ok", by=2)`."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:  # noqa: A002 - Prometheus' word
        self.name, self.help, self.labels = name, help, labels
        self.values: dict[Labels, float] = {}

    def add(self, *values: str, by: float = 1) -> None:
        self.values[values] = self.values.get(values, 0) + by

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, self.kind)
        for values, number in sorted(self.values.items()):
            yield f"{self.name}{_labels(self.labels, values)} {number:g}"


class Gauge(Counter):
    """Asked for when it is read: `read` gives the values of all labels."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002
        labels: Labels,
        read: Callable[[], Iterable[tuple[Labels, float]]],
        *,
        kind: str = "gauge",
    ) -> None:
        super().__init__(name, help, labels)
        self.kind = kind
        self._read = read

    def lines(self) -> Iterator[str]:
        self.values = dict(self._read())
        return super().lines()


class Histogram:
    """How often how much, by label values."""

    def __init__(self, name: str, help: str, labels: Labels, buckets: tuple[float, ...] = SECONDS) -> None:  # noqa: A002
        self.name, self.help, self.labels, self.buckets = name, help, labels, buckets
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, amount: float, *values: str) -> None:
        counts = self._counts.setdefault(values, [0] * (len(self.buckets) + 1))
        counts[bisect.bisect_left(self.buckets, amount)] += 1
        self._sums[values] = self._sums.get(values, 0.0) + amount

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "histogram")
        for values, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*self.buckets, float("inf")), counts, strict=True):
                total += count
                limit = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield f"{self.name}_bucket{_labels((*self.labels, 'le'), (*values, limit))} {total}"
            labels = _labels(self.labels, values)
            yield f"{self.name}_sum{labels} {self._sums[values]:g}"
            yield f"{self.name}_count{labels} {total}"


def exposition(metrics: Iterable[Metric]) -> str:
    """Text format 0.0.4."""
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _head(name: str, help: str, kind: str) -> Iterator[str]:  # noqa: A002
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
