"""The plan of a proxy: rules that say what is done to which requests, written as data; and the decision, which is pure.

    Plan([
        Rule(Match(verb="watch", resource="configmaps"), Cut(after_events=2, after_bytes=10), nth=3),
        Rule(Match(writes=True), Lose(), every=5),
    ])

Every rule counts the requests that it matches. Those that are due act together, in the order of the plan. Chance is
drawn from the plan's seed and the rule's count, so the same requests meet the same fate again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import ConfigurationError
from fleet.lab.proxy.actions import Act
from fleet.lab.proxy.request import Call

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_STRICT = {"extra": "forbid"}  # read by pydantic, where plans come from JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A condition on requests: all that is given has to hold.

    `resource="pods"` is pods and not `pods/log`; `agent` is the beginning of the client's user agent.
    """

    __pydantic_config__ = _STRICT

    verb: str = ""
    group: str | None = None
    resource: str = ""
    namespace: str = ""
    name: str = ""
    agent: str = ""
    path: str = ""  # contained in the path or its query
    writes: bool | None = None

    def __call__(self, call: Call) -> bool:
        """Return whether a request fulfils the condition."""
        return (
            (not self.verb or call.verb == self.verb)
            and (self.group is None or call.group == self.group)
            and (not self.resource or call.resource == self.resource)
            and (not self.namespace or call.namespace == self.namespace)
            and (not self.name or call.name == self.name)
            and call.agent.startswith(self.agent)
            and self.path in call.path
            and (self.writes is None or call.writes == self.writes)
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """An act, and when: at the `nth` request that matches, each `every`-th, the `first` so many, a `share`; or all."""

    __pydantic_config__ = _STRICT

    match: Match
    act: Act
    nth: int | None = None
    every: int | None = None
    first: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        conditions = [
            condition for condition in (self.nth, self.every, self.first, self.share) if condition is not None
        ]
        if len(conditions) > 1:
            raise ConfigurationError(f"{self} says in two ways when", hint="nth, every, first or share")
        if any(condition is not None and condition < 1 for condition in (self.nth, self.every, self.first)):
            raise ConfigurationError(f"{self} never acts", hint="requests are counted from 1")
        if self.share is not None and not 0 < self.share <= 1:
            raise ConfigurationError(f"{self.share} is no share of the requests", hint="more than 0, at most 1")

    def is_due(self, number: int, draw: float) -> bool:
        """Return whether the rule acts at the `number`-th request that matches, given a draw from 0 to 1 for it."""
        return (
            (self.nth is None or number == self.nth)
            and (self.every is None or number % self.every == 0)
            and (self.first is None or number <= self.first)
            and (self.share is None or draw < self.share)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A list of rules. Requests that no rule matches are passed on as they are."""

    __pydantic_config__ = _STRICT

    rules: Sequence[Rule] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return orjson.dumps(_to_data(self), option=orjson.OPT_INDENT_2).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Return the plan in a JSON text; raise ConfigurationError if there is none."""
        from pydantic import ValidationError  # noqa: PLC0415 - slow to load, and plans in Python do without

        try:
            return _plan_adapter().validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ConfigurationError(f"not a plan of a proxy: {first['msg']}", field=field or None) from None


@dataclass(frozen=True, slots=True)
class State:
    """The number of requests that each rule has matched so far."""

    counts: tuple[int, ...] = ()


def decide(plan: Plan, state: State, call: Call) -> tuple[tuple[Act, ...], State]:
    """Return what to do to a request, and the state for the next one."""
    counts = list(state.counts) or [0] * len(plan.rules)
    acts: list[Act] = []
    for index, rule in enumerate(plan.rules):
        if rule.match(call):
            counts[index] += 1
            if rule.is_due(counts[index], _draw(plan.seed, index, counts[index]) if rule.share else 0.0):
                acts.append(rule.act)
    return tuple(acts), State(tuple(counts))


def _draw(*point: int) -> float:
    """Return a number from 0 to 1 that is always the same for the same point."""
    return int.from_bytes(hashlib.blake2b(repr(point).encode(), digest_size=8).digest()) / 2**64


def _to_data(value: Any) -> Any:
    """Return a plan as plain data, without defaults; the kind of an act is always written."""
    if is_dataclass(value):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _to_data(inner) for field, inner in pairs if field.name == "kind" or inner != field.default}
    return [_to_data(item) for item in value] if isinstance(value, tuple) else value


@cache
def _plan_adapter() -> TypeAdapter[Plan]:
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(Plan)
