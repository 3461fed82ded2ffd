"""Faults of an API server as nodes and pods meet them; and what is more than a question and an answer goes through."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fleet.errors import ResourceError
from fleet.lab.faults import lookup
from fleet.testing.faults import Faults
from fleet.testing.proxy import Match
from tests.lab.faults.town import Town, pod

pytestmark = pytest.mark.real_nodes
ASK = """
import http.client, ssl, sys
address, authority, token, path = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
connection = http.client.HTTPSConnection(address, 443, context=context, timeout=10)
connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
print(connection.getresponse().status)
"""


def asked_in(town: Town, name: str, resource: str) -> int:
    """What the API server answers at the address that pods know, asked in a pod's network as the pod's account."""
    lab, cluster = town.cluster.lab, town.cluster.lab.spec.cluster(town.cluster.name)
    holder = lookup.find_pod(lab, cluster.name, town.cluster.namespace, name).holder
    token = town.cluster.kubectl("create", "token", "default").strip()
    path = f"/api/v1/namespaces/{town.cluster.namespace}/{resource}"
    authority = str(lab.plane(cluster).authority.certificate_file)
    command = ["nsenter", f"--net=/proc/{holder[0]}/ns/net", sys.executable, "-c", ASK]
    done = subprocess.run(
        [*command, str(cluster.services[1]), authority, token, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_pod_meets_it_at_the_address_that_pods_know(town: Town, breaking: Faults) -> None:
    account = f"{town.cluster.namespace}:default"
    town.cluster.kubectl("create", "rolebinding", "look", "--clusterrole=view", f"--serviceaccount={account}")
    town.cluster.wait("it may look", lambda: asked_in(town, "here", "configmaps") == 200)
    with breaking.api.fail(429, Match(resource="configmaps")):
        assert asked_in(town, "here", "configmaps") == 429
        assert asked_in(town, "here", "services") == 200
        assert asked_in(town, "here", "secrets") == 403
    assert asked_in(town, "here", "configmaps") == 200


def test_a_node_meets_it_too(town: Town, breaking: Faults) -> None:
    """A kubelet that cannot say how its pods are goes on to run them."""
    says = Match(agent="kubelet", resource="pods/status", namespace=town.cluster.namespace)
    with breaking.api.fail(500, says):
        town.cluster.apply(pod("unheard-of", town.nodes[0]))
        log = town.cluster.lab.logs(town.cluster.name)[f"{town.nodes[0]}-kubelet"]
        tried = re.compile(r'"Failed to update status for pod".*unheard-of')
        town.cluster.wait("it was refused", lambda: bool(tried.search(log.read_text())))
        assert town.cluster.get("pod", "unheard-of")["status"]["phase"] == "Pending"
    town.cluster.kubectl("wait", "--for=condition=Ready", "pod/unheard-of", "--timeout=60s")
    town.cluster.kubectl("delete", "pod", "unheard-of")


def test_a_node_whose_watches_end_and_whose_lease_looks_old_goes_on(town: Town, breaking: Faults) -> None:
    """It speaks protobuf; what the proxy changes comes to it as JSON."""
    node = town.nodes[0]

    def renewed() -> str:
        return town.cluster.kubectl("-n", "kube-node-lease", "get", "lease", node, "-o", "jsonpath={.spec.renewTime}")

    before = renewed()
    with breaking.api.skew(-3600), breaking.api.forget(Match(agent="kubelet"), after_events=1):
        old = renewed()
        assert old < before
        town.cluster.apply(pod("later", node))
        town.cluster.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=60s")
        town.cluster.wait("it renews its lease", lambda: renewed() > old, 20)
    assert renewed() > before
    town.cluster.kubectl("delete", "pod", "later")


def test_commands_in_pods_go_through(town: Town, breaking: Faults) -> None:
    with breaking.api.slow(0.1):
        assert town.cluster.execute("here", "echo", "hello") == "hello\n"
        sent = town.cluster.kubectl("exec", "-i", "here", "--", "wc", "-c", input="x" * 300_000)
        assert sent.strip() == "300000"
        assert town.cluster.kubectl("logs", "here") == ""
        with pytest.raises(ResourceError, match="not found"):
            town.cluster.execute("nobody", "true")
