"""The last decisions about each app, kept in memory, and handed out when a person asks: `fleet explain`.

A person asks by an annotation of the app's resource; the answer is a ConfigMap beside the app. So whoever may read
what the app consists of may read it, and nobody else: no port is opened, and nobody gets rights for it. Nothing is
written unless it was asked for, and the answer goes when the question does.

A decision that differs from the one before is kept with what had been observed, compressed at once. Of the newest
observation there is only a reference: its objects are those of the caches.
"""

from __future__ import annotations

import datetime
import gzip
import json
import logging
from base64 import b64encode
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fleet.errors import FleetError
from fleet.kit.names import metadata
from fleet.kit.observe.observation import Observation
from fleet.kit.operate.engine import Engine
from fleet.kit.operate.explain import describe_decision, describe_step, explain
from fleet.kit.operate.record import RECORD, make_record, pack_record, record_map, redact_texts, write_observation
from fleet.kit.order import Concern
from fleet.kit.permissions import Permissions
from fleet.kit.step import Decision, Object
from fleet.kube.runtime import NotLeadingError, Request
from fleet.kube.runtime.cache import Change
from fleet.names import APP, EXPLAIN
from fleet_operator.core import kinds
from fleet_operator.core.execute import apply

MOST_DECISIONS = 5  # of an app, that differ
MOST_ANSWER = 256 << 10  # bytes of the ConfigMap's data, compressed
MOST_KEPT = 32 << 20  # bytes of all apps together; those that have not been decided about for longest give way

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision with all that it followed from, by reference."""

    observation: Observation[Any]
    concern: Concern | None
    decision: Decision

    def describe(self) -> dict[str, Any]:
        """Return it as records have it."""
        explanation = explain(self.observation, self.concern, self.decision)
        data = {**describe_decision(self.decision), "explanation": explanation}
        described: dict[str, Any] = redact_texts(self.observation, data)
        return described


@dataclass(slots=True)
class KeptDecision:
    """A decision that differed from the one before, as records have it."""

    key: tuple[Any, ...]
    data: dict[str, Any]
    observation: bytes  # compressed JSON; b"" if it is too large
    since: datetime.datetime
    until: datetime.datetime


@dataclass(slots=True)
class _Decisions:
    kept: deque[KeptDecision] = field(default_factory=lambda: deque(maxlen=MOST_DECISIONS))
    newest: _Decided | None = None

    @property
    def size(self) -> int:
        return sum(len(decision.observation) for decision in self.kept)


class Explanations:
    """What one process decided lately about the apps of one engine."""

    def __init__(self, engine: Engine[Any, Any], images: Mapping[str, str], permissions: Permissions) -> None:
        self._engine = engine
        self._setup = {"images": dict(images), "permissions": asdict(permissions)}
        self._apps: OrderedDict[tuple[str, str], _Decisions] = OrderedDict()

    def note(
        self, name: tuple[str, str], observation: Any, concern: Concern | None, decision: Decision, error: str = ""
    ) -> None:
        """Keep a decision. It never raises: a decision is carried out whether it can be explained or not.

        `error` is what was refused before the decision.
        """
        if not isinstance(observation, Observation):
            return
        try:
            self._note(name, observation, concern, decision)
            self.note_error(name, error)
        except Exception:
            log.exception("%s/%s: what was decided cannot be recorded", *name)

    def note_error(self, name: tuple[str, str], error: str) -> None:
        """Keep what carrying the newest decision out met; "" if nothing."""
        app = self._apps.get(name)
        if app is not None and app.kept and app.newest is not None:
            app.kept[-1].data["error"] = redact_texts(app.newest.observation, error)

    def forget(self, name: tuple[str, str]) -> None:
        """Drop what is kept of an app that is gone."""
        self._apps.pop(name, None)

    def record(self, name: tuple[str, str]) -> bytes | None:
        """Return the compressed record of an app; None if nothing was decided about it yet.

        Where it would be too large, the oldest observations are left out.
        """
        app = self._apps.get(name)
        if app is None or app.newest is None:
            return None
        decisions = [
            {
                **kept.data,
                "since": _time(kept.since),
                "until": _time(kept.until),
                "observation": _read(kept.observation),
            }
            for kept in app.kept
        ]
        decisions[-1] |= {**app.newest.describe(), "observation": write_observation(app.newest.observation)}
        engine = {"kind": self._engine.app.kind(), "group": self._engine.app.api_group, **self._setup}
        for count in range(len(decisions) + 1):
            for decision in decisions[:count]:
                decision["observation"] = None
            record = make_record(engine, {"namespace": name[0], "name": name[1]}, decisions)
            text = pack_record(record)
            if len(text) <= MOST_ANSWER:
                return text
        return None

    async def answer(self, request: Request, app: Any) -> None:
        """Write the record for a person who asks for it, and delete it when the person has read it.

        A failure is logged: the app is looked after all the same.
        """
        asked = question_of(request.object or {})
        name = record_map(app)
        present = request.cache(kinds.CONFIG_MAPS).get(app.namespace, name)
        answered = question_of(present or {})
        try:
            if asked and asked != answered and (text := self.record((app.namespace, app.name))) is not None:
                about = metadata(app, name, annotations={EXPLAIN: asked})
                data = {RECORD: b64encode(text).decode()}
                await apply(request, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "binaryData": data})
            elif present is not None and not asked and answered and _is_of(present, app.name):
                await request.write.delete(kinds.CONFIG_MAPS, present)
        except NotLeadingError:
            raise
        except FleetError as error:
            log.warning("%s/%s: what was decided cannot be handed out: %s", app.namespace, app.name, error.message)

    def _note(
        self, name: tuple[str, str], observation: Observation[Any], concern: Concern | None, decision: Decision
    ) -> None:
        now = observation.world.now
        app = self._apps.setdefault(name, _Decisions())
        self._apps.move_to_end(name)
        app.newest = _Decided(observation, concern, decision)
        last = app.kept[-1] if app.kept else None
        if last is not None and last.key == _key_of(decision):
            last.until = now
            return
        text = pack_record(write_observation(observation))
        text = text if len(text) <= MOST_ANSWER else b""
        app.kept.append(KeptDecision(_key_of(decision), {**app.newest.describe(), "error": ""}, text, now, now))
        self._limit()

    def _limit(self) -> None:
        """Drop observations of the apps that have not been decided about for longest."""
        total = sum(app.size for app in self._apps.values())
        for app in self._apps.values():
            if total <= MOST_KEPT:
                return
            total -= app.size
            for kept in app.kept:
                kept.observation = b""


def question_of(found: Object) -> str:
    """Return which question of a person an app's resource asks, or a ConfigMap answers; "" for none."""
    return str((found.get("metadata", {}).get("annotations") or {}).get(EXPLAIN, ""))


def is_question(change: Change) -> bool:
    """Tell whether a person has just asked for an explanation, or has read it."""
    return (
        change.before is not None
        and change.after is not None
        and (question_of(change.before) != question_of(change.after))
    )


def _is_of(found: Object, app: str) -> bool:
    return bool((found["metadata"].get("labels") or {}).get(APP) == app)


def _key_of(decision: Decision) -> tuple[Any, ...]:
    """Return what makes a decision another one than the one before: not its message, which may count something up."""
    steps = [describe_step(step) for step in decision.steps]
    return decision.state, decision.reason, [(step["verb"], step["object"], step["mark"]) for step in steps]


def _read(observation: bytes) -> Any:
    return json.loads(gzip.decompress(observation)) if observation else None


def _time(time: datetime.datetime) -> str:
    return time.isoformat(timespec="seconds")
