"""Everything that a stack declared for one cluster, as objects in the order in which they can be created."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.apps.registry import driver
from fleet.errors import ConfigurationError, Source
from fleet.model.adopt import Adopt
from fleet.model.app import App
from fleet.model.cluster import Cluster
from fleet.model.desired import Desired, Key, Object
from fleet.model.graph import CycleError, ordered
from fleet.model.group import API_VERSION, GROUP, NAME
from fleet.model.manifest import Manifest
from fleet.model.plain import copied
from fleet.model.stack import Collected
from fleet.render.data import released
from fleet.render.identity import aliases, check_names, ignored
from fleet.render.needs import Needs
from fleet.render.relation import inherited, objects_of
from fleet.render.rights import binding, binding_key

MANAGED_BY = "app.kubernetes.io/managed-by"
STACK = "fleet.dev/stack"
NOT_OURS = frozenset({"default", "fleet-system", "kube-node-lease", "kube-public", "kube-system"})  # always there


def render(collected: Collected, cluster: Cluster) -> Desired:
    """What the stack wants in this cluster. Dependencies come first, and else the order is that of the keys."""
    made = {resource.key: _object(resource, collected) for resource in objects_of(collected)}
    check_names(objects_of(collected), made)
    made.update({one.key: one for one in _bindings(collected, made)})
    namespace = _namespace(collected, made)
    if namespace is not None:
        made[namespace.key] = namespace
    known = Needs(collected, made)
    needs = {key: known.of(key) for key in made}
    try:
        order = ordered(sorted(made), needs)
    except CycleError as error:
        first = made[error.path[0]]  # type: ignore[index]
        raise ConfigurationError(
            f"dependency cycle: {' → '.join(map(str, error.path))}",
            hint="take one of these out of depends_on",
            source=first.source,
            field="opts.depends_on",
        ) from None
    return Desired(
        stack=collected.stack,
        cluster=cluster.name,
        objects=tuple(replace(made[key], depends_on=needs[key]) for key in order),
        exports=_sorted(dict(collected.exports)),
        source=collected.source,
    )


def _object(resource: App | Manifest, collected: Collected) -> Object:
    protect, retain = inherited(resource)
    if isinstance(resource, App):
        manifest = _custom_resource(resource)
        app = resource.kind()
        _check_served(resource, resource.source)
    else:
        manifest = copied(dict(resource.object))
        app = _written_by_hand(manifest, resource.source)
    if collected.delete_data:
        manifest = released(manifest, _type_of(app))
    return Object(
        manifest=_sorted(_labelled(manifest, collected.stack, resource.source)),
        source=resource.source,
        app=app,
        protect=protect,
        retain_on_delete=retain,
        adopt=_taken_over(resource),
        take_from=_taken_from(resource),
        ignore_changes=ignored(resource),
        aliases=aliases(resource),
    )


def _taken_over(resource: App | Manifest) -> bool:
    """The object itself. Members that run already become an app's by a custom resource that is new."""
    return resource.opts.adopt is True if isinstance(resource, App) else bool(resource.opts.adopt)


def _taken_from(resource: App | Manifest) -> tuple[str, ...]:
    """Of a manifest; what an app takes is the operator's to take."""
    adopt = resource.opts.adopt
    return tuple(adopt.take_from) if isinstance(resource, Manifest) and isinstance(adopt, Adopt) else ()


def _custom_resource(app: App) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": app.kind().lower(), "app.kubernetes.io/instance": app.key.name}
    if app.name != app.key.name:
        labels[NAME] = app.name
    return {
        "apiVersion": API_VERSION,
        "kind": app.kind(),
        "metadata": {"name": app.key.name, "namespace": app.key.namespace, "labels": labels},
        "spec": app.spec(),
    }


def _written_by_hand(manifest: dict[str, Any], source: Source) -> str:
    """The app type of a custom resource of ours that is given as a dict or in YAML, checked as if it were typed."""
    key = Key.of(manifest)
    engine = driver(key.kind) if key.group == GROUP else None
    if engine is None:
        return ""
    _check_served(engine.app.from_manifest(manifest, source=source), source)
    return key.kind


def _check_served(app: App, source: Source) -> None:
    """What nothing would come of is refused where it is written, and not accepted in silence."""
    engine = driver(app.kind())
    for problem in engine.validate(app) if engine else ():
        raise ConfigurationError(problem.message, hint=problem.hint, source=source, field=problem.field)


def _type_of(kind: str) -> type[App] | None:
    engine = driver(kind) if kind else None
    return engine.app if engine else None


def _labelled(manifest: dict[str, Any], stack: str, source: Source) -> dict[str, Any]:
    labels = dict(manifest["metadata"].get("labels") or {})
    if labels.get(STACK, stack) != stack:
        raise ConfigurationError(
            f"the label {STACK} says which stack owns an object, and this is {stack!r}",
            hint="leave the label out",
            source=source,
            field=f"metadata.labels[{STACK!r}]",
        )
    manifest["metadata"]["labels"] = {**labels, MANAGED_BY: "fleet", STACK: stack}
    return manifest


def _bindings(collected: Collected, made: dict[Key, Object]) -> list[Object]:
    """The operator's rights in each namespace with apps of the stack. Apps that are kept when they are taken out of
    git go on being looked after, so their binding is kept with them."""
    apps: dict[str, list[Object]] = {}
    for one in made.values():
        if one.app:
            apps.setdefault(one.key.namespace, []).append(one)
    return [
        Object(
            manifest=_sorted(_labelled(binding(namespace, collected.stack), collected.stack, collected.source)),
            source=collected.source,
            retain_on_delete=any(one.retain_on_delete for one in there),
        )
        for namespace, there in apps.items()
        if binding_key(namespace, collected.stack) not in made
    ]


def _namespace(collected: Collected, made: dict[Key, Object]) -> Object | None:
    """The stack's own namespace, if anything lives there and the stack does not declare it itself.

    It is kept when the stack goes: with a namespace go the volumes in it, and that needs a word in git: the stack's
    `delete_data=True`, or a Manifest of the namespace that says so.
    """
    key = Key("", "Namespace", "", collected.namespace)
    if key.name in NOT_OURS or key in made or all(other.namespace != collected.namespace for other in made):
        return None
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": collected.namespace}}
    if collected.delete_data:
        manifest = released(manifest)
    labelled = _sorted(_labelled(manifest, collected.stack, collected.source))
    return Object(manifest=labelled, source=collected.source, retain_on_delete=not collected.delete_data)


def _sorted(value: Any) -> Any:
    """With keys in order all the way down, so that equal data is equal bytes."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value
