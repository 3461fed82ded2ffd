"""Options are not in the object: a change of them alone is a step that only the inventory is written for."""

from __future__ import annotations

from typing import Any

from fleet.apply.executor import inventory_after
from fleet.apply.steps import StepResult, StepState
from fleet.objects.desired import Key
from fleet.plan import Change, Inventory, Plan, PlanView, Verb, plan
from fleet.plan.step import plan_hash
from fleet.plan.views.summary import summary_line
from fleet.plan.views.text import text_tree
from tests.objects.live import config_map, desired, entry_of, live_of, wanted

MANIFEST = config_map("a")


def planned(known: dict[str, Any], manifest: dict[str, Any] = MANIFEST, **options: Any) -> Plan:
    inventory = Inventory("orders", "eu-1", "abc", (entry_of(MANIFEST)._replace(**known),))
    return plan(desired(wanted(manifest, **options)), inventory, {Key.of(MANIFEST): live_of(MANIFEST)})


def test_an_option_alone_is_shown_and_counted_and_nothing_is_sent_to_the_object() -> None:
    made = planned({"protect": True}, protect=False)
    (step,) = made.steps
    assert (step.verb, step.verb.writes, step.manifest) == (Verb.RECORD, False, None)
    assert step.changes == (Change("opts.protect", True, False),)
    assert not made.empty
    text = text_tree([PlanView("orders", "eu-1", made)])
    assert "≡ record" in text
    assert "opts.protect: true → false" in text
    assert text.endswith("1 to record")


def test_once_recorded_it_is_no_change_any_more() -> None:
    made = planned({}, retain_on_delete=True)
    after = inventory_after(made, [StepResult(made.steps[0], StepState.DONE, uid="u1")])
    assert after.entries[0].retain
    again = plan(desired(wanted(MANIFEST, retain_on_delete=True)), after, {Key.of(MANIFEST): live_of(MANIFEST)})
    assert again.empty
    assert summary_line([PlanView("orders", "eu-1", again)]) == "no changes, 1 unchanged"


def test_with_a_change_of_the_object_it_is_a_line_of_its_update() -> None:
    (step,) = planned({}, config_map("a", {"a": "2"}), protect=True).steps
    assert step.verb is Verb.UPDATE
    assert step.changes == (Change("data.a", "1", "2"), Change("opts.protect", False, True))


def test_other_dependencies_are_shown_by_name() -> None:
    other = Key("", "ConfigMap", "orders", "b")
    (step,) = planned({"after": (other,)}).steps
    assert step.changes == (Change("opts.depends_on", ["ConfigMap orders/b"], []),)


def test_what_an_unfinished_sync_made_is_recorded_with_the_reason() -> None:
    made = planned({"uid": ""})
    (step,) = made.steps
    assert (step.verb, step.reason, step.changes) == (Verb.RECORD, "was made by a sync that did not finish", ())
    assert step.entry is not None
    assert step.entry.uid == "u1"


def test_taking_protection_away_is_another_plan_than_giving_it() -> None:
    plans = [planned({"protect": True}), planned({"protect": False}, protect=True), planned({"retain": True})]
    assert len({plan_hash([one]) for one in plans}) == 2, "after the first and the last, nothing holds the object"
