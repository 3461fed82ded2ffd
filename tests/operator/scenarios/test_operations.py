"""What a person can do who has the role `fleet-operations` in a namespace and nothing else, tried against a real API
server with the operator beside it. Members of the app never run: what is asked of it waits.
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
from fleet.install import rights
from fleet.kit.operations.queue import MOST_KEPT
from fleet.render import crd
from fleet.testing import Cluster
from tests.kube.client.test_client import as_user
from tests.kube.with_client import make
from tests.operator.scenarios.test_tenants import etcd, operator, victim
from tests.served import wait_served

__all__ = ["operator", "victim"]
RBAC = "rbac.authorization.k8s.io"
Object = dict[str, Any]


class Person:
    """Somebody with a kubeconfig of their own."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self.cluster, self.kubeconfig = cluster, kubeconfig

    def kubectl(self, *arguments: str, manifest: Object | None = None) -> str:
        """Run kubectl; raise FleetError with what it says if it fails."""
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", f"--context={self.cluster.context}"]
        command += [f"--namespace={self.cluster.namespace}", *arguments]
        text = json.dumps(manifest) if manifest is not None else None
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FleetError(done.stderr)
        return done.stdout

    def ask(self, name: str, do: str, *, app: str = "store", more: Object | None = None, **fields: Any) -> None:
        spec = {"app": {"kind": "Etcd", "name": app}, "do": do, **fields}
        manifest = {**about(name), "spec": spec, **(more or {})}
        self.kubectl("create", "-f", "-", manifest=manifest)

    def fleet(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = [f"--kubeconfig={self.kubeconfig}", f"--context={self.cluster.context}"]
        command = [sys.executable, "-m", "fleet", *arguments, *where, f"--namespace={self.cluster.namespace}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def about(name: str) -> Object:
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": "Operation", "metadata": {"name": name}}


@pytest.fixture
def role(cluster: Cluster) -> str:
    """The role, and the definitions, as an installation brings them."""
    cluster.apply(*crd.definitions().values())
    wait_served(cluster, "etcds.fleet.dev")
    wait_served(cluster, "operations.fleet.dev")
    cluster.apply(rights.people_role())
    return str(rights.people_role()["metadata"]["name"])


@pytest.fixture
def person(cluster: Cluster, role: str, tmp_path: Path) -> Iterator[Person]:
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": cluster.namespace}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "on-call", "namespace": cluster.namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    make(cluster, binding)
    token = cluster.kubectl("create", "token", "default").strip()
    yield Person(cluster, as_user(cluster, tmp_path / "person", {"token": token}))


def status_of(cluster: Cluster, name: str) -> Object:
    found: Object = cluster.get("operations.fleet.dev", name).get("status") or {}
    return found


def test_who_may_ask_can_ask_and_look_and_nothing_else(
    cluster: Cluster, operator: subprocess.Popen[bytes], person: Person, victim: str
) -> None:
    cluster.apply(etcd("store", cluster.namespace))
    person.ask("one", "switchover")
    person.ask("two", "backup", app="nobody")
    cluster.wait("an answer", lambda: status_of(cluster, "one").get("phase") == "Pending", 60)
    cluster.wait("a refusal", lambda: status_of(cluster, "two").get("objections") == ["no-app"], 60)
    assert status_of(cluster, "one")["waitsFor"] not in ("", "Operation")
    assert "switchover" in person.kubectl("get", "operations.fleet.dev")

    refused: dict[str, tuple[tuple[str, ...], Object | None]] = {
        "another operation's spec": (
            ("patch", "operation.fleet.dev", "one", "--type=merge", "-p", '{"spec":{}}'),
            None,
        ),
        "its status": (
            (*("patch", "operation.fleet.dev", "one", "--type=merge", "--subresource=status"), "-p", '{"status":{}}'),
            None,
        ),
        "its end": (("delete", "operation.fleet.dev", "one"), None),
        "the app": (("patch", "etcd", "store", "--type=merge", "-p", '{"spec":{"members":3}}'), None),
        "the word of a roll": (("annotate", "etcd", "store", "fleet.dev/roll=now"), None),
        "a pod": (("delete", "pods", "--all"), None),
        "secrets": (("get", "secrets"), None),
        "a Job": (("create", "job", "mine", "--image=mine"), None),
        "more rights": (("create", "rolebinding", "mine", "--clusterrole=admin", "--user=me"), None),
        "another namespace": (
            ("create", f"--namespace={victim}", "-f", "-"),
            {**about("one"), "spec": {"app": {"kind": "Etcd", "name": "store"}, "do": "roll"}},
        ),
    }
    for what, (arguments, manifest) in refused.items():
        with pytest.raises(FleetError, match=r"(?i)forbidden"):
            print(what, person.kubectl(*arguments, manifest=manifest))


def test_fields_of_an_operation_give_no_way_to_more(
    cluster: Cluster, operator: subprocess.Popen[bytes], person: Person
) -> None:
    cluster.apply(etcd("store", cluster.namespace))
    wrong: list[tuple[str, Object]] = [
        ("switchover", {"to": "store-0; reboot"}),
        ("switchover", {"to": "../../victim/store-0"}),
        ("switchover", {"member": "store-0"}),
        ("roll", {"to": "store-0"}),
        ("restart", {}),
        ("shell", {}),
        ("backup", {"image": "mine"}),
        ("backup", {"app": {"kind": "Etcd", "name": "store", "namespace": "victim"}}),
        ("roll", {"app": {"kind": "Etcd", "name": "store/../x"}}),
    ]
    for do, fields in wrong:
        with pytest.raises(FleetError, match=r"(?i)invalid|unknown field|unsupported"):
            person.ask("wrong", do, **fields)

    forged = {"phase": "Running", "reason": "Running", "message": "", "begun": "2020-01-01T00:00:00Z", "before": "x"}
    person.ask("forged", "restart", member="store-0", more={"status": forged})
    cluster.wait("it is as any other", lambda: status_of(cluster, "forged").get("phase") == "Pending", 60)
    assert not {"begun", "before"} & status_of(cluster, "forged").keys(), "who makes one does not write its status"
    with pytest.raises(FleetError, match="is not changed: make another one"):
        cluster.kubectl(
            *("patch", "operation.fleet.dev", "forged", "--type=merge", "-p", '{"spec":{"member":"store-1"}}')
        )
    person.ask("other", "restart", app="elsewhere", member="kube-dns-0")
    cluster.wait("it is refused", lambda: status_of(cluster, "other").get("phase") == "Refused", 60)


def test_what_has_ended_is_forgotten_and_an_app_that_goes_takes_what_was_asked_of_it_along(
    cluster: Cluster, operator: subprocess.Popen[bytes], person: Person
) -> None:
    cluster.apply(etcd("store", cluster.namespace))
    for number in range(MOST_KEPT + 4):
        person.ask(f"n{number}", "roll", app="nobody")

    def count() -> int:
        return len(cluster.get("operations.fleet.dev")["items"])

    cluster.wait("as many as are kept", lambda: count() == MOST_KEPT, 90)
    person.ask("last", "roll")
    cluster.kubectl("delete", "etcd", "store", "--timeout=90s")
    cluster.wait(
        "it is gone",
        lambda: cluster.get("operations.fleet.dev", "--field-selector=metadata.name=last")["items"] == [],
        30,
    )
    assert operator.poll() is None


def test_the_command_line_asks_waits_and_says_which_right_is_missing(
    cluster: Cluster, operator: subprocess.Popen[bytes], person: Person, role: str, tmp_path: Path
) -> None:
    cluster.apply(etcd("store", cluster.namespace))
    asked = person.fleet("switchover", "store", "--no-wait", "-o", "json")
    assert asked.returncode == 0, asked.stderr
    name = json.loads(asked.stdout)["operation"]
    late = person.fleet("roll", "store", "--timeout", "3s")
    assert late.returncode == 9, late.stderr
    assert "it goes on by itself" in late.stderr
    refused = person.fleet("restart", "store", "elsewhere-0", "--no-wait")
    assert refused.returncode == 0, refused.stderr
    listed = person.fleet("operations", "store", "-o", "json")
    assert [row["do"] for row in json.loads(listed.stdout)] == ["switchover", "roll", "restart"], listed.stderr
    assert json.loads(listed.stdout)[0]["operation"] == name
    assert "switchover" in person.fleet("operations").stdout
    account = f"reader-{secrets.token_hex(3)}"
    cluster.kubectl("create", "serviceaccount", account)
    subject = f"--serviceaccount={cluster.namespace}:{account}"
    cluster.kubectl("create", "role", "reads", "--verb=get,list", "--resource=etcds.fleet.dev")
    cluster.kubectl("create", "rolebinding", "reads", "--role=reads", subject)
    token = cluster.kubectl("create", "token", account).strip()
    reader = Person(cluster, as_user(cluster, tmp_path / "reader", {"token": token}))
    denied = reader.fleet("roll", "store")
    assert denied.returncode == 3, denied.stderr
    assert "create operations.fleet.dev" in denied.stderr and "--clusterrole=fleet-operations" in denied.stderr
