"""The severity of a step: how much it takes from the users of an object. It is an order, so that "no more than was
approved" can be said.

Pure, from what `effect` found. What is approved and what happens may differ in words; they may not differ upwards.
"""

from __future__ import annotations

from enum import IntEnum

from fleet.plan.effect import EffectKind, effect_of
from fleet.plan.step import Step


class Severity(IntEnum):
    """How much a step takes away; each value takes more than the one before it."""

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
    effect = effect_of(step)
    by_effect = _BY_EFFECT.get(effect.does, Severity.NOTHING)
    if effect.does is EffectKind.ADOPT_CHANGED and step.effect is not None:
        by_effect = Severity.INTERRUPT  # an effect of its own is more than a change in place
    return max(by_effect, Severity.LOSE) if effect.destructive else by_effect
