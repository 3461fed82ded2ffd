"""What fleet stores and renders, as files: from the stacks of this repository, and what an operator makes of an etcd.

`python -m tests.stored.files` writes them anew. A changed byte means that others notice: pods restart, approvals no
longer hold, or a record that a release before wrote cannot be read. So a file is written anew only on purpose.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleet import TLS, Resources, Volume
from fleet.apply import inventory
from fleet.approval import record as approval
from fleet.apps import Etcd
from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.layout import write as write_layout
from fleet.bundle import model as rendered
from fleet.bundle import storage
from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.result import Evaluation
from fleet.git import status_records
from fleet.kit import members
from fleet.kit.workload import pods
from fleet.kit.workload.files import members_map
from fleet.model.network_settings import Access, AllowedPeer, AppMetrics, Expose, Network, NodePort
from fleet.model.pod_settings import (
    Affinity,
    DnsConfig,
    DnsOption,
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
from fleet.objects.desired import Key, Object
from fleet.objects.normalise import applied_hash
from fleet.plan import plan
from fleet.plan.effect import Severity
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.step import plan_hash
from fleet.repository import Repository
from fleet.sync.rollout.approvals import changes_digest

ROOT = Path(__file__).parents[2]
DIRECTORY = Path(__file__).parent / "files"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COMMIT = "4" * 40
PODS = ("db-0", "db-1", "db-2")


def files() -> dict[str, bytes]:
    """Return all of them by name."""
    evaluation = evaluate(Repository.find(ROOT)).check()
    return {
        "rendered.json": _json([_manifests(evaluation)]),
        "waves.json": _json({stack.name: changes_digest(stack) for stack in evaluation.stacks}),
        "inventory.txt": inventory.format_entries(
            inventory.format_entry(entry) for entry in entries(evaluation)
        ).encode(),
        "status.json": status_records.encode(status_records.follow(None, REPORT, NOW)),
        "approval.json": approval.encode(APPROVAL),
        "plans.json": _json(dict(_plans(evaluation))),
        "members.json": members.founders(PODS).write().encode(),
        "layout.json": _json(write_layout(LAYOUT)),
        "etcd.json": _json(_etcd()),
        "etcd-marks.json": _json(dict(_marks())),
        "etcd-fields.json": _json(dict(_fields())),
        "etcd-access.json": _json(dict(_access())),
        **{
            f"bundle-{name.replace('/', '-')}": content
            for name, content in storage.encode_bundle(bundle(evaluation)).items()
        },
    }


REPORT = status_records.StatusReport(
    stack="coordination",
    cluster="eu",
    revision=COMMIT,
    health="Degraded",
    message="c-0: it is not ready",
    apps=(
        status_records.AppRecord("Etcd", "orders", "db", "3.5.21", "2/3", "yes", "Degraded", "", "db-2 is not ready"),
    ),
)
APPROVAL = approval.ApprovalRecord(
    tree="1" * 40,
    base="2" * 40,
    head="3" * 40,
    edges=(
        approval.ApprovedChange("orders", "eu", Key("", "ConfigMap", "orders", "c"), "", "a" * 20, Severity.CREATE),
        approval.ApprovedChange("orders", "eu", Key("", "ConfigMap", "orders", "d"), "b" * 20, "", Severity.DELETE),
    ),
    plan_hash="5" * 64,
    subject="orders: one more",
    note="seen by two",
    version="1.2.3",
    recorded=status_records.timestamp(NOW),
)
LAYOUT = Layout(
    "kv", "etcd", "data", "https://{pod}.kv:2380", "https://{pod}.kv:2379", 2379, {"quota": 1}, shadows=("A",)
)


def entries(evaluation: Evaluation) -> list[Entry]:
    """Return inventory entries of all objects, with every flag and field that an entry can have."""
    found = []
    for number, wanted in enumerate(_objects(evaluation)):
        entry = Entry(
            wanted.key,
            wanted.manifest["apiVersion"].rpartition("/")[2],
            f"uid-{number}",
            wanted.hash_with(applied_hash),
        )
        found.append(entry)
    after, odd = found[0].key, Key("rbac.authorization.k8s.io", "ClusterRole", "", "system:a/b c")
    flags = Entry(odd, "v1", "", "", True, True, (after,), ("spec.replicas", "metadata.annotations[a/b]"), "77")
    return [*found, flags]


def bundle(evaluation: Evaluation) -> rendered.Bundle:
    """Return what the first cluster would be given, if it pulled."""
    cluster = evaluation.stacks[0].desired[0].cluster
    stacks = {
        stack.name: rendered.add_hashes(rendered.make_stack_file(stack, cluster))
        for stack in evaluation.stacks
        if any(desired.cluster == cluster for desired in stack.desired)
    }
    parts = tuple(
        rendered.BundlePart(name, COMMIT, rendered.content_digest(file, cluster)) for name, file in stacks.items()
    )
    budget = rendered.BundleBudget(5, 0.5)
    index = rendered.BundleIndex(
        rendered.SCHEMA, "fleet", cluster, {"region": "eu"}, COMMIT, "a subject", budget, "", "fleet-status", parts
    )
    return rendered.Bundle(index, stacks)


def _plans(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    for stack in evaluation.stacks:
        for desired in stack.desired:
            found = plan(
                desired, Inventory(stack.name, desired.cluster), dict.fromkeys(one.key for one in desired.objects)
            )
            yield f"{stack.name} on {desired.cluster}", plan_hash([found])


def _etcd() -> dict[str, Any]:
    apps = {
        "plain": Etcd("db", namespace="orders", version="3.5", storage="2Gi"),
        "open": Etcd("db", namespace="orders", version="3.6", members=5, storage="2Gi", tls=TLS(enabled=False)),
    }
    made = members.founders(PODS)
    return {
        name: {
            "around": pods.surroundings(DRIVER, app),
            "members": members_map(DRIVER, app, made, {}, ()),
            "set": pods.stateful_set(DRIVER, app, pods.pod_template(DRIVER, app, "etcd:v3.5.21"), replicas=3),
            "rolled": pods.pod_template(DRIVER, app.model_copy(update={"roll": "again"}), "etcd:v3.5.35", "trust"),
        }
        for name, app in apps.items()
    }


def _marks() -> Iterator[tuple[str, str]]:
    """Yield a digest of what is made for each of some 300 specs of etcd: pod template, objects, files of members."""
    for (version, image), count, encrypted, resources, (size, kind), config, roll in itertools.product(
        (("3.4", "etcd:v3.4.37"), ("3.5", "etcd:v3.5.21"), ("3.6.5", "mirror/etcd:3.6.5")),
        (1, 3, 5),
        (True, False),
        (Resources(), Resources(cpu="500m", memory="1Gi", cpu_limit="1")),
        (("2Gi", None), ("20Gi", "fast")),
        (EtcdConfig(), EtcdConfig(quota="1Gi", compaction="5m", options={"experimental-warning-apply-duration": "1s"})),
        ("", "again"),
    ):
        app = Etcd(
            "db",
            namespace="orders",
            version=version,
            members=count,
            tls=TLS(enabled=encrypted),
            resources=resources,
            storage=size,
            volume=Volume(storage_class=kind),
            config=config,
        ).model_copy(update={"roll": roll})
        names = tuple(f"db-{number}" for number in range(count))
        made = members.founders(names)
        template = pods.pod_template(DRIVER, app, image, "3fa9" if roll else "")
        objects = [
            *pods.surroundings(DRIVER, app),
            pods.stateful_set(DRIVER, app, template, replicas=count),
            members_map(DRIVER, app, made, {}, ()),
        ]
        spec = f"{version} {count} {'tls' if encrypted else 'plain'} {resources.cpu or '-'} {size}"
        spec += f" {config.quota or '-'} {roll or '-'}"
        yield spec, hashlib.sha256(json.dumps(objects, sort_keys=True, default=list).encode()).hexdigest()[:20]


def _fields() -> Iterator[tuple[str, Any]]:
    """Yield what is made for an etcd that says more of its pods, field by field."""
    said: dict[str, dict[str, Any]] = {
        "placed": {
            "pods": Pods(
                node_selector={"disk": "ssd"},
                tolerations=[Toleration("dedicated", value="databases", effect="NoExecute", seconds=60)],
                affinity=Affinity(
                    nodes=[NodeMatch("disk", ["ssd"])],
                    preferred_nodes=[NodeMatch("rack", ["a"])],
                    near=[PodMatch({"app": "shop"})],
                    apart=[PodMatch({"app": "batch"}, required=True)],
                ),
                spread=[Spread(required=True), Spread("rack", max_skew=2)],
                priority_class="databases",
                pull_secrets=["registry"],
            )
        },
        "labelled": {"pods": Pods(labels={"team": "shop"}, annotations={"prometheus.io/scrape": "true"})},
        "accompanied": {
            "pods": Pods(
                sidecars=[
                    Sidecar(
                        "shipper",
                        image="shipper:1",
                        command=["ship"],
                        arguments=["--all"],
                        env={"LEVEL": "info"},
                        scratch=["/tmp"],
                        connection="/etc/app",
                    )
                ]
            )
        },
        "networked": {
            "network": Network(
                ip_family_policy="PreferDualStack", ip_families=["IPv6", "IPv4"], cluster_domain="corp.example"
            )
        },
        "measured": {"metrics": AppMetrics(service=True, annotations={"prometheus.io/scrape": "true"})},
        "exposed": {
            "expose": Expose(
                type="LoadBalancer",
                annotations={"service.beta.kubernetes.io/aws-load-balancer-internal": "true"},
                node_ports=[NodePort(30379)],
                names=["db.example.com"],
                source_ranges=["192.0.2.0/24"],
                load_balancer_class="example.com/internal",
                traffic_policy="Local",
            )
        },
        "overridden": {
            "pods": Pods(
                overrides=PodOverrides(
                    dns_policy="None",
                    dns_config=DnsConfig(nameservers=["10.0.0.10"], options=[DnsOption("ndots", "2")]),
                    host_aliases=[HostAlias("10.0.0.7", ["nas"])],
                    runtime_class_name="sandboxed",
                    scheduler_name="packer",
                    termination_grace_period_seconds=120,
                    security_context=PodSecurity(run_as_user=1000, fs_group_change_policy="OnRootMismatch"),
                )
            )
        },
    }
    for name, fields in said.items():
        app = Etcd("db", namespace="orders", version="3.5", storage="2Gi", **fields)
        yield (
            name,
            {
                "around": pods.surroundings(DRIVER, app),
                "set": pods.stateful_set(DRIVER, app, pods.pod_template(DRIVER, app, "etcd:v3.5.21"), replicas=3),
            },
        )


def _access() -> Iterator[tuple[str, Any]]:
    """Yield the policies of an etcd, by what it says of who reaches it."""
    named = [AllowedPeer(pods={"app": "shop"}), AllowedPeer(pods={"app": "till"}, namespaces={"team": "sales"})]
    for name, access in {
        "nobody": Access(),
        "named": Access(
            clients=[*named, AllowedPeer(addresses="192.0.2.0/24")], metrics=[AllowedPeer(namespaces={"team": "watch"})]
        ),
    }.items():
        app = Etcd("db", namespace="orders", version="3.5", storage="2Gi", network=Network(access=access))
        yield name, [made for made in pods.surroundings(DRIVER, app) if made["kind"] == "NetworkPolicy"]


def _objects(evaluation: Evaluation) -> Iterator[Object]:
    return (wanted for stack in evaluation.stacks for desired in stack.desired for wanted in desired.objects)


def _manifests(evaluation: Evaluation) -> list[Any]:
    return [
        [desired.stack, desired.cluster, [[str(one.key), one.manifest] for one in desired.objects]]
        for stack in evaluation.stacks
        for desired in stack.desired
    ]


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True, default=list) + "\n").encode()


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for name, content in files().items():
        (DIRECTORY / name).write_bytes(content)


if __name__ == "__main__":
    main()
