"""Whoever may make one app cannot take the operator from the others: a real operator, a real API server, odd objects.

The members of these apps never run: their StorageClass does not exist.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import FleetError
from fleet.render import crd
from fleet.testing import Cluster
from tests.kube.with_client import make
from tests.operator.app_on_nodes import dead_webhook
from tests.served import wait_served

REPOSITORY = Path(__file__).parents[3]
LAUGHS = (
    "[&a [lol,lol,lol,lol,lol,lol,lol,lol,lol], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b],"
    "&d [*c,*c,*c,*c,*c,*c,*c,*c,*c], &e [*d,*d,*d,*d,*d,*d,*d,*d,*d], &f [*e,*e,*e,*e,*e,*e,*e,*e,*e],"
    "&g [*f,*f,*f,*f,*f,*f,*f,*f,*f], [*g,*g,*g,*g,*g,*g,*g,*g,*g]]"
)
LABELS = {"app.kubernetes.io/name": "etcd", "app.kubernetes.io/managed-by": "fleet-operator", "fleet.dev/kind": "Etcd"}


def etcd(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Etcd",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"version": "3.5", "members": 1, "volume": {"storageClass": "there-is-none"}, **spec},
    }


def ledger(name: str, namespace: str, text: str) -> dict[str, Any]:
    labels = {**LABELS, "fleet.dev/app": name, "app.kubernetes.io/instance": name}
    metadata = {"name": f"{name}-members", "namespace": namespace, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "annotations": {"fleet.dev/members": text}},
    }


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """As it runs in a cluster, for all namespaces."""
    cluster.apply(*crd.definitions().values())
    wait_served(cluster, "etcds.fleet.dev")
    options = ["--no-lease", f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}"]
    with (tmp_path / "operator.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fleet_operator", "run", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=REPOSITORY,
        )
    yield process
    process.terminate()
    ended = process.wait(60)
    assert ended == 0, (tmp_path / "operator.log").read_text()[-3000:]


@pytest.fixture
def victim(cluster: Cluster) -> Iterator[str]:
    """The namespace of another tenant."""
    namespace = f"victim-{secrets.token_hex(3)}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield namespace
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def status_of(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("etcd", name).get("status", {})
    return found


def reason(cluster: Cluster, name: str) -> str:
    conditions = status_of(cluster, name).get("conditions", ())
    return next((str(one["reason"]) for one in conditions if one["type"] == "Ready"), "")


def test_odd_objects_of_one_tenant_are_that_tenants_trouble_alone(
    cluster: Cluster, operator: subprocess.Popen[bytes], victim: str
) -> None:
    own = cluster.namespace
    places = {f"many-{number}": {"phase": "settled"} for number in range(3000)}
    cluster.apply(
        ledger("deep", own, "[" * 100_000),
        ledger("many", own, json.dumps({"identity": "c1", "places": places})),
        etcd("laughs", own, config={"options": {"log-outputs": LAUGHS}}),
        etcd("trusts", own, config={"options": {"client-transport-security": "{client-cert-auth: false}"}}),
        etcd("image", own, image="registry.example.com/mine:1"),
        etcd("deep", own),
        etcd("many", own),
    )
    make(cluster, etcd("store", victim))

    def is_reconciled(name: str) -> bool:
        return bool(
            cluster.get("statefulsets", f"--namespace={victim}", f"--field-selector=metadata.name={name}")["items"]
        )

    cluster.wait("the other tenant's app", lambda: is_reconciled("store"), 120)
    wanted = {
        "image": "NotAllowed",
        "laughs": "Invalid",
        "trusts": "Invalid",
        "deep": "OperatorFailed",
        "many": "LedgerUnreadable",
    }
    cluster.wait("each says so", lambda: {name: reason(cluster, name) for name in wanted} == wanted, 60)
    assert "anchor" in status_of(cluster, "laughs")["message"]
    assert "64 is the most" in status_of(cluster, "many")["message"]
    make(cluster, etcd("later", victim), etcd("store-peers", victim))
    cluster.wait("an app that came later", lambda: is_reconciled("later"), 60)

    def word() -> str:
        conditions = cluster.get("etcd", "store-peers", f"--namespace={victim}").get("status", {}).get("conditions", ())
        return next((f"{one['reason']}: {one['message']}" for one in conditions if one["type"] == "Ready"), "")

    collides = "NotOurs: Service store-peers exists and is of the app store"
    cluster.wait("an app whose Service is another's says so", lambda: word().startswith(collides), 60)
    peers = cluster.get("service", "store-peers", f"--namespace={victim}")
    assert peers["metadata"]["labels"]["fleet.dev/app"] == "store" and peers["spec"]["clusterIP"] == "None"
    assert operator.poll() is None


def test_an_object_that_the_server_refuses_stops_nothing_beside_it(
    cluster: Cluster, operator: subprocess.Popen[bytes], victim: str
) -> None:
    """A quota that leaves no room for a budget is one of many reasons to refuse an attachment."""
    quota = {"hard": {"count/poddisruptionbudgets.policy": "0"}}
    make(
        cluster,
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": victim}, "spec": quota},
    )
    cluster.wait(
        "the quota counts",
        lambda: "hard" in cluster.get("resourcequota", "q", f"--namespace={victim}").get("status", {}),
    )
    make(cluster, etcd("store", victim))

    def found() -> dict[str, Any]:
        return cluster.get("etcd", "store", f"--namespace={victim}")

    def condition() -> dict[str, Any]:
        conditions = found().get("status", {}).get("conditions", ())
        return next((one for one in conditions if one["type"] == "Attached"), {})

    sets = lambda: cluster.get("statefulsets", f"--namespace={victim}")["items"]  # noqa: E731
    cluster.wait("its members", sets, 120)
    cluster.wait("it says what was refused", lambda: bool(condition()), 60)
    assert (condition()["status"], condition()["reason"]) == ("False", "Refused")
    assert "PodDisruptionBudget store is refused" in condition()["message"] and "quota" in condition()["message"]
    cluster.kubectl("delete", "resourcequota", "q", f"--namespace={victim}")
    cluster.kubectl("annotate", "etcd", "store", f"--namespace={victim}", "fleet.dev/roll=now")
    cluster.wait("it is taken", lambda: cluster.get("pdb", f"--namespace={victim}")["items"], 60)
    cluster.wait("and not spoken of any more", lambda: not condition(), 60)
    assert operator.poll() is None


def test_a_kind_that_the_server_fails_to_take_is_not_sent_again_in_the_same_pass(
    cluster: Cluster, operator: subprocess.Popen[bytes], victim: str
) -> None:
    """A certificate is not kept without the CA that signed it, which was made a moment before and is kept nowhere."""
    webhook = dead_webhook(victim, "", "secrets")
    make(cluster, webhook)
    try:
        trial = ("create", "secret", "generic", "asked", "--dry-run=server", f"--namespace={victim}")

        def is_asked() -> bool:
            with pytest.raises(FleetError) as refused:
                cluster.kubectl(*trial)
            return "failed calling webhook" in str(refused.value)

        cluster.wait("it is asked", is_asked)
        since = cluster.audit.mark()
        make(cluster, etcd("store", victim))

        def asked() -> set[str]:
            requests = cluster.audit.requests(since, agent="fleet-operator")
            return {one.name for one in requests if (one.verb, one.resource) == ("patch", "secrets")}

        def message() -> str:
            found = cluster.get("etcd", "store", f"--namespace={victim}").get("status", {})
            return next((str(one["message"]) for one in found.get("conditions", ()) if one["type"] == "Attached"), "")

        cluster.wait("it says what is refused", lambda: "Secret store-ca is refused" in message(), 120)
        assert "failed calling webhook" in message() and "store-server" not in message()
        assert asked() == {"store-ca"}
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", webhook["metadata"]["name"])
    cluster.wait(
        "all are made",
        lambda: len(cluster.get("secrets", f"--namespace={victim}", "-l=fleet.dev/app=store")["items"]) == 4,
        60,
    )
