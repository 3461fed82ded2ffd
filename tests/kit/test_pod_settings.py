"""What an app says of its pods, as it is rendered; and what it may not say, as the model refuses it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet import Resources
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.spec import Etcd
from fleet.errors import ConfigurationError
from fleet.kit.driver import Impact
from fleet.kit.workload.pods import pod_template, stateful_set, surroundings
from fleet.kit.workload.template import mark_of
from fleet.model.app_settings import SecretRef
from fleet.model.base import STORED
from fleet.model.pod_settings import (
    HOSTNAME,
    Affinity,
    DnsConfig,
    HostAlias,
    NodeMatch,
    PodMatch,
    PodOverrides,
    Pods,
    PodSecurity,
    Sidecar,
    Spread,
    Toleration,
)
from fleet.model.resource import Adopt, Options
from tests.kit import nats, pair
from tests.kit.escalations import OUT_OF_BOUNDS, REFUSED
from tests.kit.nats import NATS
from tests.kit.pair import PAIR


def rendered(pods: Pods | None) -> dict[str, Any]:
    return pod_template(NATS, nats.app(pods=pods), "nats:2.10.29")


def test_nothing_said_is_nothing_rendered() -> None:
    assert rendered(None) == rendered(Pods()) == pod_template(NATS, nats.app(), "nats:2.10.29")


def test_pods_run_where_the_app_says() -> None:
    spec = rendered(
        Pods(
            node_selector={"disk": "ssd"},
            tolerations=[
                Toleration("dedicated", value="databases", effect="NoSchedule"),
                Toleration("maintenance", operator="Exists", effect="NoExecute", seconds=60),
            ],
            priority_class="databases",
            pull_secrets=["registry", SecretRef("mirror")],
        )
    )["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "databases", "effect": "NoSchedule"},
        {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    assert (spec["priorityClassName"], spec["imagePullSecrets"]) == (
        "databases",
        [{"name": "registry"}, {"name": "mirror"}],
    )


def test_affinity_is_said_in_short_and_rendered_in_kubernetes_words() -> None:
    affinity = Affinity(
        nodes=[NodeMatch("disk", ["ssd"]), NodeMatch("spot", operator="DoesNotExist")],
        preferred_nodes=[NodeMatch("generation", ["3"], operator="Gt"), NodeMatch("rack", ["a", "b"])],
        near=[PodMatch({"app": "shop"}, within="topology.kubernetes.io/zone")],
        apart=[PodMatch({"app": "batch"}, required=True)],
    )
    made = rendered(Pods(affinity=affinity))["spec"]["affinity"]
    assert made["nodeAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "disk", "operator": "In", "values": ["ssd"]},
                        {"key": "spot", "operator": "DoesNotExist"},
                    ]
                }
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["3"]}]},
            },
            {
                "weight": 88,
                "preference": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a", "b"]}]},
            },
        ],
    }
    near = {"labelSelector": {"matchLabels": {"app": "shop"}}, "topologyKey": "topology.kubernetes.io/zone"}
    assert made["podAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": near}]
    }
    apart = {"labelSelector": {"matchLabels": {"app": "batch"}}, "topologyKey": HOSTNAME}
    assert made["podAntiAffinity"] == {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    assert "affinity" not in rendered(Pods(affinity=Affinity()))["spec"]


def test_a_word_about_spreading_counts_for_its_places_and_leaves_the_others() -> None:
    pods = Pods(spread=[Spread(required=True), Spread("rack", max_skew=2)])
    host, zone, rack = rendered(pods)["spec"]["topologySpreadConstraints"]
    assert host == rendered(None)["spec"]["topologySpreadConstraints"][0]
    assert (zone["topologyKey"], zone["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "DoNotSchedule")
    assert (rack["topologyKey"], rack["maxSkew"], rack["whenUnsatisfiable"]) == ("rack", 2, "ScheduleAnyway")
    assert rack["labelSelector"] == host["labelSelector"]


def test_labels_and_annotations_are_beside_fleets_own() -> None:
    app = nats.app(pods=Pods(labels={"team": "shop"}, annotations={"prometheus.io/scrape": "true"}))
    template = pod_template(NATS, app, "nats:2.10.29")
    plain = rendered(None)["metadata"]
    assert template["metadata"]["labels"] == {"team": "shop", **plain["labels"]}
    mark = mark_of(template)
    assert template["metadata"]["annotations"] == {"prometheus.io/scrape": "true", "fleet.dev/template": mark}
    made = stateful_set(NATS, app, template, replicas=1)
    assert "team" not in made["spec"]["selector"]["matchLabels"] and "team" not in made["metadata"]["labels"]
    assert "team" not in made["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"], "those cannot be changed"
    rolled = pod_template(NATS, app.model_copy(update={"_roll": ""}), "nats:2.10.29")
    assert rolled == template


def test_a_sidecar_runs_without_privilege_and_with_volumes_of_its_own() -> None:
    sidecar = Sidecar(
        "exporter",
        image="example.test/exporter:1",
        command=["export"],
        arguments=["--to=stdout"],
        env={"LEVEL": "info"},
        resources=Resources(cpu="10m", memory="32Mi"),
        scratch=["/tmp"],
        connection="/etc/app",
    )
    plain, spec = rendered(None)["spec"], rendered(Pods(sidecars=[sidecar]))["spec"]
    engine, beside = spec["containers"]
    assert engine == plain["containers"][0]
    assert beside == {
        "name": "exporter",
        "image": "example.test/exporter:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["export"],
        "args": ["--to=stdout"],
        "env": [{"name": "LEVEL", "value": "info"}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}},
        "securityContext": engine["securityContext"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "fleet-scratch-0-0", "mountPath": "/tmp"},
            {"name": "fleet-connection", "mountPath": "/etc/app", "readOnly": True},
        ],
    }
    secret = {"secretName": "bus-connection", "defaultMode": 0o440}
    added = [{"name": "fleet-scratch-0-0", "emptyDir": {}}, {"name": "fleet-connection", "secret": secret}]
    assert spec["volumes"] == [*plain["volumes"], *added]


def test_overrides_are_kubernetes_fields() -> None:
    overrides = PodOverrides(
        dns_policy="None",
        dns_config=DnsConfig(nameservers=["10.0.0.10"]),
        host_aliases=[HostAlias("10.0.0.7", ["nas"])],
        runtime_class_name="sandboxed",
        scheduler_name="packer",
        termination_grace_period_seconds=120,
        security_context=PodSecurity(run_as_user=1000, fs_group_change_policy="OnRootMismatch"),
    )
    plain, spec = rendered(None)["spec"], rendered(Pods(overrides=overrides))["spec"]
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["10.0.0.10"]})
    assert spec["hostAliases"] == [{"ip": "10.0.0.7", "hostnames": ["nas"]}]
    assert (spec["runtimeClassName"], spec["schedulerName"]) == ("sandboxed", "packer")
    assert spec["terminationGracePeriodSeconds"] == 120
    changed = {"runAsUser": 1000, "fsGroupChangePolicy": "OnRootMismatch"}
    assert spec["securityContext"] == {**plain["securityContext"], **changed}


def test_pods_of_every_role_are_as_the_app_says() -> None:
    app = pair.app(pods=Pods(node_selector={"disk": "ssd"}, labels={"team": "shop"}))
    for role in ("", "sentinel"):
        made = pod_template(PAIR, app, "redis:7", role=role)
        assert made["spec"]["nodeSelector"] == {"disk": "ssd"}
        assert made["metadata"]["labels"]["team"] == "shop"
    plain = pair.app()
    assert surroundings(PAIR, app) == surroundings(PAIR, plain)


def test_a_change_of_pods_costs_a_restart() -> None:
    before, after = nats.app(), nats.app(pods=Pods(labels={"team": "shop"}))
    assert list(NATS.changed(before, after)) == ["pods"]
    further = nats.app(pods=Pods(labels={"team": "till"}))
    assert list(NATS.changed(after, further)) == ["pods.labels.team"]
    assert {NATS.classify(field) for field in ("pods", "pods.labels.team", "pods.sidecars")} == {Impact.RESTART}


@pytest.mark.parametrize(("said", "words"), REFUSED, ids=lambda value: str(value)[:60])
def test_the_model_refuses_what_would_escalate(said: dict[str, Any], words: str) -> None:
    """For stacks, and for a spec that a cluster has: nothing that escalates is older than the rule."""
    with pytest.raises(ValueError, match=re.escape(words)):
        Pods.read(said)
    with pytest.raises(ValueError, match=re.escape(words)):
        Pods.model_validate(said, by_alias=True, by_name=False, context={STORED: True})


@pytest.mark.parametrize("said", OUT_OF_BOUNDS, ids=lambda value: str(value)[:60])
def test_the_model_refuses_what_makes_no_sense(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"pods|Pods"):
        Pods.read(said)


def test_a_user_is_told_which_field_and_what_would_be_right() -> None:
    with pytest.raises(ConfigurationError) as refused:
        PodOverrides(host_network=True)  # type: ignore[call-arg]
    assert (refused.value.field, refused.value.hint) == ("hostNetwork", "leave it out")
    assert "namespace of the node" in refused.value.message
    with pytest.raises(ConfigurationError) as refused:
        Etcd("db", version="3.5", pods=Pods(labels={"fleet.dev/app": "x"}))
    assert refused.value.field == "labels" and "example.com/team" in str(refused.value.hint)
    with pytest.raises(ConfigurationError, match="PodOverrides has no field 'tolerate'"):
        PodOverrides(tolerate=True)  # type: ignore[call-arg]


def test_a_sidecar_cannot_be_called_as_a_container_of_fleets_own() -> None:
    app = Etcd("db", version="3.5", pods=Pods(sidecars=[Sidecar("etcd", image="x")]))
    assert [problem.field for problem in DRIVER.validate(app)] == ["pods.sidecars"]
    watched = pair.app(pods=Pods(sidecars=[Sidecar("sentinel", image="x")]))
    assert [problem.field for problem in PAIR.validate(watched)] == ["pods.sidecars"]


def test_pods_that_were_taken_over_stay_as_they_were_found() -> None:
    with pytest.raises(ConfigurationError, match="stay as they were found"):
        Etcd("db", version="3.5", opts=Options(adopt=Adopt(identity="c1")), pods=Pods(labels={"team": "shop"}))
