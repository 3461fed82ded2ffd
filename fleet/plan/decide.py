"""Desired × inventory × live → the steps that make them agree.

One object, one verb, decided by a list of guards from top to bottom. Nothing here asks anybody anything: `live` maps
every key of `keys_to_read` to its object, or to None where the object is certainly absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleet.errors import ConflictError
from fleet.model.desired import Desired, Key, Object
from fleet.plan.compare import compare
from fleet.plan.ignore import with_ignored
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.normal import manifest_hash, normalise
from fleet.plan.owned import owned_fields
from fleet.plan.ownership import Whose, ownership
from fleet.plan.redact import redact_changes
from fleet.plan.step import Plan, Step, Verb

Live = Mapping[Key, dict[str, Any] | None]

# Deleting one of these takes data or other people's objects with it: only with a word in the manifest in git.
HOLDS_DATA = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
ON_DELETE = "fleet.dev/on-delete"
OWN_PREFIXES = ("fleet.dev/", "app.kubernetes.io/")


def keys_to_read(desired: Desired, inventory: Inventory | None) -> tuple[Key, ...]:
    """Every key that `plan` looks up in `live`."""
    keys = {wanted.key for wanted in desired.objects}
    keys.update(alias for wanted in desired.objects for alias in wanted.aliases)
    keys.update(entry.key for entry in (inventory.entries if inventory else ()))
    return tuple(sorted(keys))


def plan(desired: Desired, inventory: Inventory | None, live: Live, *, revision: str = "") -> Plan:
    """The plan for one stack on one cluster."""
    before = inventory or Inventory(desired.stack, desired.cluster)
    if before.cluster != desired.cluster:
        raise ConflictError(
            f"stack {desired.stack} is in this cluster already, under the name {before.cluster}",
            hint=f"{desired.cluster} and {before.cluster} are the same cluster: "
            "let each name its own kubeconfig context, or remove one of them",
            source=desired.source,
        )
    entries = before.by_key()
    renamed = _renames(desired, entries, live)
    steps = [_wanted(desired.stack, _renamed(wanted, renamed), wanted.key, entries, live) for wanted in desired.objects]
    claimed = {step.key for step in steps}
    unwanted = [entry for entry in before.entries if entry.key not in claimed]
    steps += [_unwanted(desired.stack, entry, unwanted, live[entry.key]) for entry in reversed(unwanted)]
    if any(step.verb is Verb.CONFLICT for step in steps):
        steps = [_held_back(step, entries) for step in steps]
    return Plan(desired.stack, desired.cluster, tuple(steps), before, revision)


def leave(inventory: Inventory) -> Plan:
    """The plan for a cluster that a stack is no longer placed on: everything is left running and forgotten."""
    reason = f"{inventory.stack} is no longer placed on {inventory.cluster}; left running"
    steps = tuple(Step(Verb.FORGET, entry.key, uid=entry.uid or None, reason=reason) for entry in inventory.entries)
    return Plan(inventory.stack, inventory.cluster, steps, inventory, leaving=True)


def _wanted(stack: str, wanted: Object, name: Key, entries: Mapping[Key, Entry], live: Live) -> Step:
    """`name` is the object's key in the stack; an alias may have led to another one in the cluster."""
    key, there = wanted.key, live[wanted.key]
    manifest = normalise(wanted.manifest)
    entry = Entry(
        key=key,
        version=manifest["apiVersion"].rpartition("/")[2],
        hash=manifest_hash(manifest),
        retain=wanted.retain_on_delete or _holds_data(manifest),
        protect=wanted.protect,
        after=wanted.depends_on,
    )
    known = entries.get(key)
    step = Step(Verb.CREATE, key, manifest, source=wanted.source, depends_on=wanted.depends_on, entry=entry)
    if there is None:
        gone = "it was deleted by somebody else" if known and known.uid else ""
        return replace(step, reason=gone, meanings=_meaning(wanted.app, None, manifest)[0])
    metadata = there["metadata"]
    step = replace(step, uid=metadata["uid"], resource_version=metadata.get("resourceVersion"))
    if key != name:
        step = replace(step, reason=f"is {name.name} in the stack and keeps its name in the cluster")
    if "deletionTimestamp" in metadata:
        return _conflict(step, "is being deleted; sync again once it is gone")
    answer = ownership(stack, known, there)
    if answer.whose in (Whose.FOREIGN, Whose.OTHER_STACK) and not wanted.adopt and _is_bare_namespace(manifest):
        reason = f"belongs to {answer.owner}; used as it is"
        return replace(step, verb=Verb.UNCHANGED, manifest=None, entry=None, reason=reason)
    if answer.whose is Whose.OTHER_STACK:
        return _conflict(step, f"belongs to {answer.owner}")
    if answer.whose is Whose.FOREIGN and not wanted.adopt:
        how = "was deleted and made anew by" if answer.remade else "exists and belongs to"
        return _conflict(step, f"{how} {answer.owner}; take it over with opts=Options(adopt=True)")
    owned = owned_fields(there)
    manifest = with_ignored(manifest, there, owned, wanted.ignore_changes)
    # The file changed since it was applied: something may have been taken out of a value that is owned as a whole.
    changes = compare(manifest, there, owned, key=key)
    if not changes and known and known.hash != entry.hash:
        changes = compare(manifest, there, owned, key=key, strict=True)
    step = replace(
        step,
        manifest=manifest,
        entry=replace(entry, uid=metadata["uid"]),
        changes=redact_changes(key, changes),
    )
    if changes:
        texts, impossible = _meaning(wanted.app, there, manifest)
        if impossible:
            return replace(_conflict(step, f"cannot be changed so: {impossible}"), refused=True)
        step = replace(step, meanings=texts)
    if answer.whose is not Whose.OURS:
        why = (
            f"belonged to {answer.owner}" if answer.owner else "was applied by this stack, but is not in its inventory"
        )
        return replace(step, verb=Verb.ADOPT, reason=why)
    if changes:
        return replace(step, verb=Verb.UPDATE)
    recorded = replace(entry, uid=metadata["uid"], hash=known.hash if known and known.hash else entry.hash)
    return replace(step, verb=Verb.UNCHANGED, manifest=None, entry=recorded)


def _unwanted(stack: str, entry: Entry, unwanted: list[Entry], there: dict[str, Any] | None) -> Step:
    step = Step(Verb.FORGET, entry.key)
    if there is None:
        return replace(step, reason="is gone already")
    metadata = there["metadata"]
    step = replace(step, uid=metadata["uid"], resource_version=metadata.get("resourceVersion"))
    answer = ownership(stack, entry, there)
    if answer.whose is not Whose.OURS:
        return replace(step, reason=f"belongs to {answer.owner or 'somebody else'} now; left alone")
    if "deletionTimestamp" in metadata:
        return replace(step, verb=Verb.UNCHANGED, entry=entry, reason="is being deleted")
    if entry.retain:
        why = "holds data" if (entry.key.group, entry.key.kind) in HOLDS_DATA else "retain_on_delete"
        return replace(step, reason=f"{why}; left running")
    if entry.protect:
        reason = "is protected: set protect=False and sync before taking it out of the stack"
        return replace(_conflict(step, reason), refused=True)
    before = tuple(other.key for other in unwanted if entry.key in other.after or _is_inside(other.key, entry.key))
    return replace(step, verb=Verb.DELETE, depends_on=before)


def _is_inside(key: Key, namespace: Key) -> bool:
    return namespace.kind == "Namespace" and namespace.group == "" and key.namespace == namespace.name


def _held_back(step: Step, entries: Mapping[Key, Entry]) -> Step:
    """What is to be deleted may be what is still in use while its successor cannot be made."""
    if step.verb is not Verb.DELETE:
        return step
    reason = "to be deleted, but not while the stack has a conflict"
    return replace(step, verb=Verb.UNCHANGED, entry=entries[step.key], reason=reason)


def _meaning(app: str, there: dict[str, Any] | None, manifest: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """What it means for the app, in its driver's words, and why the engine cannot do it, if it cannot."""
    if not app:
        return (), ""
    from fleet.apps.meaning import explain  # noqa: PLC0415 - brings pydantic, which plans without apps do not need

    meaning = explain(app, there, manifest)
    return meaning.texts, "; ".join(str(problem) for problem in meaning.problems)


def _conflict(step: Step, reason: str) -> Step:
    return replace(step, verb=Verb.CONFLICT, manifest=None, entry=None, reason=reason)


def _renames(desired: Desired, entries: Mapping[Key, Entry], live: Live) -> dict[Key, Key]:
    """New key → the key under which the object is in the cluster. Kubernetes cannot rename; so the name stays there."""
    wanted = {one.key for one in desired.objects}
    found: dict[Key, Key] = {}
    for one in desired.objects:
        if one.key in entries or live[one.key] is not None:
            continue
        for alias in one.aliases:
            same_kind = (alias.group, alias.kind) == (one.key.group, one.key.kind)
            if same_kind and alias in entries and alias not in wanted and live[alias] is not None:
                found[one.key] = alias
                break
    return found


def _renamed(wanted: Object, renamed: Mapping[Key, Key]) -> Object:
    depends_on = tuple(renamed.get(key, key) for key in wanted.depends_on)
    former = renamed.get(wanted.key)
    if not former:
        return replace(wanted, depends_on=depends_on)
    metadata = {**wanted.manifest["metadata"], "name": former.name}
    if former.namespace:
        metadata["namespace"] = former.namespace
    return replace(wanted, manifest={**wanted.manifest, "metadata": metadata}, depends_on=depends_on)


def _holds_data(manifest: dict[str, Any]) -> bool:
    key = Key.of(manifest)
    word = manifest["metadata"].get("annotations", {}).get(ON_DELETE)
    return (key.group, key.kind) in HOLDS_DATA and word != "delete"


def _is_bare_namespace(manifest: dict[str, Any]) -> bool:
    """A namespace that only has to exist, as every stack has one: sharing it with others is no conflict."""
    metadata = manifest["metadata"]
    own = all(label.startswith(OWN_PREFIXES) for label in metadata.get("labels", {}))
    return manifest["kind"] == "Namespace" and not metadata.get("annotations") and "spec" not in manifest and own
