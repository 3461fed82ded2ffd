"""What a counter of Prometheus' library has counted."""

from __future__ import annotations

from fleet.kube.runtime.metrics import Counter


def counts(counter: Counter) -> dict[tuple[str, ...], float]:
    """Return the count for each set of label values that was counted."""
    samples = [sample for metric in counter.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return {tuple(sample.labels.values()): sample.value for sample in samples}
