"""What a change of an app's custom resource means for the app, in words for a plan: "scale 3 → 5"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.apps.registry import driver
from fleet.errors import ConfigurationError
from fleet.kit.adoption.managers import template_managers
from fleet.kit.driver import Driver, Hop, Impact, Problem, Refusal
from fleet.model.app import App
from fleet.objects.desired import Key, adopted_stateful_set
from fleet.text import count_noun

Around = Mapping[Key, dict[str, Any] | None]  # what else was looked at; what is not in it, nobody looked for
NOTHING: Around = {}
_APP = "fleet.dev/app"  # the label that pods get with the first roll


@dataclass(frozen=True, slots=True)
class Meaning:
    """`texts` for people; `problems` when the change cannot be carried out; the rest says the same as data."""

    texts: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    restarts: int = 0
    hops: tuple[Hop, ...] = ()  # of an upgrade or downgrade
    members: tuple[int, int] | None = None  # before and after, when they change in number
    losses: tuple[str, ...] = ()  # what may cost data
    before_joining: str = ""  # what comes before members that join: " after the first roll …"


def meanings(kind: str, live: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Return just the words, refusals included."""
    meaning = explain(kind, live, wanted)
    return (*meaning.texts, *(f"refused: {problem}" for problem in meaning.problems))


def explain(kind: str, live: Mapping[str, Any] | None, wanted: Mapping[str, Any], around: Around = NOTHING) -> Meaning:
    """Say what applying `wanted` over `live` (None: there is nothing yet) does. Kinds that are no apps mean nothing.

    `around` has the StatefulSet that the app is to take over, if somebody looked.
    """
    engine = _driver(kind, wanted)
    if engine is None:
        return Meaning()
    after = _read(engine, wanted)
    if after is None:
        return Meaning()
    if live is None:
        problems = tuple(engine.validate(after))
        if problems:
            return Meaning(problems=problems)
        unknown = engine.unknown_release(after)
        created = _created(engine, after, adopted_stateful_set(dict(wanted)), around)
        return Meaning((created, unknown) if unknown else (created,))
    before = _read(engine, live)
    if before is None:  # written by another release, or by hand: nothing certain can be said
        return Meaning(("restarts are possible: the live object has fields that this release does not know",))
    return _change(engine, before, after, live.get("status") or {}, _Taken.of(dict(wanted), around))


def unknown_release(kind: str, wanted: Mapping[str, Any]) -> str:
    """Say that an app's manifest names a release that this release of fleet does not know; "" if not, or no app."""
    engine = _driver(kind, wanted)
    app = _read(engine, wanted) if engine else None
    return engine.unknown_release(app) if engine and app else ""


def _driver(kind: str, manifest: Mapping[str, Any]) -> Driver[Any] | None:
    return driver(kind, str(manifest.get("apiVersion", "")).rpartition("/")[0])


@dataclass(frozen=True, slots=True)
class _Taken:
    """How far members that others set up are ours: until the first roll nobody can join them."""

    is_rolled: bool = True
    is_certain: bool = True
    managers: tuple[str, ...] = ()  # of the template, which that roll changes

    @classmethod
    def of(cls, wanted: dict[str, Any], around: Around) -> _Taken:
        key = adopted_stateful_set(wanted)
        if key is None:
            return cls()
        found = around.get(key)
        if found is None:
            return cls(is_rolled=key in around, is_certain=key in around)
        labels = (found["spec"]["template"].get("metadata") or {}).get("labels") or {}
        given = wanted["spec"]["adopt"].get("takeFrom") or ()
        return cls(is_rolled=_APP in labels, managers=tuple(sorted({*template_managers(found)} - {*given})))

    def before_joining(self, name: str, pods: int, *, rolls: bool) -> str:
        if self.is_rolled:
            return ""
        if not self.is_certain:
            return ", after a first roll of members that others set up if there was none yet"
        by_hand = "" if rolls else f": `fleet roll {name}`"
        return f", after the first roll of {count_noun(pods, 'pod')}{by_hand}"

    def waits(self) -> list[str]:
        if self.is_rolled or not self.managers:
            return []
        names = ", ".join(self.managers)
        return [f"the first roll waits until git says take_from={list(self.managers)}: {names} manages the template"]


def _change(engine: Driver[Any], before: App, after: App, status: Mapping[str, Any], taken: _Taken) -> Meaning:
    problems = engine.validate(after, before)
    refused = {problem.field for problem in problems}
    fields = [field for field in engine.changed(before, after) if field not in refused]
    by_impact: dict[Impact, list[str]] = {}
    for field in fields:
        by_impact.setdefault(engine.classify(field), []).append(field)
    losses = tuple(engine.losses(before, after))
    texts: list[str] = [*losses]
    first = ""
    if Impact.SCALE in by_impact:
        if engine.members(after) > engine.members(before):
            upgrades = Impact.UPGRADE in by_impact and not engine.stays(after, status)
            rolls = upgrades or Impact.RESTART in by_impact
            first = taken.before_joining(after.name, engine.members(before), rolls=rolls)
        texts.append(f"scale {engine.members(before)} → {engine.members(after)}{first}")
    pods = min(engine.members(before), engine.members(after))
    rounds, hops = 0, tuple[Hop, ...]()
    if Impact.UPGRADE in by_impact:
        path = engine.path(_running(status) or engine.version(before), engine.version(after))
        if stays := engine.stays(after, status):
            texts.append(stays)
        elif not isinstance(path, Refusal) and path:
            texts.append(_upgraded(path))
            rounds, hops = len(path), path
        if unknown := engine.unknown_release(after):
            texts.append(unknown)
    for field in by_impact.get(Impact.GROW, ()):
        texts.append(f"grow volumes {_value(before, field)} → {_value(after, field)}")
    if Impact.RELOAD in by_impact:
        texts.append(f"reloads {', '.join(by_impact[Impact.RELOAD])} without a restart")
    because = by_impact.get(Impact.RESTART, [])
    if because and not rounds:
        rounds = 1
    if rounds:
        each = f", {rounds} times each" if rounds > 1 else ""
        reason = f" ({', '.join(because)})" if because else ""
        texts.append(f"restarts {count_noun(pods, 'pod')}{each}{reason}")
    if first or rounds:
        texts += taken.waits()
    members = (engine.members(before), engine.members(after)) if Impact.SCALE in by_impact else None
    return Meaning(tuple(texts), tuple(problems), pods * rounds, hops, members, losses, first)


def _created(engine: Driver[Any], spec: App, of: Key | None, around: Around) -> str:
    count = engine.members(spec)
    members = count_noun(count, "member")
    if spec.adoption is None or of is None:
        return f"{engine.meta.name} {engine.version(spec)} with {members}"
    others = f", taken from {', '.join(spec.adoption.take_from)}" if spec.adoption.take_from else ""
    adopts = f"adopt StatefulSet {of.name} with {members} as it runs"
    if of not in around:
        return f"{adopts}: not compared with what is there{others}"
    found = around[of]
    if found is None:
        return f"blocked: there is no StatefulSet {of.name} in {of.namespace}"
    objection = engine.objection(spec, found)
    return f"blocked: {objection}" if objection else f"{adopts}: unchanged, restarts 0{others}"


def _upgraded(path: tuple[Hop, ...]) -> str:
    verb = "downgrade" if path[-1].kind == "downgrade" else "upgrade"
    if len(path) == 1:
        return f"{verb} {path[0]}"
    route = " → ".join([path[0].current, *(hop.target for hop in path)])
    return f"{verb} {path[0].current} → {path[-1].target} in {count_noun(len(path), 'hop')}: {route}"


def _value(spec: App, field: str) -> Any:
    value: Any = spec
    for part in field.split("."):
        value = getattr(value, part)
    return value


def _running(status: Mapping[str, Any]) -> str | None:
    version = status.get("version")
    return version if isinstance(version, str) and version else None


def _read(engine: Driver[Any], manifest: Mapping[str, Any]) -> App | None:
    try:
        read: App = engine.app.from_manifest(dict(manifest))
    except ConfigurationError:
        return None
    return read
