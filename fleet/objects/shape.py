"""The form that a manifest has wherever the stages after its evaluation look into it. The server judges all the rest.

Asked where users declare objects, for an error that names the field, and again where the answer of their code is read:
what runs in the sandbox can answer anything. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fleet.names import GROUP
from fleet.suggestion import closest


class Misshapen(NamedTuple):
    field: str
    message: str
    hint: str | None = None


class _Form(NamedTuple):
    trail: tuple[str, ...]
    what: str = "a map"
    hint: str | None = None
    required: bool = False


_WORDS = {
    "apiVersion": re.compile(r"(?:[a-z0-9.-]{1,253}/)?[a-z0-9]{1,63}"),
    "kind": re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}"),
}
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TEXTS, _MAPS, _TEXT = "strings only", "a list of maps", "a string"
_WORTH = "a map of strings"  # each by itself; one without a value is left out by the server
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
_OF_KIND: Mapping[tuple[str, str], tuple[_Form, ...]] = {
    ("", "ConfigMap"): (_Form(("data",), _WORTH, "quote numbers, true and false"),),
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
_OF_APPS = (
    _SPEC,
    _Form(("spec", "volume")),
    _Form(("spec", "adopt")),
    _Form(("spec", "adopt", "statefulSet"), _TEXT),
)


def misshapen(manifest: Mapping[str, Any]) -> Misshapen | None:
    """The first field that has another form, of an object that has apiVersion, kind and metadata."""
    for name, words in _WORDS.items():
        if not words.fullmatch(manifest[name]):
            return Misshapen(name, f"{manifest[name][:80]!r} is none that there can be")
    namespace = manifest["metadata"].get("namespace", "")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        return Misshapen(
            "metadata.namespace", f"{namespace[:80]!r} is not a name", "lower-case letters, digits and dashes"
        )
    if listed := next((name for name in manifest if name.lower() == "items"), None):
        # kubectl takes whatever has this for a list, and applies what is in it as objects.
        return Misshapen(listed, "would be applied as objects of their own", "declare each of them by itself")
    group = manifest["apiVersion"].rpartition("/")[0]
    if meant := _misspelt(group, manifest["kind"]):
        kind, version = manifest["kind"], manifest["apiVersion"]
        return Misshapen("kind", f"{version} has no kind {kind!r}", f"did you mean {meant!r}?")
    special = _OF_APPS if group == GROUP else _OF_KIND.get((group, manifest["kind"]), ())
    for form in (*_METADATA, *special):
        value: Any = manifest
        for name in form.trail:  # what is above was looked at before
            value = value.get(name)
            if value is None:
                break
        if value is None and form.required:
            return Misshapen(".".join(form.trail), f"is missing, and must be {form.what}")
        if value is not None and not _fits(value, form.what):
            if form.what == _WORTH and isinstance(value, dict):
                name, wrong = next((name, one) for name, one in value.items() if not isinstance(one, str | None))
                return Misshapen(f"{'.'.join(form.trail)}.{name}", f"must be a string{_instead(wrong)}", form.hint)
            verb = "hold" if form.what == _TEXTS else "be"
            return Misshapen(".".join(form.trail), f"must {verb} {form.what}{_instead(value)}", form.hint)
    return None


@lru_cache(maxsize=1_000)
def _misspelt(group: str, kind: str) -> str | None:
    """The kind of Kubernetes itself that was probably meant; None for one that there is, and for what is like none."""
    kinds = _KINDS.get(group, "").split()
    return None if not kinds or kind in kinds else closest(kind, kinds, cutoff=0.8)


def mapping(value: Any) -> Mapping[str, Any]:
    """What there is to look into: nothing, where it is no map."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """The maps of a list: none, where it is none."""
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else iter(())


def _fits(value: Any, what: str) -> bool:
    if what == _TEXT:
        return isinstance(value, str)
    if what == _MAPS:
        return isinstance(value, list) and all(isinstance(one, dict) for one in value)
    if what == _WORTH:
        return isinstance(value, dict) and all(isinstance(one, str | None) for one in value.values())
    return isinstance(value, dict) and (what != _TEXTS or all(isinstance(one, str) for one in value.values()))


def _instead(value: Any) -> str:
    kinds = {bool: "true or false", str: "a string", int: "a number", float: "a number"}
    return f", not {kinds[type(value)]}" if type(value) in kinds else ""
