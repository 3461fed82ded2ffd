"""Objects of pods by declaration: of NATS, with one role, and of a type with two."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kit import names
from fleet.kit.app_type import AppService, Ready, Role
from fleet.kit.workload.files import revision
from fleet.kit.workload.pods import pod_template, stateful_set, surroundings
from fleet.kit.workload.template import mark_of
from fleet.model.app_settings import TLS, Resources, Volume
from tests.kit import nats, pair
from tests.kit.nats import NATS
from tests.kit.pair import PAIR

LABELS = {
    "app.kubernetes.io/name": "nats",
    "app.kubernetes.io/instance": "bus",
    "app.kubernetes.io/managed-by": "fleet-operator",
    "fleet.dev/app": "bus",
    "fleet.dev/kind": "Nats",
}
SELECTOR = {"app.kubernetes.io/name": "nats", "app.kubernetes.io/instance": "bus"}
SENTINELS = {"app.kubernetes.io/name": "pair-sentinel", "app.kubernetes.io/instance": "cache"}


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(found["kind"], found["metadata"]["name"]): found for found in objects}


def test_a_stateful_set_follows_from_a_declaration() -> None:
    app = nats.app(storage="16Gi", volume=Volume(storage_class="fast"), resources=Resources(cpu="1", memory="1Gi"))
    template = pod_template(NATS, app, "nats:2.10.29")
    made = stateful_set(NATS, app, template, replicas=1)
    assert made["metadata"] == {"name": "bus", "namespace": "shop", "labels": LABELS}
    spec = made["spec"]
    assert (spec["serviceName"], spec["replicas"], spec["selector"]) == ("bus-peers", 1, {"matchLabels": SELECTOR})
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "labels": LABELS},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "16Gi"}},
                "storageClassName": "fast",
            },
        }
    ]
    assert template["metadata"] == {"labels": LABELS, "annotations": {"fleet.dev/template": mark_of(template)}}
    pod = spec["template"]["spec"]
    assert pod["volumes"] == [{"name": "members", "configMap": {"name": "bus-members"}}]
    assert pod["terminationGracePeriodSeconds"] == 30
    assert pod["automountServiceAccountToken"] is False
    assert "initContainers" not in pod
    (container,) = pod["containers"]
    assert container == {
        "name": "nats",
        "image": "nats:2.10.29",
        "imagePullPolicy": "IfNotPresent",
        "command": ["nats-server"],
        "args": [f"--config=/etc/nats/$(POD_NAME).{revision(NATS, app)}.nats.conf"],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "client", "containerPort": 4222}, {"name": "metrics", "containerPort": 8222}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "members", "mountPath": "/etc/nats", "readOnly": True},
        ],
    }


def test_services_and_the_budget_follow_from_a_declaration() -> None:
    port = {"name": "client", "port": 4222, "targetPort": "client", "protocol": "TCP"}
    peers, service, budget = surroundings(NATS, nats.app())
    assert (peers["metadata"]["name"], service["metadata"]["name"], budget["metadata"]["name"]) == (
        "bus-peers",
        "bus",
        "bus",
    )
    assert peers["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": SELECTOR,
        "ports": [port],
    }
    assert service["spec"] == {"selector": SELECTOR, "ports": [port]}, "and no port that only kubelets ask"
    assert budget["spec"] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": SELECTOR},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def test_a_template_changes_with_what_a_restart_is_for_and_with_nothing_else() -> None:
    def mark(**spec: Any) -> str:
        return mark_of(pod_template(NATS, nats.app(**spec), "nats:2.10.29"))

    assert mark() == mark(debug=True), "which is reloaded"
    assert mark() == mark(storage="16Gi", options={"write_deadline": "5s"})
    assert len({mark(), mark(max_payload=2048), mark(resources=Resources(memory="1Gi"))}) == 3


def test_every_role_has_a_stateful_set_of_its_own_and_the_first_keeps_the_name_of_the_app() -> None:
    app = pair.app()
    nodes = stateful_set(PAIR, app, pod_template(PAIR, app, "redis:7"), replicas=3)
    sentinels = stateful_set(
        PAIR, app, pod_template(PAIR, app, "redis:7", role="sentinel"), replicas=3, role="sentinel"
    )
    assert (nodes["metadata"]["name"], sentinels["metadata"]["name"]) == ("cache", "cache-sentinel")
    assert (nodes["spec"]["serviceName"], sentinels["spec"]["serviceName"]) == ("cache-peers", "cache-sentinel-peers")
    assert sentinels["spec"]["selector"] == {"matchLabels": SENTINELS}
    labels = sentinels["spec"]["template"]["metadata"]["labels"]
    assert labels["fleet.dev/app"] == "cache", "the operator watches them by it"
    assert SENTINELS.items() <= labels.items()
    claims = [made["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"] for made in (nodes, sentinels)]
    assert claims == [{"storage": "1Gi"}, {"storage": "64Mi"}]
    first, second = (made["spec"]["template"]["spec"]["containers"][0] for made in (nodes, sentinels))
    assert (first["name"], second["name"]) == ("pair", "sentinel")
    assert (first["resources"]["requests"]["memory"], second["resources"]["requests"]["memory"]) == ("512Mi", "64Mi")


def test_no_role_is_taken_for_another() -> None:
    app = pair.app()
    selectors = [names.selector(app, role.name) for role in PAIR.roles]
    labels = [names.labels(app, role.name) for role in PAIR.roles]
    chosen = [[selector.items() <= of_pod.items() for selector in selectors] for of_pod in labels]
    assert chosen == [[True, False], [False, True]]


def test_a_member_of_a_role_is_known_by_a_name_of_its_own() -> None:
    app = pair.app()
    pod = names.pod(app, 1, "sentinel")
    assert names.host(app, pod, "sentinel") == "cache-sentinel-1.cache-sentinel-peers.shop.svc"
    assert names.host(app, names.pod(app, 0)) == "cache-0.cache-peers.shop.svc"
    assert (names.claim(app, pod), names.ordinal(pod)) == ("data-cache-sentinel-1", 1)


def test_a_role_without_pods_has_nothing_around_it() -> None:
    alone = by_name(surroundings(PAIR, pair.app(members=1)))
    assert not [name for _, name in alone if "sentinel" in name]
    assert ("PodDisruptionBudget", "cache-sentinel") in by_name(surroundings(PAIR, pair.app()))
    assert [role.name for role in PAIR.roles_of(pair.app(members=1))] == [""]


def test_a_service_leads_to_the_role_that_it_is_for_or_where_its_keeper_says() -> None:
    found = by_name(surroundings(PAIR, pair.app()))
    assert "selector" not in found["Service", "cache"]["spec"], "the operator says who takes writes"
    assert "selector" not in found["Service", "cache-replicas"]["spec"]
    every, sentinel = found["Service", "cache-every"]["spec"], found["Service", "cache-sentinel"]["spec"]
    assert every["publishNotReadyAddresses"] is True
    assert (sentinel["selector"], sentinel["ports"][0]["port"]) == (SENTINELS, 26379)


def test_a_service_of_a_primary_needs_a_keeper() -> None:
    with pytest.raises(ValueError, match="a Service to primary needs an agent or the operator"):
        AppService(to="primary")


def test_a_pod_has_what_its_role_declares() -> None:
    app = pair.app()
    made = pod_template(PAIR, app, "redis:7")["spec"]
    (container,), (prepare,) = made["containers"], made["initContainers"]
    assert made["terminationGracePeriodSeconds"] == 60
    assert {made["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {999}
    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["redis-cli", "shutdown", "save"]}}}
    assert container["args"] == ["/data/redis.conf"]
    scratch = [{"name": "scratch-0", "mountPath": "/tmp"}, {"name": "scratch-1", "mountPath": "/run/redis"}]
    assert container["volumeMounts"][2:] == scratch
    assert made["volumes"][1:] == [{"name": "scratch-0", "emptyDir": {}}, {"name": "scratch-1", "emptyDir": {}}]
    config = f"/etc/redis/$(POD_NAME).{revision(PAIR, app)}.redis.conf"
    assert (prepare["name"], prepare["command"]) == ("prepare-0", ["cp", "-n", config, "/data/redis.conf"])
    same = ("image", "env", "resources", "securityContext", "volumeMounts")
    assert {name: prepare[name] for name in same} == {name: container[name] for name in same}
    sentinel = pod_template(PAIR, app, "redis:7", role="sentinel")["spec"]
    assert (sentinel["terminationGracePeriodSeconds"], sentinel["securityContext"]["runAsUser"]) == (30, 65532)
    assert "lifecycle" not in sentinel["containers"][0]


def test_a_kubelet_asks_a_member_as_its_role_declares() -> None:
    app = pair.app()
    node, sentinel = (pod_template(PAIR, app, "redis:7", role=role)["spec"] for role in ("", "sentinel"))
    assert node["containers"][0]["readinessProbe"] == {
        "exec": {"command": ["redis-cli", "-p", "6379", "ping"]},
        "periodSeconds": 5,
        "timeoutSeconds": 3,
        "failureThreshold": 4,
    }
    assert sentinel["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": "sentinel"}


@pytest.mark.parametrize("probe", [{}, {"tcp": "client", "command": ("true",)}])
def test_a_member_is_ready_in_one_way(probe: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly one of them"):
        Ready(**probe)


def test_a_probe_names_no_pod() -> None:
    with pytest.raises(ValueError, match="kubelets fill in no name of a pod"):
        Role(command=("x",), ports=(), ready=Ready(command=("check", "{file:x.conf}")))


def test_certificates_lie_in_members_of_an_encrypted_app_only() -> None:
    plain = pod_template(PAIR, pair.app(), "redis:7")["spec"]
    secret = pod_template(PAIR, pair.app(tls=TLS(enabled=True)), "redis:7")["spec"]
    assert "server" not in [volume["name"] for volume in plain["volumes"]]
    assert secret["volumes"][-1] == {"name": "server", "secret": {"secretName": "cache-server", "defaultMode": 0o440}}
    mount = {"name": "server", "mountPath": "/etc/redis-server", "readOnly": True}
    assert secret["containers"][0]["volumeMounts"][-1] == mount
    assert secret["initContainers"][0]["volumeMounts"][-1] == mount


def test_what_is_made_once_is_not_what_is_made_next() -> None:
    """A caller that changes its template changes nobody else's."""
    first = pod_template(NATS, nats.app(), "nats")
    first["spec"]["containers"][0]["securityContext"]["capabilities"]["drop"].clear()
    first["spec"]["containers"][0]["env"][0]["name"] = "OTHER"
    again = pod_template(NATS, nats.app(), "nats")["spec"]["containers"][0]
    assert again["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert again["env"][0]["name"] == "POD_NAME"
