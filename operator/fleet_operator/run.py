"""The operator's process: one controller per engine, one Lease, one set of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.kit.engine import Engine
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kube.runtime import Controller, Lease, Operator, Watch
from fleet.kube.runtime.handlers import label
from fleet_operator.core import kinds
from fleet_operator.core.reconcile import Reconciler

NAME = "fleet-operator"
SYSTEM = "fleet-system"


def engines(images: Mapping[str, str], permissions: Permissions = DEFAULT) -> list[Engine[Any, Any]]:
    return [EtcdEngine(images, permissions)]


def operator(
    images: Mapping[str, str],
    *,
    permissions: Permissions = DEFAULT,
    namespace: str = "",
    lease: Lease | None = None,
    metrics: tuple[str, int] | None = None,
) -> Operator:
    """`namespace`: look at apps in that one only."""
    return Operator(
        NAME, [_controller(engine, namespace) for engine in engines(images, permissions)], lease=lease, metrics=metrics
    )


def _controller(engine: Engine[Any, Any], namespace: str) -> Controller:
    ours = {"fleet.dev/kind": engine.app.kind()}  # on all that we make, and on what we took over
    children = tuple(Watch(resource, label("fleet.dev/app"), labels=ours) for resource in kinds.CHILDREN)
    nodes = Watch(kinds.NODES, lambda node: (), when=lambda change: False)
    return Controller(
        engine.app.kind().lower(),
        engine.resource,
        Reconciler(engine),
        watches=(*children, nodes),
        namespace=namespace,
        per_namespace=True,
        seconds=180.0,
        at_end=engine.close,
    )
