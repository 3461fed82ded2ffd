"""Rendering of everything that a stack declared for one cluster into objects, in the order in which they can be
created.

Options that name objects and fields become Kubernetes' terms: former identities, fields that are left alone.

A stack with `delete_data=True` marks each object that would otherwise stay when it leaves git. The mark is in the
objects themselves, so it is synced, shown and recorded before anything is deleted, and an app's operator reads it too.
What an object says about itself counts more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from fleet.apps.registry import driver
from fleet.errors import ConfigurationError, Source
from fleet.model.app import ADOPTION, IDENTITY, App
from fleet.model.cluster import Cluster
from fleet.model.manifest import Manifest
from fleet.model.resource import Adopt
from fleet.model.stack import Collected
from fleet.model.types import check_app_name, check_name
from fleet.model.validation import copy_plain
from fleet.names import NAME, ON_DELETE, STACK, VERSION
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.graph import CycleError, sort_by_dependencies
from fleet.render.dependencies import Dependencies, inherited_options, objects_of
from fleet.render.operator_rights import binding_key, role_binding
from fleet.suggestion import suggestion


def alias_keys(resource: App | Manifest) -> tuple[Key, ...]:
    """Return the other keys under which the resource may be in a cluster; of a renamed app that is its new one, too."""
    if isinstance(resource, Manifest):
        return resource.opts.former_keys(resource.key)
    now = resource.key_in_git
    return tuple(key for key in (now, *resource.opts.former_keys(now)) if key != resource.key)


def check_names(resources: Iterable[App | Manifest], objects: Mapping[Key, Object]) -> None:
    """Raise ConfigurationError where two apps have the same name: what is made for them would have it, too."""
    in_git: dict[Key, App] = {}
    for app in (resource for resource in resources if isinstance(resource, App)):
        first_app = in_git.setdefault(app.key_in_git, app)
        if first_app is not app:
            raise ConfigurationError(
                f"{app.key_in_git} is declared twice",
                hint=f"the first is at {first_app.source}; give this one another name",
                source=app.source,
                field="name",
            )
        if app.key != app.key_in_git:
            _check_former_name(app)
    in_cluster: dict[tuple[str, str], Object] = {}
    for obj in objects.values():
        first_object = in_cluster.setdefault((obj.key.namespace, obj.key.name), obj) if obj.app else obj
        if first_object is not obj:
            raise ConfigurationError(
                f"{obj.key} has the name of {first_object.key}, and so would their Services and Secrets",
                hint=f"the other is at {first_object.source}; give one of them another name",
                source=obj.source,
                field="name",
            )


def _check_former_name(app: App) -> None:
    """Raise ConfigurationError for a former name that no app may have: it becomes those of Services and Secrets, as any
    name of an app does.
    """
    try:
        check_app_name(app.key.name)
        check_name(app.key.namespace)
    except (PydanticCustomError, ValidationError) as error:
        context = getattr(error, "context", None) or {}
        message, hint = str(context.get("message", error)), context.get("hint")
        raise ConfigurationError(message, hint=hint, source=app.source, field="opts.aliases") from None


def ignored_paths(resource: App | Manifest) -> tuple[str, ...]:
    """Return the ignored paths as the object has them. An app's own fields may be named as in Python: "restore_from",
    "config.quota".
    """
    if not isinstance(resource, App):
        return tuple(dict.fromkeys(resource.opts.ignore_changes))
    return tuple(dict.fromkeys(_spec_path(resource, path) for path in resource.opts.ignore_changes))


def _spec_path(app: App, path: str) -> str:
    first, rest = re.fullmatch(r"([^.\[]+)(.*)", path, re.DOTALL).groups()  # type: ignore[union-attr]
    if first in ("spec", "metadata"):
        return path
    fields = [name for name in type(app).model_fields if name not in IDENTITY]
    if first not in fields:
        raise ConfigurationError(
            f"{app.kind()} has no field {first!r}",
            hint=suggestion(first, fields),
            source=app.source,
            field="opts.ignore_changes",
        )
    return "spec." + to_camel(first) + re.sub(r"\.(\w+)", lambda match: "." + to_camel(match[1]), rest)


DATA_KINDS = frozenset({("v1", "Namespace"), ("v1", "PersistentVolume"), ("v1", "PersistentVolumeClaim")})


def mark_for_deletion(manifest: dict[str, Any], app: type[App] | None = None) -> dict[str, Any]:
    """Return the manifest with the mark; unchanged where there is nothing to keep. `app` is its type if it
    is an app.
    """
    if (manifest["apiVersion"], manifest["kind"]) in DATA_KINDS:
        metadata = manifest["metadata"]
        annotations = {ON_DELETE: "delete", **(metadata.get("annotations") or {})}
        return {**manifest, "metadata": {**metadata, "annotations": annotations}}
    if app is not None and "volume" in app.model_fields and ADOPTION not in manifest["spec"]:
        spec = manifest["spec"]  # volumes of members that were taken over stay, whatever is said
        return {**manifest, "spec": {**spec, "volume": {"onDelete": "delete", **(spec.get("volume") or {})}}}
    return manifest


MANAGED_BY = "app.kubernetes.io/managed-by"
BUILT_IN_NAMESPACES = frozenset(
    {"default", "fleet-system", "kube-node-lease", "kube-public", "kube-system"}
)  # always there


def render(collected: Collected, cluster: Cluster) -> Desired:
    """Return what the stack wants in this cluster. Dependencies come first, and else the order is that of the keys."""
    objects = {resource.key: _render_object(resource, collected) for resource in objects_of(collected)}
    check_names(objects_of(collected), objects)
    objects.update({obj.key: obj for obj in _operator_bindings(collected, objects)})
    namespace = _stack_namespace(collected, objects)
    if namespace is not None:
        objects[namespace.key] = namespace
    dependencies = Dependencies(collected, objects)
    needs = {key: dependencies.of(key) for key in objects}
    try:
        order = sort_by_dependencies(sorted(objects), needs)
    except CycleError as error:
        first = objects[error.path[0]]  # type: ignore[index]
        raise ConfigurationError(
            f"dependency cycle: {' → '.join(map(str, error.path))}",
            hint="take one of these out of depends_on",
            source=first.source,
            field="opts.depends_on",
        ) from None
    return Desired(
        stack=collected.stack,
        cluster=cluster.name,
        objects=tuple(replace(objects[key], depends_on=needs[key]) for key in order),
        exports=_sort_keys(dict(collected.exports)),
        source=collected.source,
    )


def _render_object(resource: App | Manifest, collected: Collected) -> Object:
    protect, retain = inherited_options(resource)
    if isinstance(resource, App):
        manifest = _custom_resource(resource)
        app = resource.kind()
        _check_supported(resource, resource.source)
    else:
        manifest = copy_plain(dict(resource.object))
        app = _check_custom_resource(manifest, resource.source)
    if collected.delete_data:
        manifest = mark_for_deletion(manifest, _app_type(app, Key.of(manifest).group))
    return Object(
        manifest=_sort_keys(_add_labels(manifest, collected.stack, resource.source)),
        source=resource.source,
        app=app,
        protect=protect,
        retain_on_delete=retain,
        adopt=_is_object_adopted(resource),
        take_from=_managers_to_replace(resource),
        ignore_changes=ignored_paths(resource),
        aliases=alias_keys(resource),
    )


def _is_object_adopted(resource: App | Manifest) -> bool:
    """Return whether the object itself is adopted. Members that run already become an app's by a custom resource that
    is new.
    """
    return resource.opts.adopt is True if isinstance(resource, App) else bool(resource.opts.adopt)


def _managers_to_replace(resource: App | Manifest) -> tuple[str, ...]:
    """Return the field managers whose fields a manifest takes; what an app takes is the operator's to take."""
    adopt = resource.opts.adopt
    return tuple(adopt.take_from) if isinstance(resource, Manifest) and isinstance(adopt, Adopt) else ()


def _custom_resource(app: App) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": app.kind().lower(), "app.kubernetes.io/instance": app.key.name}
    if app.name != app.key.name:
        labels[NAME] = app.name
    return {
        "apiVersion": f"{app.api_group}/{VERSION}",
        "kind": app.kind(),
        "metadata": {"name": app.key.name, "namespace": app.key.namespace, "labels": labels},
        "spec": app.spec(),
    }


def _check_custom_resource(manifest: dict[str, Any], source: Source) -> str:
    """Return the app type of a custom resource of ours that is given as a dict or in YAML, checked as if it were typed;
    "" if it is none.
    """
    key = Key.of(manifest)
    engine = driver(key.kind, key.group)
    if engine is None:
        return ""
    _check_supported(engine.app.from_manifest(manifest, source=source), source)
    return key.kind


def _check_supported(app: App, source: Source) -> None:
    """Raise ConfigurationError for settings that this release does not support: refused where they are written, and not
    accepted in silence.
    """
    engine = driver(app.kind(), app.api_group)
    if engine is None:
        raise ConfigurationError(
            f"{app.kind()} is no app type: neither fleet nor an installed package has it",
            hint="a type is a package that is installed beside fleet, which `fleet new app-type` writes;"
            " a custom resource of another operator is a fleet.Manifest",
            source=source,
        )
    for objection in engine.validate(app):
        raise ConfigurationError(objection.message, hint=objection.hint, source=source, field=objection.field)


def _app_type(kind: str, group: str) -> type[App] | None:
    engine = driver(kind, group) if kind else None
    return engine.app if engine else None


def _add_labels(manifest: dict[str, Any], stack: str, source: Source) -> dict[str, Any]:
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


def _operator_bindings(collected: Collected, objects: dict[Key, Object]) -> list[Object]:
    """Return the operator's rights in each namespace with apps of the stack. Apps that are kept when they are taken out
    of git go on being managed, so their binding is kept with them.
    """
    apps: dict[str, list[Object]] = {}
    for app in objects.values():
        if app.app:
            apps.setdefault(app.key.namespace, []).append(app)
    return [
        Object(
            manifest=_sort_keys(
                _add_labels(role_binding(namespace, collected.stack), collected.stack, collected.source)
            ),
            source=collected.source,
            retain_on_delete=any(app.retain_on_delete for app in apps_there),
        )
        for namespace, apps_there in apps.items()
        if binding_key(namespace, collected.stack) not in objects
    ]


def _stack_namespace(collected: Collected, objects: dict[Key, Object]) -> Object | None:
    """Return the stack's own namespace, if an object is in it and the stack does not declare it itself; else None.

    It is kept when the stack goes: with a namespace go the volumes in it, and that needs a word in git: the stack's
    `delete_data=True`, or a Manifest of the namespace that says so.
    """
    key = Key("", "Namespace", "", collected.namespace)
    if (
        key.name in BUILT_IN_NAMESPACES
        or key in objects
        or all(other.namespace != collected.namespace for other in objects)
    ):
        return None
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": collected.namespace}}
    if collected.delete_data:
        manifest = mark_for_deletion(manifest)
    labelled = _sort_keys(_add_labels(manifest, collected.stack, collected.source))
    return Object(manifest=labelled, source=collected.source, retain_on_delete=not collected.delete_data)


def _sort_keys(value: Any) -> Any:
    """Return the value with keys in order all the way down, so that equal data is equal bytes."""
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(item) for item in value] if isinstance(value, list | tuple) else value
