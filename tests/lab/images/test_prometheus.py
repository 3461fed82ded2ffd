"""Prometheus of two versions: they scrape themselves and answer queries."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.lab.images.http import ask
from tests.lab.images.pods import engine, start

pytestmark = pytest.mark.real_nodes
IMAGES = ("prometheus:2.42", "prometheus:2.53")
CONFIGURATION = """
global: {scrape_interval: 1s}
scrape_configs:
- job_name: itself
  static_configs: [{targets: ["localhost:9090"]}]
"""


def test_each_scrapes_itself_and_answers_queries(real_cluster: Cluster) -> None:
    real_cluster.images(*IMAGES)
    for image in IMAGES:
        files = {"/etc/prometheus": {"prometheus.yml": CONFIGURATION}}
        real_cluster.apply(*engine(image, port=9090, configuration=files))
    for image, address in start(real_cluster, *IMAGES).items():

        def up(address: str = address) -> bool:
            answer = ask(f"http://{address}:9090/api/v1/query?query=up")
            return [one["value"][1] for one in answer["data"]["result"]] == ["1"]

        real_cluster.wait(f"{image} has scraped itself", up)
        built = ask(f"http://{address}:9090/api/v1/query?query=prometheus_build_info")["data"]["result"]
        assert built[0]["metric"]["version"].startswith(image.partition(":")[2] + ".")
