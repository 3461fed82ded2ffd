"""OpenSearch, one node: a document goes in and a search finds it."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.lab.images.http import ask
from tests.lab.images.pods import engine, start

pytestmark = pytest.mark.real_nodes
OPENSEARCH = "opensearch:3.3"
SETTINGS = {"discovery.type": "single-node", "network.host": "0.0.0.0", "node.store.allow_mmap": "false"}
SMALL = "-Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def test_a_document_goes_in_and_a_search_finds_it(real_cluster: Cluster) -> None:
    real_cluster.images(OPENSEARCH)
    options = [f"-E{name}={value}" for name, value in SETTINGS.items()]
    environment = {"JDK_JAVA_OPTIONS": SMALL}
    real_cluster.apply(
        *engine(OPENSEARCH, port=9200, command=["opensearch", *options], environment=environment, memory="1500Mi")
    )
    url = f"http://{start(real_cluster, OPENSEARCH)[OPENSEARCH]}:9200"
    assert ask(url)["version"]["number"].startswith("3.3.")
    written = ask(f"{url}/apples/_doc/1?refresh=true", {"colour": "The reddest of apples"}, method="PUT")
    assert written["result"] == "created"
    found = ask(f"{url}/apples/_search", {"query": {"match": {"colour": "REDDEST"}}})
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ["1"]
    assert ask(f"{url}/_analyze", {"analyzer": "english", "text": "apples"})["tokens"][0]["token"] == "appl"
    assert ask(f"{url}/_cluster/health")["number_of_nodes"] == 1
