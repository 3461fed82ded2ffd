"""The step for an object that the stack wants: a list of guards from top to bottom, the first that fits decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.model.desired import Key, Object
from fleet.plan.compare import compare
from fleet.plan.effect import Does, Effect, update_effect
from fleet.plan.ignore import with_ignored
from fleet.plan.inventory import Entry
from fleet.plan.normal import manifest_hash, normalise
from fleet.plan.owned import owned_fields
from fleet.plan.ownership import Ownership, Whose, keeper, ownership
from fleet.plan.record import option_changes, record_reason
from fleet.plan.retention import is_retained
from fleet.plan.step import Change, Step, Verb
from fleet.plan.terms import USUAL, Terms

if TYPE_CHECKING:
    from fleet.apps.meaning import Meaning

OWN_PREFIXES = ("fleet.dev/", "app.kubernetes.io/")
NOTHING: Mapping[Key, dict[str, Any] | None] = {}


def step_for(
    stack: str,
    wanted: Object,
    key: Key,
    known: Entry | None,
    live: dict[str, Any] | None,
    *,
    terms: Terms = USUAL,
    around: Mapping[Key, dict[str, Any] | None] = NOTHING,
) -> Step:
    """`key` is the object's in the cluster; `live` is what is there under it, None if certainly nothing.

    `around` is what was read beside it: an app may be one that others set up.
    """
    case = _Case(wanted, key, known, normalise(wanted.manifest), terms, around)
    if live is None:
        gone = "it was deleted by somebody else" if known and known.uid else ""
        texts, impossible, _ = _meaning(wanted.app, None, case.manifest, around)
        if impossible:
            return case.conflict(None, f"cannot be made so: {impossible}", refused=True)
        return case.step(Verb.CREATE, None, manifest=case.manifest, entry=case.entry(), reason=gone, meanings=texts)
    if "deletionTimestamp" in live["metadata"]:
        return case.conflict(live, "is being deleted; sync again once it is gone")
    whose = ownership(stack, known, live)
    if whose.whose is Whose.OURS:
        return _ours(case, live)
    if whose.whose is not Whose.LOST and not wanted.adopt and _is_bare_namespace(case.manifest):
        return case.step(Verb.UNCHANGED, live, reason=f"belongs to {whose.owner}; used as it is")
    if whose.whose is Whose.OTHER_STACK:
        return case.conflict(live, f"belongs to {whose.owner}")
    if whose.whose is Whose.FOREIGN and not wanted.adopt:
        how = "was deleted and made anew by" if whose.remade else "exists and belongs to"
        return case.conflict(live, f"{how} {whose.owner}; take it over with opts=Options(adopt=True)")
    if whose.whose is Whose.FOREIGN and (held := keeper(live)):
        return case.conflict(live, f"belongs to {held}; it cannot be taken over")
    return _adopted(case, live, whose)


@dataclass(frozen=True, slots=True)
class _Case:
    wanted: Object
    key: Key
    known: Entry | None
    manifest: dict[str, Any]
    terms: Terms
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


def _ours(case: _Case, live: dict[str, Any]) -> Step:
    known, entry = case.known, case.entry(live["metadata"]["uid"])
    manifest, changes = _compared(case, live, edited=known is not None and known.hash != entry.hash)
    if not changes:
        # An equal object needs no write for a file that only reads differently: the hash of what was applied stays.
        recorded = entry._replace(hash=known.hash, seen=known.seen) if known else entry
        if known is None or known == recorded:
            return case.step(Verb.UNCHANGED, live, entry=recorded)
        reason = record_reason(known, recorded)
        return case.step(Verb.RECORD, live, entry=recorded, changes=option_changes(known, recorded), reason=reason)
    texts, impossible, meaning = _meaning(case.wanted.app, live, manifest, case.around)
    if impossible:
        return case.conflict(live, f"cannot be changed so: {impossible}", refused=True)
    shown = changes + (option_changes(known, entry) if known else ())
    effect = update_effect(case.key, live, manifest, changes, meaning)
    return case.step(Verb.UPDATE, live, manifest=manifest, entry=entry, changes=shown, meanings=texts, effect=effect)


def _adopted(case: _Case, live: dict[str, Any], whose: Ownership) -> Step:
    manifest, changes = _compared(case, live, edited=False)
    texts, impossible, meaning = _meaning(case.wanted.app, live, manifest, case.around) if changes else ((), "", None)
    if impossible:
        return case.conflict(live, f"cannot be changed so: {impossible}", refused=True)
    return case.step(
        Verb.ADOPT,
        live,
        manifest=manifest,
        entry=case.entry(live["metadata"]["uid"]),
        changes=changes,
        meanings=texts,
        effect=_adopting(update_effect(case.key, live, manifest, changes, meaning)) if changes else None,
        reason=f"belonged to {whose.owner}{_released(case.wanted.take_from)}"
        if whose.owner
        else "was applied by this stack, but is not in its inventory",
        take_from=case.wanted.take_from,
    )


def _released(managers: tuple[str, ...]) -> str:
    return f"; fields are taken from {', '.join(managers)}" if managers else ""


def _compared(case: _Case, live: dict[str, Any], *, edited: bool) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """`edited`: the file changed since it was applied, so something may be gone from a value owned as a whole."""
    owned = owned_fields(live)
    manifest = with_ignored(case.manifest, live, owned, case.wanted.ignore_changes)
    secret, exact = case.terms.secrecy.of(case.key), case.terms.exact
    changes = compare(manifest, live, owned, key=case.key, strict=exact, secret=secret)
    if not changes and edited and not exact:
        changes = compare(manifest, live, owned, key=case.key, strict=True, secret=secret)
    return manifest, changes


def _adopting(effect: Effect | None) -> Effect | None:
    return effect and effect._replace(does=Does.ADOPT_CHANGED, words=f"adopt with changes: {effect.words}")


def _meaning(
    app: str,
    live: dict[str, Any] | None,
    manifest: dict[str, Any],
    around: Mapping[Key, dict[str, Any] | None] = NOTHING,
) -> tuple[tuple[str, ...], str, Meaning | None]:
    """What it means for the app, in its driver's words, and why the engine cannot do it, if it cannot."""
    if not app:
        return (), "", None
    from fleet.apps.meaning import explain  # noqa: PLC0415 - brings pydantic, which plans without apps do not need

    meaning = explain(app, live, manifest, around)
    return meaning.texts, "; ".join(str(problem) for problem in meaning.problems), meaning


def _is_bare_namespace(manifest: dict[str, Any]) -> bool:
    """A namespace that only has to exist, as every stack has one: sharing it with others is no conflict."""
    metadata = manifest["metadata"]
    own = all(label.startswith(OWN_PREFIXES) for label in metadata.get("labels", {}))
    return manifest["kind"] == "Namespace" and not metadata.get("annotations") and "spec" not in manifest and own
