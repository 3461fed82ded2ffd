"""Manifests of others, with anything in the place of anything: a preview of them is a preview or an error of ours."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import orjson

from fleet.approval.record import changes_of_merge, desired_by_placement, states_of
from fleet.errors import Source
from fleet.evaluate.decode import MalformedError
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.evaluate.schema import check_object
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.redaction import SecretValues, declared_secrecy, redact_manifest
from fleet.plan import Plan
from fleet.plan.budget import DeletionBudget
from fleet.plan.step import plan_hash
from fleet.plan.views.html import html_page
from fleet.plan.views.json import plan_data
from fleet.plan.views.markdown import markdown_comments
from fleet.plan.views.summary import PlanView
from fleet.plan.views.text import text_tree
from fleet.preview.compare import compare_evaluations

ROUNDS = 200
PODS = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"port": 1}]}]},
}
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"properties": {"pw": {"type": "string", "format": "password"}}}},
    "additionalProperties": {"items": {"format": "password"}},
    "allOf": [{"properties": {"x": {}}}],
}


def named(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": kind.lower(), "namespace": "shop", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


WHOLE = (
    named("v1", "ConfigMap", data={"a": "1"}),
    named("v1", "Secret", data={"a": "MQ=="}, stringData={"b": "2"}),
    named("v1", "secrets", data={"a": "MQ=="}, stringData={"b": "2"}),
    named("v1", "Namespace"),
    named("v1", "PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "1Gi"}}}),
    named("v1", "ConfigMapList", items=[named("v1", "Secret", data={"a": "MQ=="})]),
    named("apps/v1", "Deployment", spec={"replicas": 3, "strategy": {"type": "Recreate"}, "template": PODS}),
    named("apps/v1", "DaemonSet", spec={"updateStrategy": {"type": "OnDelete"}, "template": PODS}, status={"x": 1}),
    named("apps/v1", "ReplicaSet", spec={"replicas": 2, "template": PODS}),
    named(
        "apps/v1",
        "StatefulSet",
        spec={
            "replicas": 3,
            "template": PODS,
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"},
        },
    ),
    named(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        spec={
            "group": "example.com",
            "names": {"kind": "Gizmo", "plural": "gizmos"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": SCHEMA}}],
        },
    ),
    named("example.com/v1", "Gizmo", spec={"pw": "x", "list": [{"name": "a"}, {"name": "b"}]}),
    named("fleet.dev/v1alpha1", "Etcd", spec={"version": "3.5", "members": 3, "volume": {"size": "1Gi"}}),
    named("fleet.dev/v1alpha1", "Etcd", spec={"version": "3.5", "adopt": {"identity": "x", "statefulSet": "y"}}),
)
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**63 - 1, 1.5, 1e300, "", "x", "Recreate", "/merge", "1e99999999999999999999",
    "\ud7ff", [], [None], ["x"], [[]], [{}], [{"name": "a"}, {"name": "a"}], [{"name": 1}], {}, {"": ""}, {"a": None},
    {"a": {}}, {"type": ["x"]}, {"name": {}},
)  # fmt: skip
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"protect": True}, {"retain_on_delete": True}, {"adopt": True, "take_from": ("helm",)},
    {"ignore_changes": ("spec.replicas",)},
    {"ignore_changes": ("metadata[a].*", "spec.template.spec.containers[name=c].image")},
    {"app": "Etcd"}, {"app": "meaning"},
    {"aliases": (Key("apps", "Deployment", "shop", "deployment"),)}, {"depends_on": (Key("", "", "", ""),)},
)  # fmt: skip


def places(value: Any, trail: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*trail, name)
        yield from places(value[name], (*trail, name))


def spoiled(manifest: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A copy with another thing in a place or three, or without it."""
    made = copy.deepcopy(manifest)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        *above, last = chance.choice(list(places(made)))
        inner: Any = made
        for name in above:
            inner = inner[name]
        if isinstance(inner, dict) and chance.random() < 0.15:
            del inner[last]
        else:
            inner[last] = copy.deepcopy(chance.choice(ODD))
    return made


def wanted(chance: random.Random, cluster: str) -> Desired:
    objects = []
    for manifest in WHOLE:
        one = Object(spoiled(manifest, chance), Source("stacks/shop.py", 1), **chance.choice(OPTIONS))
        try:
            check_object(one)
        except MalformedError:
            continue
        objects.append(one)
    return Desired("shop", cluster, tuple(objects))


def evaluation(chance: random.Random) -> Evaluation:
    source = Source("stacks/shop.py", 1)
    stack = StackResult("shop", source, ("eu",), RolloutData((("eu",),), "0s", "1m"), (wanted(chance, "eu"),))
    return Evaluation((ClusterData("eu", {}, None, None, False, source),), (stack,), ())


def test_whatever_is_in_a_manifest_it_is_shown_recorded_or_refused() -> None:
    for seed in range(ROUNDS):
        try:
            check(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"with the seed {seed}") from error


def check(chance: random.Random) -> None:
    before, after = evaluation(chance), evaluation(chance)
    results, _ = compare_evaluations(before, after, budget=DeletionBudget(1000, 1.0))
    plans: list[Plan] = [one.plan for one in results if one.plan]
    branches: list[PlanView] = [one.branch for one in results]
    assert markdown_comments(branches)
    assert text_tree(branches)
    assert html_page(branches)
    assert orjson.dumps(plan_data(branches))
    assert plan_hash(plans)
    changes_of_merge(before, after, plans)
    for one in desired_by_placement(after).values():
        states_of(one)
    manifests = [one.manifest for each in desired_by_placement(after).values() for one in each.objects]
    secrecy = declared_secrecy(manifests)
    SecretValues.of(manifests, secrecy)
    for manifest in manifests:
        redact_manifest(manifest, secrecy)
