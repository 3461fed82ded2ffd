"""Services from inside a cluster: by the same URL as on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from fleet.lab.images.recipes import find_recipes
from fleet.testing import S3, Cluster, Forge
from fleet.testing.s3 import Key, sign_request
from tests.lab.services.test_forge import pushed

pytestmark = pytest.mark.real_nodes

# With nothing but the standard library of Python, as the pods of a user may have nothing else either.
SEND = """
import json, ssl, sys, urllib.request
certificate, requests = json.load(sys.stdin)
trust = ssl.create_default_context(cadata=certificate)
for method, url, headers, body in requests:
    request = urllib.request.Request(url, body.encode() or None, headers, method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=30, context=trust)
    except urllib.error.HTTPError as refused:
        answer = refused
    print(json.dumps([answer.status, answer.read().decode(), answer.headers.get("ETag", "")]))
"""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: str
    tag: str


@pytest.fixture
def pod(real_cluster: Cluster) -> Cluster:
    """A cluster with a pod `client` that has Python and nothing to do."""
    real_cluster.images("fleet-operator")
    command = ["python3", "-c", "import time; time.sleep(3600)"]
    container = {"name": "client", "image": find_recipes("fleet-operator")[0].reference, "command": command}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    real_cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec})
    real_cluster.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
    return real_cluster


def send(
    pod: Cluster, *requests: tuple[str, str, dict[str, str], str], certificate: Path | None = None
) -> list[Answer]:
    """Have the pod send requests; returns what was answered. `certificate` is of the authority that it trusts."""
    text = orjson.dumps([certificate.read_text() if certificate else None, requests]).decode()
    said = pod.kubectl("exec", "-i", "client", "--", "python3", "-c", SEND, input=text, timeout=60)
    return [Answer(*orjson.loads(line)) for line in said.splitlines()]


def test_a_pod_reads_a_repository_of_the_forge(pod: Cluster, forge: Forge, tmp_path: Path) -> None:
    repository = forge.repository("shop", private=True)
    pushed(repository, tmp_path / "clone")
    token = {"Authorization": f"token {forge.user.token}"}
    raw = f"{forge.url}/api/v1/repos/{forge.user.name}/shop/raw/README.md"
    references = f"{repository.url}/info/refs?service=git-upload-pack"  # what `git clone` asks first
    file, advertised = send(pod, ("GET", raw, token, ""), ("GET", references, token, ""), certificate=forge.certificate)
    assert file.body == "# Shop\n"
    assert "refs/heads/main" in advertised.body


def request(
    s3: S3, method: str, place: str, body: str = "", key: Key | None = None
) -> tuple[str, str, dict[str, str], str]:
    """A request about something in the test's bucket, signed with the test's key if there is no other."""
    url, now = f"{s3.url}/{s3.bucket.name}/{place}", datetime.now(UTC)
    return method, url, sign_request(method, url, key or s3.key, region=s3.region, moment=now, body=body.encode()), body


def test_a_pod_writes_to_a_bucket_what_this_machine_reads(pod: Cluster, s3: S3) -> None:
    put, got = send(pod, request(s3, "PUT", "from-a-pod", "kept"), request(s3, "GET", "from-a-pod"))
    assert put.status == 200
    assert got.body == "kept"
    assert s3.bucket.get("from-a-pod") == b"kept"


def test_a_pod_uploads_in_parts(pod: Cluster, s3: S3) -> None:
    [begun] = send(pod, request(s3, "POST", "large?uploads="))
    upload = begun.body.partition("<UploadId>")[2].partition("<")[0]
    parts = ["a" * 5 * MIB, "the rest"]
    sent = send(pod, *(request(s3, "PUT", f"large?partNumber={i}&uploadId={upload}", parts[i - 1]) for i in (1, 2)))
    done = "".join(f"<Part><PartNumber>{i}</PartNumber><ETag>{sent[i - 1].tag}</ETag></Part>" for i in (1, 2))
    complete = f"<CompleteMultipartUpload>{done}</CompleteMultipartUpload>"
    [completed] = send(pod, request(s3, "POST", f"large?uploadId={upload}", complete))
    assert completed.status == 200, completed.body
    assert s3.bucket.get("large") == "".join(parts).encode()
    assert s3.bucket.uploads() == []


def test_a_pod_with_a_wrong_key_is_refused(pod: Cluster, s3: S3) -> None:
    s3.bucket.put("secret", b"kept")
    wrong = Key(s3.key.access, "wrong")
    read, write = send(pod, request(s3, "GET", "secret", key=wrong), request(s3, "PUT", "secret", "lost", key=wrong))
    assert [read.status, write.status] == [403, 403]
    assert "SignatureDoesNotMatch" in read.body
    assert s3.bucket.get("secret") == b"kept"
