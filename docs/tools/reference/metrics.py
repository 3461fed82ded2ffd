"""What /metrics of the service and of the operator say: names, kinds, labels and helps as the programs have them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fleet.kube.runtime.guard import GuardedClient
from fleet.kube.runtime.metrics import ReadMetric
from fleet.kube.runtime.outcome import Instruments
from fleet.serve.options import ServeOptions
from fleet.serve.process import ServeProcess


def metrics() -> str:
    parts = [
        "# Metrics",
        "",
        "In Prometheus' text format, at `/metrics`. What to watch: [metrics and alerts](../how-to/alerts.md).",
        "",
        "## Of the service and of agents",
        "",
        "`fleet serve --listen :8080`, `fleet agent --listen :8080`, and what their manifests run.",
        "",
        *_table(of_service()),
        "",
        "## Of the operator",
        "",
        "On port 8080 of its pods; with `fleet operator run`, where `--metrics` says. The names are those of"
        " controller-runtime, so dashboards and alerts for operators in Go work as they are.",
        "",
        *_table(of_operator()),
        "",
        "A histogram NAME is the series `NAME_bucket` (with the label `le`), `NAME_sum` and `NAME_count`.",
    ]
    return "\n".join(parts)


def of_service() -> list[Any]:
    program = ServeProcess((), ServeOptions(None, Path()))
    program._measure()
    return program.metrics.all()


def of_operator() -> list[Any]:
    return [*Instruments({}, {}, lambda: False).all(), GuardedClient().sent]


class Described(NamedTuple):
    """A metric as the page shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def describe(collector: Any) -> Described:
    """Return the name, kind, labels and help of a metric."""
    (metric,) = collector.collect()
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = collector.labels if isinstance(collector, ReadMetric) else collector._labelnames
    return Described(name, metric.type, tuple(labels), metric.documentation)


def _table(collectors: Iterable[Any]) -> list[str]:
    rows = ["| name | kind | labels | meaning |", "|---|---|---|---|"]
    for described in map(describe, collectors):
        labels = ", ".join(f"`{label}`" for label in described.labels)
        rows.append(f"| `{described.name}` | {described.kind} | {labels} | {described.text} |")
    return rows
