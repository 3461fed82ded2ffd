"""The operator's process: one controller per app type, one Lease, one set of metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.apps.registry import describe_types, load_drivers
from fleet.kit.driver import Driver
from fleet.kit.operate.engine import Engine
from fleet.kit.operate.plain_engine import make_engine
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kube.runtime import Controller, Lease, Operator, Watch
from fleet.kube.runtime.handlers import generation_changed, label
from fleet.names import APP_TYPES, GROUP
from fleet_operator.core import kinds
from fleet_operator.core.explain import is_question
from fleet_operator.core.operations import operated_app
from fleet_operator.core.reconcile import Reconciler

NAME = "fleet-operator"
SYSTEM = "fleet-system"

log = logging.getLogger(__name__)


def engines(images: Mapping[str, str], permissions: Permissions = DEFAULT) -> list[Engine[Any, Any]]:
    """Return the acting half of every app type, of fleet and of the installed packages.

    A type of others that cannot be used is left out, with a line in the log: all other apps need an operator, too.
    """
    drivers, errors = load_drivers()
    for error in errors:
        log.error("%s", error.message)
    loaded: dict[str, Engine[Any, Any]] = {}
    for driver in drivers:
        kind = driver.app.kind()
        if kind in loaded:  # what belongs to an app is labelled with its kind alone
            log.error("two app types are called %s: that of %s is not looked after", kind, driver.app.api_group)
        elif (engine := _load_engine(driver, images, permissions)) is not None:
            loaded[kind] = engine
    return list(loaded.values())


def _load_engine(driver: Driver[Any], images: Mapping[str, str], permissions: Permissions) -> Engine[Any, Any] | None:
    """Return the acting half that a driver names, or that of types that name none.

    Return None for one of an installed package that cannot be loaded.
    """
    kind = driver.app.kind()
    try:
        engine = make_engine(driver, images, permissions)
    except Exception:
        if type(driver).__module__.startswith("fleet.apps."):
            raise
        log.exception("the half of %s that acts cannot be loaded from %s", kind, driver.engine or "its declaration")
        return None
    if engine is None:
        log.error("the app type %s has no half that acts: nothing looks after its apps", kind)
    return engine


def operator(
    images: Mapping[str, str],
    *,
    permissions: Permissions = DEFAULT,
    namespace: str = "",
    lease: Lease | None = None,
    metrics: tuple[str, int] | None = None,
) -> Operator:
    """Return the operator with its controllers. `namespace`: look at apps in that one only."""
    loaded = engines(images, permissions)
    if lease is not None:
        lease = replace(lease, annotations={APP_TYPES: describe_engines(loaded)})
    controllers = [_controller(engine, Reconciler(engine, images, permissions), namespace) for engine in loaded]
    return Operator(NAME, controllers, lease=lease, metrics=metrics)


def describe_engines(loaded: Sequence[Engine[Any, Any]]) -> str:
    """Return the types that this operator looks after with their versions, as its Lease says them."""
    names = {f"{engine.app.kind()}.{engine.app.api_group}" for engine in loaded}
    types = {name: version for name, version in describe_types().items() if name in names}
    return json.dumps(types, sort_keys=True, separators=(",", ":"))


def _controller(engine: Engine[Any, Any], reconciler: Reconciler, namespace: str) -> Controller:
    kind, group = engine.app.kind(), engine.app.api_group
    ours = {"fleet.dev/kind": kind}  # on all that we make, and on what we took over
    children = tuple(Watch(resource, label("fleet.dev/app"), labels=ours) for resource in kinds.children(engine))
    spared = tuple(Watch(resource, label("fleet.dev/app"), labels=ours, optional=True) for resource in kinds.SPARED)
    nodes = Watch(kinds.NODES, lambda node: (), when=lambda change: False)
    asked = Watch(kinds.OPERATIONS, operated_app(kind, group), when=generation_changed, optional=True)
    return Controller(
        kind.lower() if group == GROUP else f"{kind.lower()}.{group}",
        engine.resource,
        reconciler,
        watches=(*children, *spared, nodes, asked),
        when=lambda change: generation_changed(change) or is_question(change),
        namespace=namespace,
        per_namespace=True,
        seconds=180.0,
        at_end=engine.close,
    )
