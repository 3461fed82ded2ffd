"""Services from inside a cluster: by the same URL as on this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from fleet.lab.images.recipes import find
from fleet.testing import S3, Cluster, Forge
from fleet.testing.sigv4 import signed
from tests.lab.services.test_forge import pushed

pytestmark = pytest.mark.real_nodes

# With nothing but the standard library of Python, as the pods of a user may have nothing else either.
SEND = """
import json, sys, urllib.request
for method, url, headers, body in json.load(sys.stdin):
    request = urllib.request.Request(url, body.encode() or None, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(json.dumps(answer.read().decode()))
"""


@pytest.fixture
def pod(real_cluster: Cluster) -> Cluster:
    """A cluster with a pod `client` that has Python and nothing to do."""
    real_cluster.images("fleet-operator")
    command = ["python3", "-c", "import time; time.sleep(3600)"]
    container = {"name": "client", "image": find("fleet-operator")[0].reference, "command": command}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    real_cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec})
    real_cluster.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
    return real_cluster


def send(pod: Cluster, *requests: tuple[str, str, dict[str, str], str]) -> list[str]:
    """Have the pod send requests; returns what was answered."""
    text = orjson.dumps(requests).decode()
    said = pod.kubectl("exec", "-i", "client", "--", "python3", "-c", SEND, input=text, timeout=60)
    return [orjson.loads(line) for line in said.splitlines()]


def test_a_pod_reads_a_repository_of_the_forge(pod: Cluster, forge: Forge, tmp_path: Path) -> None:
    repository = forge.repository("shop", private=True)
    pushed(repository, tmp_path / "clone")
    token = {"Authorization": f"token {forge.user.token}"}
    raw = f"{forge.url}/api/v1/repos/{forge.user.name}/shop/raw/README.md"
    references = f"{repository.url}/info/refs?service=git-upload-pack"  # what `git clone` asks first
    file, advertised = send(pod, ("GET", raw, token, ""), ("GET", references, token, ""))
    assert file == "# Shop\n"
    assert "refs/heads/main" in advertised


def test_a_pod_writes_to_a_bucket_what_this_machine_reads(pod: Cluster, s3: S3) -> None:
    url = f"{s3.url}/{s3.bucket.name}/from-a-pod"
    now = datetime.now(UTC)
    write = signed("PUT", url, s3.key, region=s3.region, moment=now, body=b"kept")
    read = signed("GET", url, s3.key, region=s3.region, moment=now)
    assert send(pod, ("PUT", url, write, "kept"), ("GET", url, read, "")) == ["", "kept"]
    assert s3.bucket.get("from-a-pod") == b"kept"
