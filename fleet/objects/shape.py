"""The form that a manifest has wherever the stages after its evaluation look into it. The API server judges all the
rest. Pure.

It is checked where users declare objects, for an error that names the field, and again where the answer of their code
is read: what runs in the sandbox can answer anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fleet.names import GROUP
from fleet.suggestion import closest


class ShapeError(NamedTuple):
    field: str
    message: str
    hint: str | None = None


class _Form(NamedTuple):
    trail: tuple[str, ...]
    what: str = "a map"
    hint: str | None = None
    required: bool = False


_IDENTITY_FORMS = {
    "apiVersion": re.compile(r"(?:[a-z0-9.-]{1,253}/)?[a-z0-9]{1,63}"),
    "kind": re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}"),
}
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TEXTS, _MAPS, _TEXT = "strings only", "a list of maps", "a string"
_OPTIONAL_TEXTS = "a map of strings"  # each by itself; one without a value is left out by the server
_KINDS = {  # of Kubernetes itself, in groups that hardly ever get another
    "": "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod "
    "PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler Scale",
    "batch": "CronJob Job",
    "policy": "Eviction PodDisruptionBudget",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
}
_METADATA = (
    _Form(("metadata", "labels"), _TEXTS, "quote numbers, true and false"),
    _Form(("metadata", "annotations"), _TEXTS, "quote numbers, true and false"),
)
_SPEC, _TEMPLATE = _Form(("spec",)), _Form(("spec", "template"))
_UPDATES = _Form(("spec", "updateStrategy"), hint='such as {"type": "OnDelete"}')
_FORMS_OF_KIND: Mapping[tuple[str, str], tuple[_Form, ...]] = {
    ("", "ConfigMap"): (_Form(("data",), _OPTIONAL_TEXTS, "quote numbers, true and false"),),
    ("", "Secret"): (_Form(("data",)), _Form(("stringData",), hint='such as {"password": "…"}')),
    ("apps", "DaemonSet"): (_SPEC, _TEMPLATE, _UPDATES),
    ("apps", "Deployment"): (_SPEC, _TEMPLATE, _Form(("spec", "strategy"), hint='such as {"type": "Recreate"}')),
    ("apps", "ReplicaSet"): (_SPEC, _TEMPLATE),
    ("apps", "StatefulSet"): (_SPEC, _TEMPLATE, _UPDATES, _Form(("spec", "persistentVolumeClaimRetentionPolicy"))),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        _Form(("spec",), required=True),
        _Form(("spec", "group"), _TEXT, required=True),
        _Form(("spec", "names"), required=True),
        _Form(("spec", "names", "kind"), _TEXT, required=True),
        _Form(("spec", "versions"), _MAPS),
    ),
}
_FORMS_OF_APPS = (
    _SPEC,
    _Form(("spec", "volume")),
    _Form(("spec", "adopt")),
    _Form(("spec", "adopt", "statefulSet"), _TEXT),
)


def find_shape_error(manifest: Mapping[str, Any]) -> ShapeError | None:
    """Return the first field that has another form, of an object that has apiVersion, kind and metadata; None if all
    fit.
    """
    for name, pattern in _IDENTITY_FORMS.items():
        if not pattern.fullmatch(manifest[name]):
            return ShapeError(name, f"{manifest[name][:80]!r} is none that there can be")
    namespace = manifest["metadata"].get("namespace", "")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        return ShapeError(
            "metadata.namespace", f"{namespace[:80]!r} is not a name", "lower-case letters, digits and dashes"
        )
    if items_field := next((name for name in manifest if name.lower() == "items"), None):
        # kubectl takes whatever has this for a list, and applies what is in it as objects.
        return ShapeError(items_field, "would be applied as objects of their own", "declare each of them by itself")
    group = manifest["apiVersion"].rpartition("/")[0]
    if suggested_kind := _suggest_kind(group, manifest["kind"]):
        kind, version = manifest["kind"], manifest["apiVersion"]
        return ShapeError("kind", f"{version} has no kind {kind!r}", f"did you mean {suggested_kind!r}?")
    kind_forms = _FORMS_OF_APPS if group == GROUP else _FORMS_OF_KIND.get((group, manifest["kind"]), ())
    for form in (*_METADATA, *kind_forms):
        value: Any = manifest
        for name in form.trail:  # what is above was looked at before
            value = value.get(name)
            if value is None:
                break
        if value is None and form.required:
            return ShapeError(".".join(form.trail), f"is missing, and must be {form.what}")
        if value is not None and not _fits(value, form.what):
            if form.what == _OPTIONAL_TEXTS and isinstance(value, dict):
                name, misfit = next((name, item) for name, item in value.items() if not isinstance(item, str | None))
                return ShapeError(
                    f"{'.'.join(form.trail)}.{name}", f"must be a string{_describe_actual(misfit)}", form.hint
                )
            verb = "hold" if form.what == _TEXTS else "be"
            return ShapeError(".".join(form.trail), f"must {verb} {form.what}{_describe_actual(value)}", form.hint)
    return None


@lru_cache(maxsize=1_000)
def _suggest_kind(group: str, kind: str) -> str | None:
    """Return the kind of Kubernetes itself that was probably meant; None for one that exists, and for one that is like
    none.
    """
    kinds = _KINDS.get(group, "").split()
    return None if not kinds or kind in kinds else closest(kind, kinds, cutoff=0.8)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a map, else an empty one: there is nothing to look into."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Return the maps of a list; none if the value is no list."""
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def _fits(value: Any, what: str) -> bool:
    if what == _TEXT:
        return isinstance(value, str)
    if what == _MAPS:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if what == _OPTIONAL_TEXTS:
        return isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values())
    return isinstance(value, dict) and (what != _TEXTS or all(isinstance(item, str) for item in value.values()))


def _describe_actual(value: Any) -> str:
    kinds = {bool: "true or false", str: "a string", int: "a number", float: "a number"}
    return f", not {kinds[type(value)]}" if type(value) in kinds else ""
