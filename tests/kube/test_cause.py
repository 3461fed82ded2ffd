"""Why a workload is not healthy: from data, and from a real cluster that refuses pods by a quota."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.kube.cause import LETTERS, CauseReader, add_cause, explain_health, find_cause, selector_of
from fleet.kube.client.client import Client
from fleet.kube.health import Health, State
from fleet.kube.live import read_live
from fleet.objects.desired import Key
from fleet.testing import Cluster
from tests.kube.with_client import connected

DEPLOYMENT = {"kind": "Deployment", "metadata": {"name": "web", "uid": "d"}, "status": {}}


def pod(name: str, status: dict[str, Any], *, made: str = "2026-01-01T00:00:00Z", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "creationTimestamp": made, **metadata}, "status": status}


def waiting(reason: str, message: str = "", **container: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "web", "state": state, **container}]}


def event(reason: str, message: str, about: str, *, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    involved = {"involvedObject": {"uid": about}, "metadata": {}, "type": "Warning", "lastTimestamp": at}
    return {**involved, "reason": reason, "message": message}


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: no cpu"}
CRASHED = {"terminated": {"reason": "Error", "exitCode": 3, "message": "password=hunter2"}}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (waiting("CreateContainerConfigError", 'secret "db" not found'),
         'container web: CreateContainerConfigError: secret "db" not found'),
        (waiting("ImagePullBackOff", "no such image"), "container web: ImagePullBackOff: no such image"),
        (waiting("CrashLoopBackOff", "back-off 10s", lastState=CRASHED, restartCount=4),
         "container web: CrashLoopBackOff, Error, exit code 3, 4 restarts"),
        ({"phase": "Running", "containerStatuses": [{"name": "web", "state": {"running": {}}, "lastState": CRASHED}]},
         "container web: Error, exit code 3"),
        ({"phase": "Pending", "conditions": [UNSCHEDULED]}, "Unschedulable: 0/3 nodes: no cpu"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted: low on memory"),
        ({"phase": "Running"}, "its containers run, and it is not ready"),
    ],
)  # fmt: skip
def test_the_cause_is_what_keeps_a_pod_and_never_what_a_container_said(status: dict[str, Any], told: str) -> None:
    found = find_cause(DEPLOYMENT, CauseReader((pod("old", READY), pod("new", status, made="2026-01-02T00:00:00Z"))))
    assert found == f"pod new: {told}"
    assert "hunter2" not in found


def test_events_tell_of_volumes_and_of_pods_that_may_not_be_and_nothing_that_a_container_said() -> None:
    starting = pod("new", waiting("ContainerCreating"))
    missing = event("FailedMount", 'MountVolume.SetUp failed for volume "v": secret "db" not found', "new")
    assert find_cause(DEPLOYMENT, CauseReader((starting,), (missing,))) == f"pod new: FailedMount: {missing['message']}"
    quota = event("FailedCreate", "pods are forbidden: exceeded quota", "d")
    assert find_cause(DEPLOYMENT, CauseReader((), (quota,))) == "FailedCreate: pods are forbidden: exceeded quota"
    probe = event("Unhealthy", "Readiness probe failed: password=hunter2", "new")
    assert find_cause(DEPLOYMENT, CauseReader((starting,), (probe,))) == ""
    later = event("FailedMount", "x" * 1000, "new", at="2026-01-03T00:00:00Z")
    assert find_cause(DEPLOYMENT, CauseReader((starting,), (missing, later))).startswith("pod new: FailedMount: xxx")
    assert len(find_cause(DEPLOYMENT, CauseReader((starting,), (later,)))) == LETTERS


def test_pods_that_are_well_or_on_their_way_out_are_no_cause() -> None:
    leaving = pod("old", waiting("ImagePullBackOff"), deletionTimestamp="2026-01-01T00:00:00Z")
    done = pod("done", {"phase": "Succeeded"})
    assert find_cause(DEPLOYMENT, CauseReader((pod("a", READY), leaving, done))) == ""


def test_it_is_told_behind_what_the_workload_says() -> None:
    health = Health(State.PROGRESSING, "1 old replicas are still to go")
    assert add_cause(health, "pod a: no").message == "1 old replicas are still to go: pod a: no"
    assert add_cause(health, "") == health


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, "a in (1,2)"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a"),
        ({"app": "web"}, "app=web"),
        ({}, ""),
    ],
)
def test_a_selector_is_what_a_query_takes(selector: dict[str, Any], text: str) -> None:
    assert selector_of({"spec": {"selector": selector}}) == text


@pytest.mark.real_nodes
def test_a_deployment_that_hangs_because_a_secret_is_missing_says_so(real_cluster: Cluster) -> None:
    cluster = real_cluster
    cluster.images("etcd:3.5")
    labels = {"app": "web"}
    container = {"name": "web", "image": "localhost/fleet-lab/etcd:3.5", "envFrom": [{"secretRef": {"name": "db"}}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    about = {"name": "web", "namespace": cluster.namespace}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec})
    key = Key("apps", "Deployment", cluster.namespace, "web")

    async def told(client: Client) -> str:
        live = await read_live(client, [key])
        return (await explain_health(client, live, live)).get(key, "")

    cluster.wait("its kubelet looked for it", lambda: "db" in connected(cluster, told))
    found = connected(cluster, told)
    assert re.fullmatch(r'pod web-\S+: container web: CreateContainerConfigError: secret "db" not found', found), found


def test_a_quota_and_a_missing_node_are_told_of_real_workloads(cluster: Cluster) -> None:
    namespace = cluster.namespace

    def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        labels = {"app": name}
        containers = [{"name": "web", "image": "localhost/web"}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}}
        whole = {"selector": {"matchLabels": labels}, "template": template, "replicas": 1, "serviceName": "x"}
        if kind != "StatefulSet":
            del whole["serviceName"]
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": whole,
        }

    keys = [Key("apps", kind, namespace, name) for kind, name in (("Deployment", "nowhere"), ("StatefulSet", "full"))]
    cluster.apply(workload("Deployment", "nowhere", nodeSelector={"no": "such-node"}))
    cluster.wait("its pod is there", lambda: bool(cluster.get("pods", "-n", namespace)["items"]))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": namespace}}
    cluster.apply({**quota, "spec": {"hard": {"pods": "1"}}})
    cluster.apply(workload("StatefulSet", "full"))

    async def told(client: Client) -> dict[Key, str]:
        live = await read_live(client, keys)
        return await explain_health(client, live, live)

    cluster.wait("both are told", lambda: len(connected(cluster, told)) == 2)
    found = connected(cluster, told)
    assert "Unschedulable: 0/" in found[keys[0]]
    assert "FailedCreate: " in found[keys[1]] and "exceeded quota: none" in found[keys[1]]
