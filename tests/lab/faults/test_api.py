"""What clients of an API server meet while it has a fault, and that all is as before afterwards."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.lab.faults.api import ports
from fleet.lab.programs import process
from fleet.testing import Cluster
from fleet.testing.faults import Broken, Faults
from fleet.testing.proxy import Match

MAPS = Match(resource="configmaps")
OWNER = """
import sys, time
from fleet.lab.lab import Lab
from fleet.testing import Cluster
from fleet.testing.faults import Faults
from fleet.testing.proxy import Match
faults = Faults(Cluster(Lab.open(sys.argv[1]), sys.argv[2], sys.argv[3]))
faults.api.fail(429, Match(resource="configmaps"))
print("broken", flush=True)
time.sleep(600)
"""


@pytest.fixture
def broken(cluster: Cluster) -> Iterator[Faults]:
    """Faults of a cluster with simulated nodes: an API server is one with these, too."""
    faults = Faults(cluster)
    yield faults
    faults.clear()
    assert not is_shared(cluster)


def is_shared(cluster: Cluster) -> bool:
    """Whether anybody but the API server listens at its port."""
    spec = cluster.lab.spec.cluster(cluster.name)
    return ports.count_listeners(spec.address, spec.ports["kube-apiserver"], None) != 1


class Connection:
    """One connection to the API server, kept for many requests; with the admin's certificate if `known`."""

    def __init__(self, cluster: Cluster, *, known: bool = True) -> None:
        plane = cluster.lab.plane(cluster.lab.spec.cluster(cluster.name))
        context = ssl.create_default_context(cafile=str(plane.authority.certificate_file))
        if known:
            context.load_cert_chain(*plane.authority.issue("admin", "admin"))
        spec = plane.spec
        self._connection = http.client.HTTPSConnection(spec.address, spec.ports["kube-apiserver"], context=context)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any, dict[str, str]]:
        self._connection.request("GET", path, headers=headers or {})
        answer = self._connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body), dict(answer.headers)

    def lines(self, path: str) -> Iterator[Any]:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)


def maps(cluster: Cluster) -> str:
    return f"/api/v1/namespaces/{cluster.namespace}/configmaps"


@pytest.mark.parametrize(
    ("status", "words"), [(429, "(TooManyRequests)"), (500, "(InternalError)"), (410, "(Expired)")]
)
def test_kubectl_is_answered_with_an_error_until_it_is_cleared(
    cluster: Cluster, broken: Faults, status: int, words: str
) -> None:
    with broken.api.fail(status, MAPS):
        with pytest.raises(ResourceError) as raised:
            cluster.kubectl("get", "configmaps")
        assert words in str(raised.value)
        cluster.kubectl("get", "secrets")
    cluster.kubectl("get", "configmaps")


def test_a_share_of_requests_is_refused_with_the_time_to_come_again(cluster: Cluster, broken: Faults) -> None:
    with broken.api.fail(429, MAPS, share=0.4, retry_after=7):
        client = Connection(cluster)
        answers = [client.get(maps(cluster)) for _ in range(100)]
    counted = Counter(status for status, _, _ in answers)
    assert counted.keys() == {200, 429} and 20 < counted[429] < 60
    assert {headers["Retry-After"] for status, _, headers in answers if status == 429} == {"7"}


def test_a_slow_server_is_as_slow_as_was_said_and_two_faults_add_up(cluster: Cluster, broken: Faults) -> None:
    def seconds() -> float:
        """The best of some: a busy machine adds to it, and takes nothing away."""
        found = []
        for _ in range(3):
            begun = time.monotonic()
            Connection(cluster).get(maps(cluster))
            found.append(time.monotonic() - begun)
        return min(found)

    cluster.wait("it is quick", lambda: seconds() < 0.4, 30)
    with broken.api.slow(0.4, MAPS):
        assert seconds() >= 0.4
        cluster.wait("it is slow once", lambda: seconds() < 0.8, 30)
        with broken.api.slow(0.4, MAPS):
            assert seconds() >= 0.8
        cluster.wait("it is slow once again", lambda: seconds() < 0.8, 30)
        assert seconds() >= 0.4
    cluster.wait("it is quick again", lambda: seconds() < 0.4, 30)


def test_a_watch_hears_410_in_its_stream(cluster: Cluster, broken: Faults) -> None:
    with broken.api.forget(MAPS, after_events=1):
        cluster.kubectl("create", "configmap", "first", "--from-literal=a=b")
        events = list(Connection(cluster).lines(f"{maps(cluster)}?watch=1&resourceVersion=0"))
    assert [event["type"] for event in events] == ["ADDED", "ERROR"]
    assert events[1]["object"]["code"] == 410


@pytest.mark.parametrize("by", [-40, 40])
def test_leases_are_seen_with_another_time_and_are_as_they_were_afterwards(
    cluster: Cluster, broken: Faults, by: int
) -> None:
    stored = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "me", "acquireTime": stored, "renewTime": stored, "leaseDurationSeconds": 30}
    cluster.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "mine"}, "spec": spec})

    def seen() -> str:
        return cluster.kubectl("get", "lease", "mine", "-o", "jsonpath={.spec.renewTime}")

    with broken.api.skew(by):
        assert (datetime.fromisoformat(seen()) - datetime.fromisoformat(stored)).total_seconds() == by
    assert seen() == stored


def test_a_client_that_was_connected_before_meets_it_too(cluster: Cluster, broken: Faults) -> None:
    """The controller manager has had its connections since the lab was started."""
    creates = Match(agent="kube-controller-manager", verb="create", resource="replicasets")
    with broken.api.fail(500, creates):
        cluster.kubectl("create", "deployment", "web", "--image=none")
        reasons = "jsonpath={.status.conditions[*].reason}"
        refused = lambda: "ReplicaSetCreateError" in cluster.kubectl("get", "deployment", "web", "-o", reasons)  # noqa: E731
        cluster.wait("it was refused", refused)
        assert cluster.get("replicasets")["items"] == []
    cluster.wait("it tries again", lambda: len(cluster.get("replicasets")["items"]) == 1, 30)


def test_everybody_is_who_they_are(cluster: Cluster, broken: Faults) -> None:
    token = cluster.kubectl("create", "token", "default").strip()
    with broken.api.slow(0.01):
        review = json.loads(cluster.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
        assert (review["username"], "system:masters" in review["groups"]) == ("admin", True)
        server = cluster.lab.spec.cluster(cluster.name).server
        options = ["--kubeconfig=/dev/null", f"--server={server}", "--insecure-skip-tls-verify"]
        known = cluster.run("kubectl", *options, f"--token={token}", "auth", "whoami", "-o", "json")
        username = json.loads(known.stdout)["status"]["userInfo"]["username"]
        assert username == f"system:serviceaccount:{cluster.namespace}:default"
        unknown = cluster.run("kubectl", *options, "--token=wrong", "get", "configmaps")
        assert "Unauthorized" in unknown.stderr or "must be logged in" in unknown.stderr


def test_it_is_over_when_its_owner_was_killed(cluster: Cluster, broken: Faults) -> None:
    arguments = [cluster.lab.spec.name, cluster.name, cluster.namespace]
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *arguments], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None and owner.stdout.readline() == "broken\n"
    with pytest.raises(ResourceError, match="TooManyRequests"):
        cluster.kubectl("get", "configmaps")
    owner.kill()
    owner.wait()
    cluster.wait("it is undone", lambda: not broken.active(), 60)
    assert not is_shared(cluster)
    cluster.kubectl("get", "configmaps")


def test_when_the_proxy_is_killed_the_server_is_there_at_once(cluster: Cluster, broken: Faults) -> None:
    fault = broken.api.fail(500)
    proxy = process.running_processes(cluster.lab.directory)[f"fault/api/{cluster.name}"]
    proxy.kill()
    proxy.wait()
    assert Connection(cluster).get(maps(cluster))[0] == 200
    fault.clear()
    assert Connection(cluster).get(maps(cluster))[0] == 200


def test_a_proxy_that_hangs_is_cleared_as_well(cluster: Cluster, broken: Faults) -> None:
    fault = broken.api.fail(500)
    process.running_processes(cluster.lab.directory)[f"fault/api/{cluster.name}"].suspend()
    fault.clear()
    assert Connection(cluster).get(maps(cluster))[0] == 200


def test_a_server_that_is_killed_meanwhile_has_the_fault_again_when_it_is_back(
    cluster: Cluster, broken: Faults
) -> None:
    with broken.api.fail(429, MAPS):
        with broken.kill("kube-apiserver"), pytest.raises(OSError):
            Connection(cluster).get(maps(cluster))
        cluster.wait("its proxy is back", lambda: Connection(cluster).get(maps(cluster))[0] == 429, 30)
    assert Connection(cluster).get(maps(cluster))[0] == 200


def test_nobody_can_say_in_a_header_who_they_are(cluster: Cluster, broken: Faults) -> None:
    with broken.api.slow(0.01):
        status, body, _ = Connection(cluster, known=False).get(maps(cluster), {"X-Remote-User": "admin"})
    assert status in (401, 403) and "admin" not in body["message"]


def test_a_fault_that_cannot_be_is_refused_before_anything_is_changed(cluster: Cluster, broken: Faults) -> None:
    from fleet.errors import ConfigurationError

    wrong: list[Callable[[], Broken]] = [
        lambda: broken.api.fail(200),
        lambda: broken.api.fail(500, share=1.5),
        lambda: broken.api.slow(0),
        lambda: broken.api.skew(0),
    ]
    for make in wrong:
        with pytest.raises(ConfigurationError):
            make()
    assert broken.active() == []


def test_the_command_line_makes_and_lists_them(cluster: Cluster, broken: Faults) -> None:
    def fleet(*arguments: str) -> str:
        command = [sys.executable, "-m", "fleet", "lab", "fault", *arguments, "--name", cluster.lab.spec.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    where = ("--cluster", cluster.name)
    said = fleet("api", "fail", *where, "--status", "429", "--verb", "list", "--resource", "configmaps", "--for", "60s")
    assert "fail-api kube-apiserver status=429 verb=list resource=configmaps; for 60 s" in said
    with pytest.raises(ResourceError, match="TooManyRequests"):
        cluster.kubectl("get", "configmaps")
    fleet("api", "skew", *where, "--by", "-40")
    assert "skew-leases kube-apiserver seconds=-40" in fleet("list")
    fleet("clear", "--all")
    cluster.kubectl("get", "configmaps")
