"""Metrics of a service: what is there before anything happened."""

from __future__ import annotations

import re

import pytest

from fleet.kube.runtime.metrics import exposition
from fleet.serve.report.metrics import Metrics
from tests.docs.document import ROOT


@pytest.mark.parametrize(
    "series",
    [
        'fleet_rollbacks_total{repository="shop",result="pushed"}',
        'fleet_passes_total{repository="shop",result="Failed"}',
        'fleet_previews_total{repository="shop",result="failed"}',
        'fleet_webhooks_total{result="unknown"}',
        'fleet_told_total{result="failed",what="status"}',
    ],
)
def test_a_series_begins_at_0_so_that_an_increase_by_the_first_event_is_seen(series: str) -> None:
    metrics = Metrics()
    metrics.begin_repository("shop")
    assert f"{series} 0.0" in exposition(metrics.all()).decode().splitlines()


def test_what_an_alert_waits_for_the_increase_of_is_there_before_it_happens() -> None:
    metrics = Metrics()
    metrics.begin_repository("shop")
    names = {line.partition("{")[0] for line in exposition(metrics.all()).decode().splitlines() if line[0] != "#"}
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    awaited = set(re.findall(r"(?:increase|rate)\((fleet_\w+_total)", page))
    assert awaited and awaited <= names
