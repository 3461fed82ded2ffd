"""What would escalate, past the model and past the API server: the operator makes no such pod."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from fleet.apps import Etcd
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.errors import ConfigurationError
from fleet.kit.order import decide
from fleet.kit.permissions import Permissions
from fleet.kit.step import Decision
from fleet.kit.workload.escalation import list_escalations
from fleet.kit.workload.pod_settings import UNPRIVILEGED
from fleet.kit.workload.pods import declared_template
from fleet.model.app import API_VERSION
from fleet.model.base import Forbidden, FrozenMap
from fleet.model.pod_settings import PodOverrides, Pods, PodSecurity, Sidecar, Spread, Toleration
from tests.kit.escalations import ANNOTATIONS, LABELS, OUT_OF_BOUNDS, OVERRIDES, REFUSED, SECURITY
from tests.operator.etcd.observations import IMAGES, Drawing, app

ANY = Permissions(images=("*",))
ROOT = {"runAsUser": 0, "runAsGroup": 0, "fsGroup": 0}


class Anything(PodOverrides, frozen=True, extra="allow"):
    """Overrides of a release that forgot every rule."""

    security_context: Any = None

    forbidden: ClassVar[dict[str, Forbidden]] = {}


def decided(drawing: Drawing, allowed: Permissions = ANY) -> Decision:
    engine = EtcdEngine(IMAGES, allowed)
    seen = engine.judged(drawing.seen())
    return decide(engine.concerns(seen), engine.at_rest(seen))


def begun(wanted: Etcd) -> Drawing:
    """Nothing of it is there."""
    drawing = Drawing(app=wanted, ran=app())
    drawing.ledger, drawing.set, drawing.members = None, None, None
    drawing.pods, drawing.claims, drawing.statuses = {}, {}, {}
    return drawing


def unchecked(**said: Any) -> Etcd:
    """An app of whose pods this is said, checked by nobody."""
    return app().model_copy(update={"pods": Pods.model_construct(**{**dict(Pods()), **said})})


def with_security(name: str, value: Any) -> Etcd:
    return unchecked(overrides=Anything.model_construct(security_context={name: value}))


UNCHECKED: dict[str, Etcd] = {
    **{name: unchecked(overrides=Anything.model_construct(**{name: value})) for name, (value, _) in OVERRIDES.items()},
    "a field of tomorrow": unchecked(overrides=Anything.model_construct(nodeTakeover=True)),
    **{name: with_security(name, value) for name, value in {**SECURITY, **ROOT}.items()},
    **{name: unchecked(annotations=FrozenMap({name: "x"})) for name in ANNOTATIONS if name != "fleet.dev/template"},
    "priority": unchecked(priority_class="system-node-critical"),
    "the engine's container": unchecked(sidecars=[Sidecar("etcd", image="x")]),
    "twice": unchecked(sidecars=[Sidecar("a", image="x"), Sidecar("a", image="x")]),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_the_operator_makes_no_pod_that_would_escalate(name: str) -> None:
    wanted = UNCHECKED[name]
    decision = decided(begun(wanted))
    assert (decision.reason, decision.steps) == ("NotAllowed", ())
    assert "pods." in decision.message
    decision = decided(Drawing(app=wanted, ran=app()))
    assert (decision.reason, decision.steps) == ("NotAllowed", ()), "and gives none to members that run"


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_fleets_own_stay_whatever_is_said(name: str) -> None:
    """What an app says comes first, and fleet's own words over it: none is lost, and those that there are count."""
    template = declared_template(DRIVER, unchecked(labels=FrozenMap({name: "x"})), "etcd")
    if name in template["metadata"]["labels"]:
        assert template["metadata"]["labels"][name] != "x"
    changed = copy.deepcopy(template)
    changed["metadata"]["labels"] = {}
    assert "pods.labels" in {problem.field for problem in refused(changed)}


def refused(template: dict[str, Any]) -> list[Any]:
    return list_escalations(template, declared_template(DRIVER, app(), "etcd"), connection="db-connection")


def _sidecar(**said: Any) -> Callable[[dict[str, Any]], None]:

    container = {"name": "beside", "image": "x", "securityContext": UNPRIVILEGED, **said}
    return lambda spec: spec["containers"].append(container)


def _volume(**said: Any) -> Callable[[dict[str, Any]], None]:
    return lambda spec: spec["volumes"].append(said)


def _of_engine(**said: Any) -> Callable[[dict[str, Any]], None]:
    return lambda spec: spec["containers"][0].update(said)


TEMPLATES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a privileged sidecar": _sidecar(securityContext={"privileged": True}),
    "a sidecar with a capability": _sidecar(
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]}}
    ),
    "a sidecar that says nothing of privileges": _sidecar(securityContext=None),
    "a sidecar on a port of the node": _sidecar(ports=[{"containerPort": 80, "hostPort": 80}]),
    "a sidecar with members' data": _sidecar(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
    "a sidecar with members' keys": _sidecar(volumeMounts=[{"name": "peer", "mountPath": "/keys"}]),
    "a sidecar with a Secret of others": _sidecar(
        env=[{"name": "P", "valueFrom": {"secretKeyRef": {"name": "other-connection", "key": "password"}}}]
    ),
    "a sidecar with all of a Secret": _sidecar(envFrom=[{"secretRef": {"name": "other-connection"}}]),
    "a sidecar with hooks": _sidecar(lifecycle={"preStop": {"exec": {"command": ["sh"]}}}),
    "a directory of the node": _volume(name="fleet-scratch-0-0", hostPath={"path": "/"}),
    "a Secret of another app": _volume(name="fleet-connection", secret={"secretName": "other-connection"}),
    "the keys of its own CA": _volume(name="fleet-connection", secret={"secretName": "db-ca", "defaultMode": 0o440}),
    "a token": _volume(name="fleet-scratch-0-0", projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
    "memory": _volume(name="fleet-scratch-0-0", emptyDir={"medium": "Memory"}),
    "another command": _of_engine(command=["sh"]),
    "another image": _of_engine(image="other"),
    "a privileged member": _of_engine(securityContext={"privileged": True}),
    "a container before": lambda spec: spec.update(initContainers=[{"name": "first"}]),
    "no volume of its own": lambda spec: spec.update(volumes=[]),
    "a token again": lambda spec: spec.pop("automountServiceAccountToken"),
    "no security": lambda spec: spec.pop("securityContext"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_has_more_than_its_type_declares_and_an_app_may_say(name: str) -> None:
    template = declared_template(DRIVER, app(), "etcd")
    assert refused(template) == []
    TEMPLATES[name](template["spec"])
    assert refused(template)


@pytest.mark.parametrize("said", [*(said for said, _ in REFUSED), *OUT_OF_BOUNDS], ids=lambda said: str(said)[:60])
def test_the_operator_reads_no_spec_that_would_escalate(said: dict[str, Any]) -> None:
    """One that came past the API server, whose definition may be of another release."""
    metadata = {"name": "db", "namespace": "shop"}
    manifest = {"apiVersion": API_VERSION, "kind": "Etcd", "metadata": metadata, "spec": {"version": "3.5"}}
    assert Etcd.from_manifest(manifest).pods is None
    manifest["spec"] = {"version": "3.5", "pods": said}
    with pytest.raises(ConfigurationError):
        Etcd.from_manifest(manifest)


def test_what_may_be_said_is_made() -> None:
    said: dict[str, Any] = {
        "node_selector": FrozenMap({"disk": "ssd"}),
        "tolerations": (Toleration("dedicated", operator="Exists"),),
        "spread": (Spread(required=True),),
        "labels": FrozenMap({"team": "shop"}),
        "annotations": FrozenMap({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        "pull_secrets": ("registry",),
        "priority_class": "databases",
        "sidecars": (Sidecar("beside", image="x", scratch=["/tmp"], connection="/etc/app"),),
        "overrides": PodOverrides(
            scheduler_name="packer",
            security_context=PodSecurity(run_as_user=1000, fs_group_change_policy="OnRootMismatch"),
            termination_grace_period_seconds=60,
        ),
    }
    assert decided(begun(app(pods=Pods(**said)))).reason == "Creating"
    decision = decided(Drawing(app=app(pods=Pods(**said)), ran=app()))
    assert decision.reason == "Rolling"


def test_a_sidecar_has_an_image_that_the_operators_owner_allows() -> None:
    wanted = app(pods=Pods(sidecars=[Sidecar("beside", image="registry.example.com/tools/shipper:1")]))
    decision = decided(begun(wanted), Permissions())
    assert (decision.reason, decision.steps) == ("NotAllowed", ())
    assert "--allow-image 'registry.example.com/tools/shipper:1'" in decision.message
    assert decided(Drawing(app=wanted, ran=app()), Permissions()).reason == "NotAllowed"
    assert decided(begun(wanted), Permissions(images=("registry.example.com/tools/*",))).reason == "Creating"


def test_members_whose_pods_may_not_change_are_looked_after_as_they_are() -> None:
    wanted = unchecked(priority_class="system-node-critical")
    drawing = Drawing(app=wanted.model_copy(update={"members": 5}), ran=app())
    decision = decided(drawing)
    assert decision.reason == "ScalingOut"
    assert "system-node-critical" not in str(decision.steps)
