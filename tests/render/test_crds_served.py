"""The generated definitions on a real API server: taken, defaulted, enforced, and explained by kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import fleet
from fleet import NFS, Backup, Claim, Resources, Restore, Volume
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig
from fleet.errors import ResourceError
from fleet.model.app import API_VERSION
from fleet.render import render
from fleet.testing import Cluster
from tests.served import wait_served

CRDS = Path(__file__).parent.parent.parent / "crds"


INSTALLED: set[tuple[Path, str]] = set()  # clusters of this run that have our definitions


@pytest.fixture
def served(cluster: Cluster) -> Cluster:
    """The cluster with our definitions, served."""
    if (cluster.kubeconfig, cluster.name) not in INSTALLED:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
        wait_served(cluster, "etcds.fleet.dev")
        INSTALLED.add((cluster.kubeconfig, cluster.name))
    return cluster


def etcd(name: str = "db", /, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Etcd", "metadata": {"name": name}, "spec": {"version": "3.5", **spec}}


def refusal(cluster: Cluster, manifest: dict[str, Any]) -> str:
    """What the API server says against an object."""
    with pytest.raises(ResourceError) as caught:
        cluster.apply(manifest)
    return caught.value.message


def test_the_definitions_have_no_fault_that_the_server_would_report(served: Cluster) -> None:
    definition = served.get("crd", "etcds.fleet.dev")
    conditions = {one["type"]: one["status"] for one in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


def test_what_is_rendered_is_taken_and_the_server_fills_in_the_same_defaults(served: Cluster) -> None:
    @fleet.stack(clusters="c", name="shop", namespace=served.namespace)
    def shop(cluster: fleet.Cluster) -> None:
        Etcd("small", version="3.5")
        Etcd(
            "large",
            version="3.5.21",
            members=5,
            storage="100Gi",
            resources=Resources(cpu="2", memory="8Gi", cpu_limit="4"),
            volume=Volume(storage_class="fast.ssd", on_delete="delete"),
            config=EtcdConfig(quota="8Gi", options={"pre-vote": "true"}),
            backup=Backup(schedule="0 3 * * *", to=NFS("nas", "/exports/shop")),
            restore_from=Restore(Claim("backups", folder="old")),
        )

    declared = shop(fleet.Cluster("c"))
    wanted = [one.manifest for one in render(declared, fleet.Cluster("c")).objects if one.app]
    served.apply(*wanted)
    for app in declared.apps:
        live = served.get("etcd", app.name)
        assert Etcd.from_manifest(live) == app  # equal with every default said by the server
        assert live["spec"]["tls"] == {"enabled": True, "lifetime": "90d", "authority": ""}


def test_of_what_was_taken_over_the_server_says_nothing_that_nobody_said(served: Cluster) -> None:
    for name, spec in (("bare", {}), ("set", {"config": {"heartbeatMs": 150}})):
        served.apply(etcd(name, adopt={"identity": "c1"}, **spec))
        live = served.get("etcd", name)["spec"]
        assert "resources" not in live
        assert "compaction" not in live["config"]
        assert live["config"]["electionMs"] == 1000, "as etcd has it itself"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"members": 4}, "must be odd, so that a majority can always be found"),
    ({"members": 9}, "should be less than or equal to 7"),
    ({"members": "3"}, 'got "string", expected "integer"'),
    ({"version": "3.9"}, "must be a release of etcd 3.4, 3.5 or 3.6"),
    ({"version": "v3.5"}, "should match"),
    ({"storage": "10GB"}, "should match"),
    ({"storage": "1"}, "is too little for an etcd"),
    ({"storage": "1Gi", "config": {"quota": "1024Mi"}}, "is as large as the storage"),
    ({"tls": {"lifetime": "1s"}}, "must be between four minutes and ten years"),
    ({"tls": {"lifetime": "3m59s"}}, "must be between four minutes and ten years"),
    ({"tls": {"lifetime": "3651d"}}, "must be between four minutes and ten years"),
    ({"tls": {"lifetime": "99999999999999w"}}, "must be between four minutes and ten years"),
    ({"memebrs": 3}, 'unknown field "memebrs"'),
    ({"resources": {"cpu": "2", "cpuLimit": "1"}}, "the limit of CPU is less than what is set aside"),
    ({"config": {"heartbeatMs": 900}}, "the election timeout must be at least five times the heartbeat"),
    ({"backup": {"schedule": "@daily", "to": {}}}, "must have exactly one of s3, nfs and claim"),
    (
        {"backup": {"schedule": "@daily", "to": {"claim": {"claim": "b"}, "nfs": {"server": "s", "path": "/"}}}},
        "must have exactly one of s3, nfs and claim",
    ),
    ({"volume": {"onDelete": "nuke"}}, 'supported values: "keep", "delete"'),
]


def test_a_wrong_spec_is_refused_by_the_server_too(served: Cluster) -> None:
    for spec, said in WRONG:
        assert said in refusal(served, etcd(**spec))
    assert "at most 40 characters" in refusal(served, etcd("a" * 41))
    assert "start with a letter" in refusal(served, etcd("9lives"))


ADOPTED: dict[str, Any] = {"adopt": {"identity": "c1"}}
FORBIDDEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"storage": "10Gi"}, {"storage": "9Gi"}, "cannot become smaller"),
    ({}, {"tls": {"enabled": False}}, "cannot be changed once the app exists"),
    ({"tls": {"enabled": False}}, {"tls": {"enabled": True}}, "cannot be changed once the app exists"),
    ({**ADOPTED}, {**ADOPTED, "tls": {"enabled": False}}, "cannot be changed once the app exists"),
    ({}, {"volume": {"storageClass": "fast"}}, "storageClass cannot be changed once the app exists"),
    ({"volume": {"storageClass": "a"}}, {"volume": {"storageClass": "b"}}, "cannot be changed once the app exists"),
    ({}, {"restoreFrom": {"source": {"claim": {"claim": "b"}}}}, "can only be given when the app is new"),
]


def test_a_change_that_cannot_be_is_refused_by_the_server_too(served: Cluster) -> None:
    served.apply(*(etcd(f"db-{index}", **before) for index, (before, _, _) in enumerate(FORBIDDEN)))
    for index, (_, after, said) in enumerate(FORBIDDEN):
        assert said in refusal(served, etcd(f"db-{index}", **after))


def test_changes_that_can_be_are_taken(served: Cluster) -> None:
    served.apply(etcd(restoreFrom={"source": {"claim": {"claim": "b"}}}))
    served.apply(etcd(members=5, storage="16Gi", version="3.6"))
    assert "restoreFrom" not in served.get("etcd", "db")["spec"]
    served.apply(etcd("taken", **ADOPTED, tls={"enabled": False}))
    served.apply(etcd("taken", **ADOPTED))
    assert served.get("etcd", "taken")["spec"]["tls"]["enabled"] is True
    served.apply(etcd("odd", **ADOPTED, storage="1Gi", config={"quota": "8Gi"}))  # as others set it up


def test_what_is_older_than_a_rule_about_sizes_stays_and_can_be_looked_after(cluster: Cluster) -> None:
    definition = yaml.safe_load((CRDS / "fleet.dev_etcds.yaml").read_text())
    definition["metadata"]["name"] = "olders.example.com"  # a kind of its own: others use ours meanwhile
    definition["spec"] |= {"group": "example.com", "names": {"kind": "Older", "plural": "olders"}}
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules = spec["x-kubernetes-validations"]
    young = [rule.validation() for rule in Etcd.rules if not rule.stored]
    assert len(young) == 2
    served = f"example.com/{definition['spec']['versions'][0]['name']}"
    tiny = {**etcd(storage="1"), "apiVersion": served, "kind": "Older"}
    try:
        for now in ([rule for rule in rules if rule not in young], rules):
            spec["x-kubernetes-validations"] = now
            cluster.apply(definition)
            wait_served(cluster, "olders.example.com")
            if now is not rules:
                cluster.apply(tiny)
        cluster.wait("the new rules to hold", lambda: "is too little" in _tried(cluster, tiny))
        cluster.kubectl("annotate", "older/db", "seen=yes")
        assert Etcd.from_manifest({**tiny, "metadata": {"name": "db", "namespace": "x"}}).storage == "1"
        grown = {**tiny, "spec": {**tiny["spec"], "storage": "1Gi"}}
        cluster.apply(grown)
    finally:
        cluster.kubectl("delete", "crd", "olders.example.com")


def _tried(cluster: Cluster, manifest: dict[str, Any]) -> str:
    """What is said against a new object of the kind."""
    new = json.dumps({**manifest, "metadata": {"name": "new"}})
    try:
        return cluster.kubectl("create", "--dry-run=server", "-f", "-", input=new)
    except ResourceError as refused:
        return refused.message


def test_kubectl_explains_every_field(served: Cluster) -> None:
    shown = served.kubectl("explain", "etcd.spec")
    assert "What etcd should be: written in git" in shown
    assert "How many members: 1, 3, 5 or 7. With 3, one may fail; with 5, two." in " ".join(shown.split())
    assert "-required-" in shown
    store = served.kubectl("explain", "etcd.spec.backup.to.s3")
    assert "An S3 bucket, or one of any store that speaks S3." in store
    assert "The version that every member runs" in served.kubectl("explain", "etcd.status.version")


def test_kubectl_lists_apps_with_columns_short_name_and_category(served: Cluster) -> None:
    served.apply(etcd())
    status = {
        "observedGeneration": 1,
        "version": "3.5.21",
        "desiredVersion": "3.5.21",
        "ready": "3/3",
        "leader": "db-0",
        "health": "Healthy",
        "identity": "cdf818194e3a8c32",
        "members": [{"name": "db-0", "role": "leader", "ready": True, "state": "running"}],
        "lastBackup": {"time": "2024-01-01T03:00:00Z", "place": "s3://b/f", "version": "3.5.21"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "AllMembersServe",
                "message": "",
                "lastTransitionTime": "2024-01-01T03:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    patch = json.dumps({"status": status})
    served.kubectl("patch", "etcd", "db", "--subresource=status", "--type=merge", "-p", patch)
    header, row = served.kubectl("get", "ec").splitlines()
    assert header.split() == ["NAME", "VERSION", "READY", "LEADER", "HEALTH", "LAST", "BACKUP", "AGE"]
    assert row.split()[:5] == ["db", "3.5.21", "3/3", "db-0", "Healthy"]
    assert "etcd.fleet.dev/db" in served.kubectl("get", "fleet", "-o", "name")
    served.kubectl("wait", "--for=condition=Ready", "etcd/db", "--timeout=5s")


def test_the_status_is_not_the_users_to_write(served: Cluster) -> None:
    served.apply({**etcd(), "status": {"health": "Healthy"}})
    assert "health" not in served.get("etcd", "db").get("status", {})
