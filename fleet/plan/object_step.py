"""The step for one object that needs comparing. Pure.

For an object that the stack wants (`desired_step`), it is a list of guards from top to bottom, the first that fits
decides. An object that the stack once created and no longer wants (`removed_step`) is deleted only if nothing speaks
against it.

An object's options are not in the object but in its inventory entry. They decide what may be deleted later, so a commit
that changes only them is a step like any other (`option_changes`).

Fields of `ignore_changes` get their first value from git and are left alone ever after. Leaving such a field out would
make server-side apply remove it wherever we own it; so where it is ours the live value is sent back, and where another
field manager has taken it over it is no longer sent at all (`keep_ignored_fields`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.objects import fields
from fleet.objects.compare import Change, compare
from fleet.objects.desired import Key, Object
from fleet.objects.fields import Fields, Segment, owned_field, owned_fields, parse_item_keys
from fleet.objects.normalise import manifest_hash, normalise
from fleet.plan.decide import DEFAULT_OPTIONS, CompareOptions
from fleet.plan.effect import Effect, EffectKind, delete_effect, holds_data, is_retained, update_effect
from fleet.plan.inventory import Entry
from fleet.plan.ownership import Owner, Ownership, controller_of, determine_ownership
from fleet.plan.step import Step, Verb

if TYPE_CHECKING:
    from fleet.apps.impact import Meaning

_OPTIONS = slice(Entry._fields.index("retain"), Entry._fields.index("ignores") + 1)


def option_changes(recorded: Entry, wanted: Entry) -> tuple[Change, ...]:
    """Return the changed options, by the names that users write: `opts=Options(protect=True)`."""
    if recorded[_OPTIONS] == wanted[_OPTIONS]:
        return ()
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("opts.depends_on", [str(key) for key in recorded.after], [str(key) for key in wanted.after]),
        ("opts.ignore_changes", list(recorded.ignores), list(wanted.ignores)),
        ("opts.protect", recorded.protect, wanted.protect),
        ("opts.retain_on_delete", recorded.retain, wanted.retain),
    )
    return tuple(Change(path, before, after) for path, before, after in pairs if before != after)


def record_reason(recorded: Entry, wanted: Entry) -> str:
    """Return why else the entry is not what it should be, "" if it is."""
    if not recorded.uid:
        return "was made by a sync that did not finish"
    return (
        f"is written as {wanted.version} now, and was as {recorded.version}"
        if recorded.version != wanted.version
        else ""
    )


def keep_ignored_fields(
    desired: dict[str, Any], live: dict[str, Any], owned: Fields | None, ignored: Iterable[str]
) -> dict[str, Any]:
    """Return the manifest with the live value (or nothing) in every ignored place."""
    paths = [fields.parse_path(path) for path in ignored]
    if not paths:
        return desired
    manifest = deepcopy(desired)
    for path in paths:
        _keep_ignored_field(manifest, live, owned, path)
    return manifest


def _keep_ignored_field(desired: Any, live: Any, owned: Fields | None, path: tuple[Segment, ...]) -> None:
    segment, rest = path[0], path[1:]
    if isinstance(desired, dict) and segment.value is None:
        for key in list(desired) if segment.key == "*" else [segment.key]:
            below = {} if owned == {} else owned_field(owned, key)
            is_live = isinstance(live, dict) and key in live
            if rest:
                if key in desired:
                    _keep_ignored_field(desired[key], live[key] if is_live else None, below, rest)
            elif is_live and below is not None:
                desired[key] = deepcopy(live[key])
            else:
                desired.pop(key, None)
    elif isinstance(desired, list) and rest:
        for position, item in enumerate(desired):
            if segment.selects(position, item):
                live_item = _find_counterpart(live, owned, position, item)
                _keep_ignored_field(item, live_item, _owned_item(owned, live_item), rest)


def _find_counterpart(live: Any, owned: Fields | None, position: int, item: Any) -> Any:
    """Return the live item for a desired one: by the list's keys where they are known, else by `name`, else by
    position.
    """
    if not isinstance(live, list):
        return None
    token = next((token for token in owned or () if token.startswith("k:")), None)
    names = tuple(parse_item_keys(token)) if token else ("name",)
    if isinstance(item, dict) and any(name in item for name in names):
        wanted = {name: item[name] for name in names if name in item}
        return next((other for other in live if isinstance(other, dict) and wanted.items() <= other.items()), None)
    return live[position] if position < len(live) else None


def _owned_item(owned: Fields | None, live_item: Any) -> Fields | None:
    if not owned:
        return owned
    if isinstance(live_item, dict):
        for token, below in owned.items():
            if token.startswith("k:") and parse_item_keys(token).items() <= live_item.items():
                item_fields: Fields = below
                return item_fields
    return None


OWN_PREFIXES = ("fleet.dev/", "app.kubernetes.io/")
NO_OBJECTS: Mapping[Key, dict[str, Any] | None] = {}


def desired_step(
    stack: str,
    wanted: Object,
    key: Key,
    recorded: Entry | None,
    live: dict[str, Any] | None,
    *,
    options: CompareOptions = DEFAULT_OPTIONS,
    around: Mapping[Key, dict[str, Any] | None] = NO_OBJECTS,
) -> Step:
    """Return the step for an object that the stack wants.

    `key` is the object's in the cluster; `live` is the object that exists under it, None if certainly none. `around` is
    what was read beside it: an app may be one that its user set up without fleet.
    """
    case = _ObjectCase(wanted, key, recorded, normalise(wanted.manifest), options, around)
    if live is None:
        reason = "it was deleted by somebody else" if recorded and recorded.uid else ""
        texts, objections, _ = _explain_change(wanted.app, None, case.manifest, around)
        if objections:
            return case.conflict(None, f"cannot be made so: {objections}", refused=True)
        return case.step(Verb.CREATE, None, manifest=case.manifest, entry=case.entry(), reason=reason, meanings=texts)
    if "deletionTimestamp" in live["metadata"]:
        return case.conflict(live, "is being deleted; sync again once it is gone")
    ownership = determine_ownership(stack, recorded, live)
    if ownership.owner is Owner.OURS:
        return _owned_step(case, live)
    if ownership.owner is not Owner.LOST and not wanted.adopt and _is_bare_namespace(case.manifest):
        return case.step(Verb.UNCHANGED, live, reason=f"belongs to {ownership.name}; used as it is")
    if ownership.owner is Owner.OTHER_STACK:
        return case.conflict(live, f"belongs to {ownership.name}")
    if ownership.owner is Owner.FOREIGN and not wanted.adopt:
        verb = "was deleted and made anew by" if ownership.remade else "exists and belongs to"
        return case.conflict(live, f"{verb} {ownership.name}; take it over with opts=Options(adopt=True)")
    if ownership.owner is Owner.FOREIGN and (controller := controller_of(live)):
        return case.conflict(live, f"belongs to {controller}; it cannot be taken over")
    return _adopt_step(case, live, ownership)


@dataclass(frozen=True, slots=True)
class _ObjectCase:
    """One desired object with all that its step is decided from."""

    wanted: Object
    key: Key
    recorded: Entry | None
    manifest: dict[str, Any]
    options: CompareOptions
    around: Mapping[Key, dict[str, Any] | None]

    def entry(self, uid: str = "") -> Entry:
        return Entry(
            key=self.key,
            version=self.manifest["apiVersion"].rpartition("/")[2],
            uid=uid,
            hash=self.wanted.hash or manifest_hash(self.manifest),
            retain=self.wanted.retain_on_delete or is_retained(self.key, self.manifest),
            protect=self.wanted.protect,
            after=self.wanted.depends_on,
            ignores=self.wanted.ignore_changes,
        )

    def step(self, verb: Verb, live: dict[str, Any] | None, *, reason: str = "", **more: Any) -> Step:
        metadata = live["metadata"] if live else {}
        return Step(
            verb,
            self.key,
            uid=metadata.get("uid"),
            resource_version=metadata.get("resourceVersion"),
            source=self.wanted.source,
            depends_on=self.wanted.depends_on,
            reason=reason,
            **more,
        )

    def conflict(self, live: dict[str, Any] | None, reason: str, *, refused: bool = False) -> Step:
        return self.step(Verb.CONFLICT, live, reason=reason, refused=refused)


def _owned_step(case: _ObjectCase, live: dict[str, Any]) -> Step:
    previous, entry = case.recorded, case.entry(live["metadata"]["uid"])
    manifest, changes = _compare_with_live(case, live, edited=previous is not None and previous.hash != entry.hash)
    if not changes:
        # An equal object needs no write for a file that only reads differently: the hash of what was applied stays.
        recorded = entry._replace(hash=previous.hash, seen=previous.seen) if previous else entry
        if previous is None or previous == recorded:
            return case.step(Verb.UNCHANGED, live, entry=recorded)
        reason = record_reason(previous, recorded)
        return case.step(Verb.RECORD, live, entry=recorded, changes=option_changes(previous, recorded), reason=reason)
    texts, objections, impact = _explain_change(case.wanted.app, live, manifest, case.around)
    if objections:
        return case.conflict(live, f"cannot be changed so: {objections}", refused=True)
    all_changes = changes + (option_changes(previous, entry) if previous else ())
    effect = update_effect(case.key, live, manifest, changes, impact)
    return case.step(
        Verb.UPDATE, live, manifest=manifest, entry=entry, changes=all_changes, meanings=texts, effect=effect
    )


def _adopt_step(case: _ObjectCase, live: dict[str, Any], ownership: Ownership) -> Step:
    manifest, changes = _compare_with_live(case, live, edited=False)
    texts, objections, impact = (
        _explain_change(case.wanted.app, live, manifest, case.around) if changes else ((), "", None)
    )
    if objections:
        return case.conflict(live, f"cannot be changed so: {objections}", refused=True)
    return case.step(
        Verb.ADOPT,
        live,
        manifest=manifest,
        entry=case.entry(live["metadata"]["uid"]),
        changes=changes,
        meanings=texts,
        effect=_adoption_effect(update_effect(case.key, live, manifest, changes, impact)) if changes else None,
        reason=f"belonged to {ownership.name}{_describe_released(case.wanted.take_from)}"
        if ownership.name
        else "was applied by this stack, but is not in its inventory",
        take_from=case.wanted.take_from,
    )


def _describe_released(managers: tuple[str, ...]) -> str:
    return f"; fields are taken from {', '.join(managers)}" if managers else ""


def _compare_with_live(
    case: _ObjectCase, live: dict[str, Any], *, edited: bool
) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """Return the manifest to apply and the changes. `edited`: the file changed since it was applied, so something may
    be gone from a value owned as a whole.
    """
    owned = owned_fields(live)
    manifest = keep_ignored_fields(case.manifest, live, owned, case.wanted.ignore_changes)
    secret, exact = case.options.secrecy.of(case.key), case.options.exact
    changes = compare(manifest, live, owned, key=case.key, strict=exact, secret=secret)
    if not changes and edited and not exact:
        changes = compare(manifest, live, owned, key=case.key, strict=True, secret=secret)
    return manifest, changes


def _adoption_effect(effect: Effect | None) -> Effect | None:
    return effect and effect._replace(does=EffectKind.ADOPT_CHANGED, words=f"adopt with changes: {effect.words}")


def _explain_change(
    app: str,
    live: dict[str, Any] | None,
    manifest: dict[str, Any],
    around: Mapping[Key, dict[str, Any] | None] = NO_OBJECTS,
) -> tuple[tuple[str, ...], str, Meaning | None]:
    """Return what a change means for the app, in its driver's words, and why the engine cannot do it, if it cannot."""
    if not app:
        return (), "", None
    from fleet.apps.impact import explain  # noqa: PLC0415 - brings pydantic, which plans without apps do not need

    impact = explain(app, live, manifest, around)
    return impact.texts, "; ".join(str(problem) for problem in impact.problems), impact


def _is_bare_namespace(manifest: dict[str, Any]) -> bool:
    """Return whether the manifest is a namespace that only has to exist, as every stack has one: sharing it with its
    other users is no conflict.
    """
    metadata = manifest["metadata"]
    has_own_labels_only = all(label.startswith(OWN_PREFIXES) for label in metadata.get("labels", {}))
    return (
        manifest["kind"] == "Namespace"
        and not metadata.get("annotations")
        and "spec" not in manifest
        and has_own_labels_only
    )


def removed_step(stack: str, entry: Entry, live: dict[str, Any] | None, deleted_before: tuple[Key, ...]) -> Step:
    """Return the step for an object that the stack created and no longer wants. `first` are the keys that are deleted
    before it.
    """
    if live is None:
        return Step(Verb.UNCHANGED, entry.key)  # gone already; only the inventory does not know yet
    metadata = live["metadata"]
    step = Step(Verb.FORGET, entry.key, uid=metadata["uid"], resource_version=metadata.get("resourceVersion"))
    ownership = determine_ownership(stack, entry, live)
    if ownership.owner is not Owner.OURS:
        return step._replace(reason=f"belongs to {ownership.name or 'somebody else'} now; left alone")
    if "deletionTimestamp" in metadata:
        return step._replace(verb=Verb.UNCHANGED, entry=entry, reason="is being deleted")
    if entry.retain:
        return step._replace(reason=f"{'holds data' if holds_data(entry.key) else 'retain_on_delete'}; left running")
    if entry.protect:
        reason = "is protected: set protect=False and sync before taking it out of the stack"
        return step._replace(verb=Verb.CONFLICT, reason=reason, refused=True)
    return step._replace(verb=Verb.DELETE, depends_on=deleted_before, effect=delete_effect(entry.key, live))


def deletion_order(entries: Iterable[Entry]) -> dict[Key, tuple[Key, ...]]:
    """Return for each key what is deleted before it, being created after it or living in it."""
    deleted_before: dict[Key, list[Key]] = defaultdict(list)
    removed_keys = {entry.key for entry in entries}
    for entry in entries:
        inside = Key("", "Namespace", "", entry.key.namespace)
        for key in {*entry.after, inside} & removed_keys:
            deleted_before[key].append(entry.key)
    return {key: tuple(sorted(keys)) for key, keys in deleted_before.items()}


def hold_back_deletion(step: Step, entries: Mapping[Key, Entry]) -> Step:
    """Return the step without its deletion: what is to be deleted may still be in use while its successor cannot be
    made.
    """
    if step.verb is not Verb.DELETE:
        return step
    reason = "to be deleted, but not while the stack has a conflict"
    return step._replace(verb=Verb.UNCHANGED, entry=entries[step.key], reason=reason, effect=None)
