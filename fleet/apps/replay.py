"""A record of decisions, decided again by this release: its observations are read with the classes of the app's type,
and given to the half of that type that acts, which only decides here.

This is the one place besides the operator that loads such a half, by the text with which its type names it. It is asked
for its concerns and for what it says at rest, and for nothing else: it observes nothing and requests nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.apps.registry import driver, find_module
from fleet.errors import FleetError, NotFoundError
from fleet.kit.app_type import AppType
from fleet.kit.observe.observation import Observation
from fleet.kit.operate.engine import Engine
from fleet.kit.operate.explain import describe_decision, explain
from fleet.kit.operate.plain_engine import make_engine
from fleet.kit.operate.record import RecordError, list_classes, read_observation
from fleet.kit.order import diagnose
from fleet.kit.permissions import Permissions


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """A decision as it was recorded, and as this release makes it."""

    recorded: Mapping[str, Any]
    replayed: Mapping[str, Any] | None  # None if it cannot be made again
    error: str = ""  # why it cannot
    differences: tuple[str, ...] = ()


def replay(record: Mapping[str, Any]) -> list[ReplayedDecision]:
    """Return the decisions of a record, each made again where its observation was recorded.

    Raise NotFoundError for an app type that is not installed here, and RecordError for a record that does not say how
    its engine was set up.
    """
    engine = load_engine(record["engine"])
    classes = list_classes("fleet.kit", _find_package(engine))
    return [_replay_decision(engine, classes, recorded) for recorded in record["decisions"]]


def load_engine(setup: Mapping[str, Any]) -> Engine[Any, Any]:
    """Return the acting half of an app type, set up as a record says."""
    kind, group = str(setup["kind"]), str(setup["group"])
    known = driver(kind, group)
    if known is None or not (known.engine or isinstance(known, AppType)):
        raise NotFoundError(
            f"there is no app type {kind[:60]} of {group[:60]} here that decides",
            hint="install the package that has it; `fleet operator status` says which ones a cluster's operator has",
        )
    images, permissions = setup.get("images"), setup.get("permissions")
    if not isinstance(images, dict) or not isinstance(permissions, dict):
        raise RecordError("it does not say with which images and permissions the operator ran")
    try:
        allowed = Permissions(**{name: tuple(map(str, patterns)) for name, patterns in permissions.items()})
    except TypeError as error:
        raise RecordError("its permissions are not those of this release") from error
    named = {str(program): str(image) for program, image in images.items()}
    engine = make_engine(known, named, allowed)
    assert engine is not None  # noqa: S101 - a type without one was refused above
    return engine


def _find_package(engine: Engine[Any, Any]) -> str:
    """Return the package that has the app type, with all of its classes."""
    known = driver(engine.app.kind(), engine.app.api_group)
    return find_module(known) if known is not None else engine.app.__module__


def _replay_decision(
    engine: Engine[Any, Any], classes: Mapping[str, type], recorded: Mapping[str, Any]
) -> ReplayedDecision:
    if recorded.get("observation") is None:
        return ReplayedDecision(recorded, None, "what was observed is not in the record: there was no room for it")
    try:
        observation = read_observation(recorded["observation"], classes)
        if not isinstance(observation, Observation):
            raise RecordError("what was observed is no observation")
        concern, decision = diagnose(engine.concerns(observation), engine.at_rest(observation))
        replayed = {**describe_decision(decision), "explanation": explain(observation, concern, decision)}
    except FleetError as error:
        return ReplayedDecision(recorded, None, error.message)
    except Exception as error:
        # A record may be of anybody, and hold what no cluster has.
        return ReplayedDecision(recorded, None, f"{type(error).__name__}: {error}"[:400])
    return ReplayedDecision(recorded, replayed, differences=tuple(_differences(recorded, replayed)))


def _differences(recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> Sequence[str]:
    """Return in what two decisions differ, for people."""
    found = [
        f"{name}: {recorded[name]} → {replayed[name]}"
        for name in ("state", "reason", "message")
        if recorded[name] != replayed[name]
    ]
    before, after = _steps(recorded), _steps(replayed)
    if [step[:2] for step in before] != [step[:2] for step in after]:
        found.append(f"steps: {_format_steps(before)} → {_format_steps(after)}")
    elif before != after:
        changed = [f"{old[0]} {old[1]}" for old, new in zip(before, after, strict=True) if old != new]
        found.append(f"steps: {', '.join(changed)} with another content")
    return found


def _steps(decision: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    steps = decision.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return []
    return [(str(step.get("verb")), str(step.get("object")), str(step.get("mark"))) for step in steps]


def _format_steps(steps: Sequence[tuple[str, str, str]]) -> str:
    return ", ".join(f"{verb} {name}" for verb, name, _ in steps) or "none"
