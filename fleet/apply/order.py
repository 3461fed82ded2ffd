"""In which order the steps of a plan are done: pure, from what each object says and what its kind is.

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
    """Which of two steps that may both go is started first; a preference, not a dependency."""
    return _RANKS.get((key.group, key.kind), len(_BASIC))


def applied(steps: Iterable[Step]) -> dict[Key, set[Key]]:
    """For each step that creates or changes: the keys of the steps that come before it. Conflicts count as steps."""
    acting = {step.key: step for step in steps if step.verb in (Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.CONFLICT)}
    defines = {defined: key for key, step in acting.items() for defined in _defined(step)}
    namespaces = {key.name: key for key in acting if (key.group, key.kind) == NAMESPACE}
    before: dict[Key, set[Key]] = {}
    for key, step in acting.items():
        known = {other for other in step.depends_on if other in acting}
        if key.namespace in namespaces:
            known.add(namespaces[key.namespace])
        if (key.group, key.kind) in defines:
            known.add(defines[key.group, key.kind])
        before[key] = known - {key}
    _refuse_cycles(before)
    return before


def deleted(steps: Iterable[Step]) -> dict[Key, set[Key]]:
    """For each delete: the keys to be gone before it, which the plan has said already."""
    acting = {step.key: step for step in steps if step.verb is Verb.DELETE}
    before = {key: {other for other in step.depends_on if other in acting} - {key} for key, step in acting.items()}
    namespaces = {key.name: key for key in acting if (key.group, key.kind) == NAMESPACE}
    for key in acting:
        if key.namespace in namespaces:
            before[namespaces[key.namespace]].add(key)
    _refuse_cycles(before)
    return before


def _defined(step: Step) -> list[tuple[str, str]]:
    """The group and kind that a CustomResourceDefinition defines."""
    manifest: Mapping[str, Any] | None = step.manifest
    if (step.key.group, step.key.kind) != CRD or not manifest:
        return []
    spec = manifest.get("spec", {})
    return [(spec.get("group", ""), spec.get("names", {}).get("kind", ""))]


def _refuse_cycles(before: Mapping[Key, set[Key]]) -> None:
    """Steps that wait for each other would never be done."""
    waiting = {key: set(others) for key, others in before.items()}
    after: dict[Key, list[Key]] = {}
    for key, others in before.items():
        for other in others:
            after.setdefault(other, []).append(key)
    free = [key for key, others in waiting.items() if not others]
    while free:
        done = free.pop()
        waiting.pop(done)
        for key in after.get(done, ()):
            waiting[key].discard(done)
            if not waiting[key]:
                free.append(key)
    if waiting:
        names = ", ".join(str(key) for key in sorted(waiting))
        raise ConfigurationError(f"these objects depend on each other in a circle: {names}")
