"""A part of a plan: what is chosen, what comes with it, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import ConfigurationError, NotFoundError
from fleet.objects.desired import Key
from fleet.plan import Inventory, Plan, Verb, plan
from fleet.plan.selection import Selection, select_steps
from tests.objects.live import config_map, desired, entry_of, live_of, wanted


def made() -> Plan:
    """`new` and `newer` are to be created, the second after the first; `old` is to go; `kept` is unchanged."""
    new = wanted(config_map("new"))
    newer = wanted(config_map("newer"), depends_on=(new.key,))
    old, kept = config_map("old"), config_map("kept")
    known = Inventory("orders", "eu-1", "r", (entry_of(kept), entry_of(old)))
    live: dict[Key, dict[str, Any] | None] = {new.key: None, newer.key: None}
    live |= {entry.key: live_of(config_map(entry.key.name)) for entry in known.entries}
    return plan(desired(new, newer, wanted(kept)), known, live)


def verbs(found: Plan) -> dict[str, Verb]:
    return {step.key.name: step.verb for step in found.steps if step.verb is not Verb.UNCHANGED}


@pytest.mark.parametrize(
    ("narrowing", "left"),
    [
        (Selection(), {"new": Verb.CREATE, "newer": Verb.CREATE, "old": Verb.DELETE}),
        (Selection(("orders",)), {"new": Verb.CREATE, "newer": Verb.CREATE, "old": Verb.DELETE}),
        (Selection(("orders/newer",)), {"new": Verb.CREATE, "newer": Verb.CREATE}),
        (Selection(("*/ConfigMap/old",)), {"old": Verb.DELETE}),
        (Selection((), ("orders/new",)), {"old": Verb.DELETE}),
        (Selection((), ("orders/old",)), {"new": Verb.CREATE, "newer": Verb.CREATE}),
        (Selection(("orders/newer",), ("orders/new",)), {}),
        (Selection(("billing",)), {}),
    ],
)
def test_a_plan_is_narrowed_to_what_is_meant_and_what_it_needs(narrowing: Selection, left: dict[str, Verb]) -> None:
    found = select_steps(made(), narrowing)
    assert verbs(found) == left
    if "old" not in left:
        kept = {step.key.name: step for step in found.steps}["old"]
        assert kept.entry == made().inventory.get(kept.key), "it is still in the inventory, and goes another time"
        assert kept.reason


def test_a_pattern_that_means_nothing_is_refused() -> None:
    for pattern in ("", "orders/", "a/b/c/d"):
        with pytest.raises(ConfigurationError, match="names no object"):
            Selection((pattern,))
    Selection(("orders/new*",)).check([made()])
    with pytest.raises(NotFoundError, match="'orders/nwe' is no object"):
        Selection(("orders/nwe",)).check([made()])
