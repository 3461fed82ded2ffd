"""Order of the steps of a plan, from what each object says and what its kind is. Pure.

A definition comes before its objects, a namespace before what is in it, a dependency before what depends on it;
deletes go the other way round. Everything else may go at once; of what may go, the more basic kinds go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.errors import ConfigurationError
from fleet.objects.desired import Key
from fleet.plan.step import Step, Verb

CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
NAMESPACE = ("", "Namespace")

_BASIC = (
    CRD,
    NAMESPACE,
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
    ("", "ResourceQuota"),
    ("", "LimitRange"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("", "ServiceAccount"),
    ("", "Secret"),
    ("", "ConfigMap"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("", "Service"),
)
_RANKS = {kind: rank for rank, kind in enumerate(_BASIC)}


def rank(key: Key) -> int:
    """Return which of two steps that may both go is started first; a preference, not a dependency."""
    return _RANKS.get((key.group, key.kind), len(_BASIC))


def order_changes(steps: Iterable[Step]) -> dict[Key, set[Key]]:
    """Return the keys of the steps before each step that creates or changes something. Conflicts count as steps."""
    acting = {step.key: step for step in steps if step.verb in (Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.CONFLICT)}
    defines = {defined: key for key, step in acting.items() for defined in _defined_kinds(step)}
    namespaces = {key.name: key for key in acting if (key.group, key.kind) == NAMESPACE}
    before: dict[Key, set[Key]] = {}
    for key, step in acting.items():
        predecessors = {other for other in step.depends_on if other in acting}
        if key.namespace in namespaces:
            predecessors.add(namespaces[key.namespace])
        if (key.group, key.kind) in defines:
            predecessors.add(defines[key.group, key.kind])
        before[key] = predecessors - {key}
    _refuse_cycles(before)
    return before


def order_deletes(steps: Iterable[Step]) -> dict[Key, set[Key]]:
    """Return, for each delete, the keys to be gone before it, as the plan has them already."""
    acting = {step.key: step for step in steps if step.verb is Verb.DELETE}
    before = {key: {other for other in step.depends_on if other in acting} - {key} for key, step in acting.items()}
    namespaces = {key.name: key for key in acting if (key.group, key.kind) == NAMESPACE}
    for key in acting:
        if key.namespace in namespaces:
            before[namespaces[key.namespace]].add(key)
    _refuse_cycles(before)
    return before


def _defined_kinds(step: Step) -> list[tuple[str, str]]:
    """Return the group and kind that a CustomResourceDefinition defines."""
    manifest: Mapping[str, Any] | None = step.manifest
    if (step.key.group, step.key.kind) != CRD or not manifest:
        return []
    spec = manifest.get("spec", {})
    return [(spec.get("group", ""), spec.get("names", {}).get("kind", ""))]


def _refuse_cycles(before: Mapping[Key, set[Key]]) -> None:
    """Refuse steps that wait for each other: they would never be done."""
    waiting = {key: set(predecessors) for key, predecessors in before.items()}
    after: dict[Key, list[Key]] = {}
    for key, predecessors in before.items():
        for other in predecessors:
            after.setdefault(other, []).append(key)
    free = [key for key, predecessors in waiting.items() if not predecessors]
    while free:
        key_done = free.pop()
        waiting.pop(key_done)
        for key in after.get(key_done, ()):
            waiting[key].discard(key_done)
            if not waiting[key]:
                free.append(key)
    if waiting:
        names = ", ".join(str(key) for key in sorted(waiting))
        raise ConfigurationError(f"these objects depend on each other in a circle: {names}")
