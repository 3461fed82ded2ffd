"""The effect of a step on the users of an object, in the words of a reviewer: not "patch", but "restarts 3 pods".

Also its severity, by which a step is compared with what was approved. Pure.

It is found from the objects before and after. An app's driver is asked for what it knows (hops of an upgrade, members);
of Kubernetes' own workloads this module knows what a changed pod template means. It also knows what is never deleted
without a word in git: objects that take data, or other people's objects, with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.apps.registry import is_app
from fleet.names import ON_DELETE
from fleet.objects.desired import Key
from fleet.objects.shape import mapping
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.apps.impact import Meaning
    from fleet.objects.compare import Change
    from fleet.plan.step import Step

HOLDS_DATA = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)


def holds_data(key: Key) -> bool:
    return (key.group, key.kind) in HOLDS_DATA


def is_retained(key: Key, manifest: dict[str, Any]) -> bool:
    """Return whether the object is kept when git no longer wants it: by its kind, unless the manifest says
    otherwise.
    """
    return holds_data(key) and mapping(manifest["metadata"].get("annotations")).get(ON_DELETE) != "delete"


WORKLOADS = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})


class EffectKind(StrEnum):
    CREATE = "create"
    UPDATE = "update in place"
    RESTART = "restart"
    SCALE = "scale"
    UPGRADE = "upgrade"
    ADOPT = "adopt unchanged"
    ADOPT_CHANGED = "adopt with changes"
    DELETE = "delete"
    DATA = "delete data"
    FORGET = "forget"
    RECORD = "record"
    CONFLICT = "conflict"
    NOTHING = "nothing"


class Effect(NamedTuple):
    does: EffectKind
    words: str
    destructive: bool = False
    note: str = ""  # the part of the words that an app's own meanings do not have


_BY_VERB = {
    "create": Effect(EffectKind.CREATE, "create"),
    "update": Effect(EffectKind.UPDATE, "update in place"),
    "delete": Effect(EffectKind.DELETE, "delete", destructive=True),
    "forget": Effect(EffectKind.FORGET, "forget; it is left running"),
    "record": Effect(EffectKind.RECORD, "only an option of it changes"),
    "conflict": Effect(EffectKind.CONFLICT, "conflict; it is not touched"),
    "unchanged": Effect(EffectKind.NOTHING, "unchanged"),
}
_ADOPT = Effect(EffectKind.ADOPT, "adopt unchanged")
_ADOPT_CHANGED = Effect(EffectKind.ADOPT_CHANGED, "adopt with changes")


def effect_of(step: Step) -> Effect:
    """Return the effect that was found when the step was planned, else the one of its verb."""
    if step.effect is not None:
        return step.effect
    if step.verb == "adopt":
        return _ADOPT_CHANGED if step.changes else _ADOPT
    return _BY_VERB[step.verb]


def update_effect(
    key: Key, live: Mapping[str, Any], wanted: Mapping[str, Any], changes: Iterable[Change], meaning: Meaning | None
) -> Effect | None:
    """Return what a changed object does to its users; None when there is nothing more to say than that it changes."""
    if meaning is not None:
        return _app_effect(wanted, meaning)
    if key.group == "apps" and key.kind in WORKLOADS:
        return _workload_effect(key.kind, live, wanted, [change.path for change in changes])
    return None


def delete_effect(key: Key, live: Mapping[str, Any]) -> Effect | None:
    """Return what is deleted together with an object; None if it is only the object itself."""
    if holds_data(key):
        contents = {
            "Namespace": ": all that is in the namespace",
            "CustomResourceDefinition": ": all objects of the kind",
        }
        return Effect(EffectKind.DATA, f"data deleted{contents.get(key.kind, '')}", destructive=True)
    spec = mapping(live.get("spec"))
    is_adopted = "adopt" in spec  # its volumes stay
    if not is_adopted and mapping(spec.get("volume")).get("onDelete") == "delete" and is_app(key.group, key.kind):
        return Effect(EffectKind.DATA, "data deleted: the app with its volumes", destructive=True)
    if key.group == "apps" and key.kind == "StatefulSet" and _claim_retention(spec, "whenDeleted") == "Delete":
        return Effect(EffectKind.DATA, "data deleted: its volume claims go with it", destructive=True)
    return None


def _app_effect(wanted: Mapping[str, Any], meaning: Meaning) -> Effect | None:
    effects = [Effect(EffectKind.UPDATE, words, destructive=True) for words in meaning.losses]
    effects += [_upgrade_effect(meaning)] if meaning.hops else []
    if meaning.members:
        effects.append(_scale_effect(wanted, *meaning.members, meaning.before_joining))
    if meaning.restarts and not meaning.hops:  # to upgrade is to restart
        effects.append(_restart_effect(meaning.restarts))
    return _join_effects(effects)


def _scale_effect(wanted: Mapping[str, Any], before: int, after: int, before_joining: str) -> Effect:
    words, removed = f"scale {before} → {after}{before_joining}", before - after
    if removed <= 0 or mapping(mapping(wanted.get("spec")).get("volume")).get("onScaleIn") == "keep":
        return Effect(EffectKind.SCALE, words)
    note = f"the data of {count_noun(removed, 'member')} is deleted when they have left"
    return Effect(EffectKind.SCALE, f"{words}: {note}", True, note)


def _upgrade_effect(meaning: Meaning) -> Effect:
    first, last = meaning.hops[0], meaning.hops[-1]
    verb = "downgrade" if last.kind == "downgrade" else "upgrade"
    count = f" in {count_noun(len(meaning.hops), 'hop')}" if len(meaning.hops) > 1 else ""
    words = f"{verb} {first.current} → {last.target}{count}"
    final = next((hop for hop in meaning.hops if hop.way_back == "restore"), None)
    if final is None:
        return Effect(EffectKind.UPGRADE, words)
    note = f"point of no return: {final.target}, from there back only by a restore"
    return Effect(EffectKind.UPGRADE, f"{words}; {note}", True, note)


def _workload_effect(kind: str, live: Mapping[str, Any], wanted: Mapping[str, Any], paths: list[str]) -> Effect | None:
    before, after = mapping(live.get("spec")), mapping(wanted.get("spec"))
    pods = count = before.get("replicas", after.get("replicas", 1))
    if kind == "DaemonSet":
        pods = count = mapping(live.get("status")).get("desiredNumberScheduled", 0)
    elif any(path in ("spec", "spec.replicas") for path in paths):
        count = after.get("replicas", 1)  # no longer said, it is what Kubernetes takes
    if not isinstance(pods, int) or not isinstance(count, int):
        return None
    effects = [_replicas_effect(kind, before, after, pods, count)] if count != pods else []
    if any(path == "spec" or path.startswith("spec.template") for path in paths):
        effects.append(_template_effect(kind, after, min(pods, count)))
    return _join_effects(effects)


def _replicas_effect(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], pods: int, count: int
) -> Effect | None:
    deletes_data = (
        count < pods and kind == "StatefulSet" and _claim_retention({**before, **after}, "whenScaled") == "Delete"
    )
    condition = "" if "replicas" in after else ", unless somebody else sets it"
    data = ": the data of those that leave is deleted" if deletes_data else ""
    return Effect(EffectKind.SCALE, f"scale {pods} → {count}{condition}{data}", destructive=deletes_data)


def _join_effects(effects: Iterable[Effect | None]) -> Effect | None:
    """Return one effect of all that a change does: named for the worst of it, and nothing of the rest is hidden behind
    that.
    """
    present = [effect for effect in effects if effect]
    if not present:
        return None
    worst = max(present, key=lambda effect: (effect.destructive, effect.does is not EffectKind.UPDATE))
    all_words = "; ".join(effect.words for effect in present)
    all_notes = "; ".join(effect.note for effect in present if effect.note)
    return Effect(worst.does, all_words, worst.destructive, all_notes)


def _template_effect(kind: str, spec: Mapping[str, Any], pods: int) -> Effect | None:
    strategy = mapping(spec.get("strategy" if kind == "Deployment" else "updateStrategy")).get("type")
    if kind == "ReplicaSet" or pods == 0:
        return None
    if strategy == "OnDelete":
        return Effect(EffectKind.UPDATE, f"update in place; {_count_pods(pods)} change when they are deleted")
    if strategy == "Recreate":
        return Effect(EffectKind.RESTART, f"restart of {_count_pods(pods)} at once")
    return _restart_effect(pods)


def _restart_effect(pods: int) -> Effect:
    return Effect(EffectKind.RESTART, f"rolling restart of {_count_pods(pods)}")


def _count_pods(count: int) -> str:
    return count_noun(count, "pod")


def _claim_retention(spec: Mapping[str, Any], when: str) -> str:
    return str(mapping(spec.get("persistentVolumeClaimRetentionPolicy")).get(when, "Retain"))


class Severity(IntEnum):
    """How much a step takes from the users of an object; each value takes more than the one before it.

    It is an order, so that "no more than was approved" can be said. What is approved and what happens may differ in
    words; they may not differ upwards.
    """

    NOTHING = 0  # the object stays as it is: recorded, forgotten, in conflict
    CREATE = 1  # or taken over as it is
    UPDATE = 2  # in place
    INTERRUPT = 3  # pods restart, members come or go, a version changes
    LOSE = 4  # data of members, or the way back
    DELETE = 5
    DATA = 6  # deleted together with what it holds

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Severity.NOTHING: "leave it as it is",
    Severity.CREATE: "create",
    Severity.UPDATE: "update in place",
    Severity.INTERRUPT: "restart, scale or upgrade",
    Severity.LOSE: "change it with no way back",
    Severity.DELETE: "delete",
    Severity.DATA: "delete with its data",
}
_BY_EFFECT = {
    EffectKind.CREATE: Severity.CREATE,
    EffectKind.ADOPT: Severity.CREATE,
    EffectKind.UPDATE: Severity.UPDATE,
    EffectKind.ADOPT_CHANGED: Severity.UPDATE,
    EffectKind.RESTART: Severity.INTERRUPT,
    EffectKind.SCALE: Severity.INTERRUPT,
    EffectKind.UPGRADE: Severity.INTERRUPT,
    EffectKind.DELETE: Severity.DELETE,
    EffectKind.DATA: Severity.DATA,
}


def severity_of(step: Step) -> Severity:
    """Return how much a step takes from the users of its object, by what `effect_of` says of it."""
    effect = effect_of(step)
    by_effect = _BY_EFFECT.get(effect.does, Severity.NOTHING)
    if effect.does is EffectKind.ADOPT_CHANGED and step.effect is not None:
        by_effect = Severity.INTERRUPT  # an effect of its own is more than a change in place
    return max(by_effect, Severity.LOSE) if effect.destructive else by_effect
