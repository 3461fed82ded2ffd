"""Apps, health, and the options of objects, on two real API servers with simulated nodes."""

from __future__ import annotations

import json

from fleet.names import APP_TYPES
from fleet.testing.git import git
from tests.definitions import remove_definition
from tests.sync.fleet_repository import FleetRepository, config_map

OURS = "fleet/"
ETCD = "from fleet.apps import Etcd"


def deployment(replicas: int, options: str = "", **pod: object) -> str:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}],
                    **pod,
                },
            },
        },
    }
    return f"fleet.Manifest({manifest!r}{f', opts=Options({options})' if options else ''})"


def test_definitions_of_apps_are_made_where_they_are_missing(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    remove_definition(eu)
    repository.wants(ETCD, "Etcd('db', version='3.5', storage='1Gi')")
    repository.commit()
    assert f"{eu.name}: the kind Etcd is not defined there yet" in repository.fleet("preview").err
    done = repository.sync("--no-wait")
    assert done.code == 0, done.err
    for cluster in (eu, us):
        found = repository.get(cluster, "etcd", "db")
        assert found is not None
        assert found["spec"]["version"] == "3.5"
    assert repository.sync("--expect-no-changes").code == 0


LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "fleet-operator-0"}}


def test_a_plan_says_which_apps_the_operator_there_does_not_know(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(ETCD, "Etcd('db', version='3.5', storage='1Gi')")
    repository.commit()
    for cluster, types in ((eu, '{"Nats.fleet.dev":"1.2"}'), (us, '{"Etcd.fleet.dev":"0.1.0"}')):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-system"}})
        metadata = {"name": "fleet-operator", "namespace": "fleet-system", "annotations": {APP_TYPES: types}}
        lease = json.dumps({**LEASE, "metadata": metadata})
        cluster.kubectl("--namespace=fleet-system", "apply", "--server-side", "-f", "-", input=lease)
    try:
        planned = repository.fleet("preview")
        assert f"the operator on {eu.name} does not know Etcd" in planned.err
        assert f"the operator on {us.name}" not in planned.err
        assert repository.sync("--no-wait").code == 0
        assert "does not know" not in repository.fleet("preview").err  # no app is written
    finally:
        for cluster in (eu, us):
            cluster.kubectl("delete", "lease", "-n", "fleet-system", "fleet-operator", "--ignore-not-found")


RUNS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kv}
spec:
  replicas: 3
  serviceName: kv
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}
  selector: {matchLabels: {app: kv}}
  template:
    metadata: {labels: {app: kv}}
    spec: {containers: [{name: kv, image: "etcd:v3.5.21", command: [etcd, "--listen-client-urls=http://0.0.0.0:2379"]}]}
"""


def test_what_runs_already_is_compared_before_a_plan_promises_anything(repository: FleetRepository) -> None:
    """Where clusters are looked at; and by one question, which is asked only until the app is there."""
    eu, us = repository.clusters
    for cluster in (eu, us):
        cluster.kubectl("create", "namespace", repository.namespace)
    helm = ("apply", "--server-side", "--field-manager=helm", "-f", "-")
    eu.kubectl("-n", repository.namespace, *helm, input=RUNS)
    repository.wants()
    empty = repository.commit()

    def wants(take_from: str, members: int = 3) -> None:
        adopt = f"Options(adopt=fleet.Adopt(identity='c1', take_from=[{take_from}]))"
        etcd = f"Etcd('kv', version='3.5', members={members}, tls=fleet.TLS(enabled=False), opts={adopt})"
        repository.wants(ETCD, etcd)

    wants("")
    repository.commit()
    said = repository.fleet("preview").out
    assert "blocked: StatefulSet kv: how it updates its pods or keeps its volumes is managed by helm" in said
    assert "take_from=['helm']" in said
    assert f"blocked: there is no StatefulSet kv in {repository.namespace}" in said
    wants("'helm'", 5)
    assert "blocked: StatefulSet kv has 3 members, and git says 5" in repository.fleet("preview").out
    wants("'helm'")
    said = repository.fleet("preview").out
    assert "adopt StatefulSet kv with 3 members as it runs: unchanged, restarts 0, taken from helm" in said
    repository.commit()
    between = repository.fleet("preview", "--base", empty, "--head", "HEAD").out
    assert "as it runs: not compared with what is there, taken from helm" in between
    assert repository.sync("--no-wait").code == 0
    marks = [one.audit.mark() for one in (eu, us)]
    assert repository.fleet("preview", "--expect-no-changes").code == 0
    asked = [
        request for one, mark in zip((eu, us), marks, strict=True) for request in one.audit.requests(mark, agent=OURS)
    ]
    assert not [one for one in asked if one.resource == "statefulsets"]

    wants("'helm'", 5)
    said = repository.fleet("preview", "--cluster", eu.name).out
    assert "scale 3 → 5, after the first roll of 3 pods: `fleet roll kv`" in said
    wants("", 5)
    assert "the first roll waits until git says take_from=['helm']" in repository.fleet("preview").out


def test_a_backup_to_where_none_can_be_made_is_refused_where_it_is_written(repository: FleetRepository) -> None:
    backup = "fleet.Backup(schedule='@daily', to=fleet.S3('https://s3.test/b', secret='s'))"
    repository.wants(ETCD, f"Etcd('db', version='3.5', backup={backup})")
    done = repository.fleet("check")
    assert done.code != 0
    assert "'https://s3.test/b' is a URL" in done.err
    assert "write the bucket and a folder, 'bucket/folder'; the store's URL is endpoint=" in done.err
    assert "stacks/stack.py:" in done.err


def test_a_plan_says_what_a_change_means_and_refuses_what_the_engine_cannot_do(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(ETCD, "Etcd('db', version='3.5', storage='2Gi')")
    repository.commit()
    assert repository.sync("--no-wait").code == 0
    repository.wants(ETCD, "Etcd('db', version='3.5', storage='2Gi', members=5)")
    assert "scale 3 → 5" in repository.fleet("preview").out
    repository.wants(ETCD, "Etcd('db', version='3.5', storage='1Gi')", config_map("a", {"a": "1"}))
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    done = repository.sync()
    assert done.code == 5
    assert "volumes only grow" in done.err
    assert "stacks/stack.py" in done.err
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]


def test_sync_waits_until_pods_are_ready(repository: FleetRepository) -> None:
    repository.wants(deployment(2))
    repository.commit()
    done = repository.sync("-o", "json", "--timeout", "60s")
    assert done.code == 0, done.err
    assert {one["health"] for one in done.json()["results"]} == {"Healthy"}
    for cluster in repository.clusters:
        found = repository.get(cluster, "deployment", "web")
        assert found is not None
        assert found["status"]["readyReplicas"] == 2


def test_what_does_not_become_healthy_in_time_is_applied_and_exits_with_9(repository: FleetRepository) -> None:
    repository.wants(deployment(1, nodeSelector={"no": "such-node"}))
    revision = repository.commit()
    done = repository.sync("--timeout", "2s")
    assert done.code == 9
    assert "Deployment" in done.err
    status = repository.fleet("status", "--git", "-o", "json").json()["stacks"]
    assert {(one["sync"], one["health"], one["revision"]) for one in status} == {("Synced", "Progressing", revision)}
    assert repository.sync("--no-wait").code == 0


def test_an_ignored_field_is_left_to_whoever_changed_it(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(deployment(1, "ignore_changes=['spec.replicas']"))
    repository.commit()
    assert repository.sync("--no-wait").code == 0
    eu.kubectl("-n", repository.namespace, "scale", "deployment/web", "--replicas=2")
    assert repository.sync("--no-wait", "--expect-no-changes").code == 0
    repository.wants(deployment(1, "ignore_changes=['spec.replicas']", terminationGracePeriodSeconds=5))
    repository.commit()
    assert repository.sync("--no-wait").code == 0
    found = repository.get(eu, "deployment", "web")
    assert found is not None
    assert found["spec"]["replicas"] == 2
    assert found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 5


def test_a_renamed_object_keeps_its_place(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("old", {"a": "1"}))
    repository.commit()
    repository.sync()
    before = repository.get(eu, "configmap", "old")
    repository.wants(config_map("new", {"a": "2"}, "aliases=['old']"))
    repository.commit()
    done = repository.sync()
    assert done.code == 0, done.err
    after = repository.get(eu, "configmap", "old")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"] == {"a": "2"}
    assert repository.data(eu, "new") is None
    assert repository.sync("--expect-no-changes").code == 0


CLIENT = """fleet.Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "client"}, "data": {
        "at": app.endpoint, "url": app.connection.url, "secret": app.connection.secret}})"""


def test_a_renamed_app_has_one_name_in_python_plans_commands_status_and_previews(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    spec = "version='3.5', storage='1Gi', opts=Options(protect=True"
    repository.wants(ETCD, f"app = Etcd('orders', {spec}))", CLIENT, clusters=[eu.name])
    repository.commit("first")
    assert repository.sync("--no-wait").code == 0
    before, addresses = repository.get(eu, "etcd", "orders"), repository.data(eu, "client")
    assert before is not None
    assert addresses is not None
    assert addresses["at"] == f"orders.{repository.namespace}.svc:2379"

    repository.wants(ETCD, f"app = Etcd('carts', {spec}, aliases=['orders']))", CLIENT, clusters=[eu.name])
    repository.commit("renamed")
    shown = repository.fleet("preview", "--stack", repository.stack)
    assert "is carts in the stack and keeps its name in the cluster" in shown.out
    assert "delete" not in shown.out
    assert repository.sync("--no-wait").code == 0

    after = repository.get(eu, "etcd", "orders")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    git(repository.root, "push", "--quiet", "origin", "HEAD:main")
    back = repository.fleet("rollback", repository.stack, "--to", "HEAD~1", "--dry-run")
    assert back.code == 0, back.err
    assert "1 to update, 3 unchanged" in back.out, back.out

    repository.wants(ETCD, f"app = Etcd('carts', {spec}, aliases=['orders']))", CLIENT)
    repository.commit("placed where it never had the former name")
    assert repository.sync("--no-wait").code == 0
    for cluster in (eu, us):
        assert repository.data(cluster, "client") == addresses
        assert repository.get(cluster, "etcd", "orders") is not None
        assert repository.get(cluster, "etcd", "carts") is None
    again = repository.sync("--expect-no-changes", "--no-wait")
    assert again.code == 0, again.out
    assert "keeps its name" not in repository.fleet("preview", "--stack", repository.stack).out

    for name in ("carts", "orders"):
        told = repository.fleet("connect", name, "--cluster", eu.name, "--stack", repository.stack, "-o", "json")
        assert told.code == 0, told.err
        assert f"orders.{repository.namespace}.svc" in told.out
    status = repository.fleet("status", "--stack", repository.stack)
    assert f"Etcd {repository.namespace}/carts (orders in the cluster)" in status.out
    listed = repository.fleet("status", "--stack", repository.stack, "-o", "json").json()["stacks"][0]["objects"]
    assert [(one["name"], one["name_in_cluster"]) for one in listed if one["kind"] == "Etcd"] == [("carts", "orders")]
    recorded = repository.fleet("status", "--git", "--stack", repository.stack, "-o", "json").json()["stacks"]
    assert {app["name"] for one in recorded for app in one["apps"]} == {"carts"}


def test_retained_objects_are_left_running_when_they_leave_the_stack(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("a", {"a": "1"}, "retain_on_delete=True"))
    repository.commit()
    repository.sync()
    repository.wants()
    repository.commit()
    assert "retain_on_delete; left running" in repository.fleet("preview").out
    assert repository.sync().code == 0
    assert repository.data(eu, "a") == {"a": "1"}
    assert repository.sync("--expect-no-changes").code == 0


def test_a_commit_that_only_changes_options_is_shown_and_makes_a_later_delete_possible(
    repository: FleetRepository,
) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}, "protect=True"))
    repository.commit()
    repository.sync()
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    preview = repository.fleet("preview", "--expect-no-changes")
    assert preview.code == 7
    assert "opts.protect: true → false" in preview.out
    assert "2 to record" in preview.out
    done = repository.sync()
    assert done.code == 0, done.err
    assert "1 recorded, healthy" in done.out
    assert "applying" not in done.err
    for cluster, mark in zip((eu, us), marks, strict=True):
        written = [one.uri for one in cluster.audit.writes(mark, agent=OURS)]
        assert all("/namespaces/fleet-system/" in uri for uri in written), "nothing is sent to the object"
    assert repository.sync("--expect-no-changes").code == 0
    repository.wants()
    repository.commit()
    assert repository.sync().code == 0
    assert repository.data(eu, "a") is None


def test_a_definition_and_its_objects_may_come_in_one_stack(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    group = f"{repository.stack}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    widget = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"list": [{"a": 1, "b": {}}, {"a": 2}], "empty": {}, "zero": 0, "cpu": "1000m"},
    }
    repository.wants(f"fleet.Manifest({definition!r})", f"fleet.Manifest({widget!r})")
    repository.commit()
    done = repository.sync()
    assert done.code == 0, done.err
    assert repository.sync("--expect-no-changes").code == 0
    del widget["spec"]["list"][0]["b"]  # type: ignore[index]
    repository.wants(f"fleet.Manifest({definition!r})", f"fleet.Manifest({widget!r})")
    repository.commit()
    assert repository.sync().code == 0
    found = repository.get(eu, f"widgets.{group}", "w")
    assert found is not None
    assert found["spec"] == widget["spec"]
    assert repository.sync("--expect-no-changes").code == 0
    for cluster in repository.clusters:
        cluster.kubectl("delete", "crd", f"widgets.{group}", "--wait=false")
