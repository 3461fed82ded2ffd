"""What the service decides, with data; and its manifests, as an API server judges them."""

from __future__ import annotations

import contextlib
import json
import logging
from functools import partial
from typing import Any

import orjson
import pytest
import yaml

from fleet.agent.manifests import manifests as agent_manifests
from fleet.errors import AccessError, PolicyError, Source
from fleet.evaluate.result import ClusterData
from fleet.forge.forge import ForgeRepository
from fleet.install.manifests import InstallOptions
from fleet.install.manifests import manifests as installed
from fleet.kube.runtime.queue import Queue
from fleet.objects.desired import Key
from fleet.plan import Inventory, Plan, Step, Verb
from fleet.plan.drift import drift_error
from fleet.plan.inventory import Entry
from fleet.serve.cluster_secrets import open_client
from fleet.serve.clusters import digest_object
from fleet.serve.commits import FollowedRepository
from fleet.serve.manifests import manifests
from fleet.serve.process import JsonLines, matching_repositories
from fleet.testing import Cluster

KEY = Key("", "ConfigMap", "orders", "settings")


def found(version: str = "1", **more: object) -> dict[str, object]:
    metadata = {"name": "settings", "namespace": "orders", "resourceVersion": version, "managedFields": [version]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def test_noise_is_no_change_and_content_and_health_are() -> None:
    first = digest_object(KEY, found("1", data={"a": "1"}), is_app=False)
    assert digest_object(KEY, found("2", data={"a": "1"}), is_app=False) == first
    assert digest_object(KEY, found("2", data={"a": "2"}), is_app=False) != first
    key = Key("apps", "Deployment", "orders", "web")
    web = {**found(), "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}
    before = digest_object(key, {**web, "status": {"replicas": 1}}, is_app=False)
    after = digest_object(
        key, {**web, "status": {"replicas": 1, "availableReplicas": 1, "updatedReplicas": 1}}, is_app=False
    )
    assert before.content == after.content
    assert before.health != after.health


def entry(digest: str, uid: str = "u") -> Entry:
    return Entry(KEY, "v1", uid, digest)


@pytest.mark.parametrize(
    ("known", "wanted", "verb", "drift"),
    [
        (entry("a"), entry("a"), Verb.UPDATE, True),
        (entry("a"), entry("a", ""), Verb.CREATE, True),  # it was deleted
        (entry("a"), entry("b"), Verb.UPDATE, False),  # git changed
        (entry("a", ""), entry("a", ""), Verb.CREATE, False),  # only an intent: it was never made
        (None, entry("a"), Verb.CREATE, False),
        (entry("a"), entry("a"), Verb.UNCHANGED, False),
    ],
)
def test_drift_is_what_git_did_not_change(known: Entry | None, wanted: Entry, verb: Verb, drift: bool) -> None:
    inventory = Inventory("orders", "eu", entries=(known,) if known else ())
    made = Plan("orders", "eu", (Step(verb, KEY, {}, entry=wanted),), inventory)
    assert isinstance(drift_error(made), PolicyError) == drift
    other = Step(Verb.CREATE, Key("", "ConfigMap", "orders", "new"), {}, entry=entry("c", ""))
    assert drift_error(Plan("orders", "eu", (*made.steps, other), inventory)) is None, "a commit brings it along"


def test_a_worker_takes_what_fits_besides_and_nobody_else_gets_it() -> None:
    queue: Queue[tuple[str, str]] = Queue()
    for key in (("a", "eu"), ("b", "us"), ("c", "eu"), ("d", "eu")):
        queue.add(key)
    first = queue.take()
    assert first is not None
    assert [item.key for item in queue.take_also(lambda key: key[1] == "eu", 1)] == [("c", "eu")]
    queue.add(("c", "eu"))  # asked for while a worker has it
    rest = [item.key for item in iter(queue.take, None)]
    assert rest == [("b", "us"), ("d", "eu")]
    queue.done(("c", "eu"))
    assert [item.key for item in iter(queue.take, None)] == [("c", "eu")]


def test_a_webhook_is_for_the_repository_of_its_path_or_for_all() -> None:
    one, other = (
        FollowedRepository("git@forge.example.com:Team/fleet.git"),
        FollowedRepository("https://forge.example.com/team/other.git"),
    )
    said = ForgeRepository("gitea", "https://forge.example.com", "team/Fleet")
    assert matching_repositories(said, [one, other]) == [one]
    assert matching_repositories(ForgeRepository("gitea", "https://x", "a/b"), [one, other]) == [one, other]


INSIDE = {
    "a token": ({}, {"token": "t"}),
    "data in it": ({"certificate-authority-data": "eA=="}, {"username": "u", "password": "p"}),
}
OUTSIDE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exec": ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh"}}),
    "tokenFile": ({}, {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
    "client-certificate, client-key": ({}, {"client-certificate": "/a", "client-key": "/b"}),
    "certificate-authority": ({"certificate-authority": "/etc/hostname"}, {"token": "t"}),
    "idp-certificate-authority": (
        {},
        {"auth-provider": {"name": "oidc", "config": {"idp-certificate-authority": "/etc/hostname"}}},
    ),
}


def of_secret(cluster: dict[str, Any], user: dict[str, Any]) -> bytes:
    """A kubeconfig as somebody puts it into a Secret."""
    it = {"name": "it", "context": {"cluster": "it", "user": "it"}}
    clusters = [{"name": "it", "cluster": {"server": "https://api.example.com", **cluster}}]
    document = {"clusters": clusters, "users": [{"name": "it", "user": user}], "contexts": [it]}
    return json.dumps({**document, "current-context": "it"}).encode()


@pytest.mark.parametrize("fields", OUTSIDE)
def test_a_kubeconfig_in_a_secret_runs_no_program_and_reads_no_file_unless_it_is_trusted(fields: str) -> None:
    eu = ClusterData("eu-1", {}, None, "fleet-system/eu-1", False, Source("clusters/all.py", 1))
    text = of_secret(*OUTSIDE[fields])
    with contextlib.ExitStack() as held, pytest.raises(AccessError) as refused:
        open_client(eu, text, held)
    assert refused.value.message == (
        "the kubeconfig in the Secret fleet-system/eu-1 of eu-1 runs a program or reads a file of the service's"
        f" machine: {fields}"
    )
    with contextlib.ExitStack() as held:
        assert open_client(eu, text, held, trusted=True).cluster == "eu-1"


@pytest.mark.parametrize("what", INSIDE)
def test_a_kubeconfig_in_a_secret_with_all_that_it_needs_in_it_is_taken(what: str) -> None:
    eu = ClusterData("eu-1", {}, None, "fleet-system/eu-1", False, Source("clusters/all.py", 1))
    with contextlib.ExitStack() as held:
        assert open_client(eu, of_secret(*INSIDE[what]), held).cluster == "eu-1"


def test_a_line_of_the_log_is_an_object_with_the_fields_that_are_known() -> None:
    record = logging.makeLogRecord({"msg": "%s is \x1b[31mred", "args": ("orders",), "stack": "orders", "levelno": 30})
    line = orjson.loads(JsonLines().format(record))
    assert (line["message"], line["stack"], "cluster" in line) == ("orders is \ufffd[31mred", "orders", False)


def test_an_api_server_takes_the_manifests_and_the_account_may_do_little(cluster: Cluster) -> None:
    made = manifests(
        "localhost/serve:1", ["https://git.example.com/team/fleet.git#main"], 2, signers="ada ssh-ed25519 A"
    )
    text = yaml.safe_dump_all(made)
    cluster.kubectl(
        "-n",
        "fleet-system",
        "apply",
        "--server-side",
        "--field-manager=test",
        "-f",
        "-",
        input=yaml.safe_dump_all(made[:4]),
    )
    cluster.kubectl(
        "-n",
        "fleet-system",
        "apply",
        "--server-side",
        "--field-manager=test",
        "--dry-run=server",
        "-f",
        "-",
        input=text,
    )
    home = [one for one in installed(InstallOptions("localhost/operator:1")) if one["kind"] == "Namespace"]
    cluster.kubectl(
        "apply", "--server-side", "--field-manager=other", "--dry-run=server", "-f", "-", input=yaml.safe_dump_all(home)
    )
    account = "system:serviceaccount:fleet-system:fleet-serve"

    def may(what: str) -> bool:
        said = cluster.kubectl("-n", "fleet-system", "auth", "can-i", *what.split(), f"--as={account}")
        return said.strip() == "yes"

    for what in ("update leases/fleet-serve", "get secrets"):  # which the server knows a moment after the binding
        cluster.wait(f"the right to {what}", partial(may, what))
    assert all(rule["resources"] in (["leases"], ["secrets"]) for rule in made[2]["rules"])
    kinds = [one["kind"] for one in made]
    assert kinds[-2:] == ["ConfigMap", "Deployment"], "what the pod mounts is there before it"
    pod = made[-1]["spec"]["template"]["spec"]
    assert "--signers=/etc/fleet/signers/signers" in pod["containers"][0]["args"]
    plain = manifests("localhost/serve:1", [], 2)
    assert "signers" not in yaml.safe_dump_all(plain)


def test_an_api_server_takes_the_agent_s_manifests_and_it_may_do_everything_there(cluster: Cluster) -> None:
    made = agent_manifests("localhost/serve:1", ["--repository=https://git.example.com/f.git", "--cluster=edge-1"], 1)
    (container,) = made[-1]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python3", "-P", "-m", "fleet", "agent"]
    assert {one["name"] for one in container["env"]} == {"HOME", "FLEET_WEBHOOK_SECRET", "FLEET_NOTIFY_SECRET"}
    assert [one["name"] for one in made[-1]["spec"]["template"]["spec"]["volumes"]] == ["cache", "tmp", "git"]
    apply = ("-n", "fleet-system", "apply", "--server-side", "--field-manager=test", "-f", "-")
    cluster.kubectl(*apply, input=yaml.safe_dump_all(made[:3]))
    cluster.kubectl(*apply, "--dry-run=server", input=yaml.safe_dump_all(made))
    asked = ("auth", "can-i", "*", "*", "--as=system:serviceaccount:fleet-system:fleet-agent")
    cluster.wait("all rights", lambda: cluster.kubectl("-n", "fleet-system", *asked).strip() == "yes")
    cluster.kubectl("delete", "clusterrolebinding", "fleet-agent")
