"""The same plan as a tree, as data and as Markdown."""

from __future__ import annotations

import pytest

from fleet.errors import PolicyError
from fleet.objects.desired import Key
from fleet.plan import Inventory, Plan, PlanView, plan, plan_removed_placement
from fleet.plan.budget import DeletionBudget, check_budget, check_share, count_lost_objects
from fleet.plan.step import plan_hash
from fleet.plan.views.json import plan_data
from fleet.plan.views.markdown import markdown_comment
from fleet.plan.views.summary import summary_line
from fleet.plan.views.text import text_tree
from tests.objects.live import config_map, desired, entry_of, live_of, wanted


def example() -> list[PlanView]:
    old, new = config_map("changed", {"a": "1", "b": "2"}), config_map("changed", {"a": "3"})
    fresh, gone, same = config_map("fresh"), config_map("gone"), config_map("same")
    known = Inventory("orders", "eu-1", "r", (entry_of(old), entry_of(gone, uid="u2"), entry_of(same, uid="u3")))
    live = {
        Key.of(old): live_of(old),
        Key.of(fresh): None,
        Key.of(gone): live_of(gone, uid="u2"),
        Key.of(same): live_of(same, uid="u3"),
    }
    made = plan(desired(wanted(new), wanted(fresh), wanted(same)), known, live)
    return [PlanView("orders", "us-1", None, "cannot reach cluster us-1"), PlanView("orders", "eu-1", made)]


def test_the_tree_goes_from_stack_to_cluster_to_object() -> None:
    assert text_tree(example()) == (
        """\
1 destructive change
  orders on eu-1: - delete ConfigMap orders/gone

orders
├─ eu-1
│  ├─ ~ update     ConfigMap orders/changed  stacks/orders.py:7
│  │               data.a: "1" → "3"
│  │               data.b: "2" removed
│  ├─ + create     ConfigMap orders/fresh    stacks/orders.py:7
│  └─ - delete     ConfigMap orders/gone
└─ us-1  failed: cannot reach cluster us-1

1 to create, 1 to update, 1 to delete, 1 cluster failed, 1 unchanged"""
    )


def test_colour_is_only_there_when_asked_for() -> None:
    assert "\x1b[32m+ create" in text_tree(example(), colour=True)
    assert "\x1b" not in text_tree(example())


def test_unchanged_objects_are_shown_when_asked_for() -> None:
    assert "= unchanged  ConfigMap orders/same" in text_tree(example(), unchanged=True)


def test_a_tree_of_thousands_is_cut() -> None:
    objects = tuple(wanted(config_map(f"c{number}")) for number in range(1000))
    text = text_tree([PlanView("orders", "eu-1", plan(desired(*objects), None, {one.key: None for one in objects}))])
    assert len(text.splitlines()) < 250
    assert "└─ … and 800 more" in text
    assert text.endswith("1000 to create")


def test_nothing_to_do_says_so() -> None:
    assert summary_line([PlanView("orders", "eu-1", plan(desired(), None, {}))]) == "no changes"


def test_the_data_has_hash_summary_and_changes() -> None:
    data = plan_data(example())
    assert data["changeSummary"] == {
        "create": 1, "update": 1, "delete": 1, "adopt": 0, "forget": 0, "record": 0, "unchanged": 1, "conflict": 0,
    }  # fmt: skip
    _, us = data["clusters"]
    assert us == {"stack": "orders", "cluster": "us-1", "error": "cannot reach cluster us-1"}
    gone, changed, _ = data["steps"]
    assert (gone["verb"], gone["destructive"]) == ("delete", True)
    assert changed["changes"][0] == {"path": "data.a", "before": "1", "after": "3"}
    assert changed["source"] == {"file": "stacks/orders.py", "line": 7}


def test_the_hash_depends_on_what_is_done_and_not_on_what_is_live() -> None:
    manifest = config_map("a", {"a": "2"})
    known = Inventory("orders", "eu-1", "r", (entry_of(config_map("a")),))
    hashes = set()
    for value in ("1", "5"):
        live = live_of(config_map("a", {"a": value}), resourceVersion=value)
        hashes.add(plan_hash([plan(desired(wanted(manifest)), known, {Key.of(manifest): live})]))
    assert len(hashes) == 1
    assert plan_hash([plan(desired(wanted(manifest)), None, {Key.of(manifest): None})]) not in hashes


def test_markdown_has_a_diff_block_per_cluster_and_stays_within_a_comment() -> None:
    text = markdown_comment(example())
    assert "! update ConfigMap orders/changed" in text
    assert "- delete ConfigMap orders/gone" in text
    assert "| orders | us-1 |  |  |  | ⚠️ cannot reach cluster us-1 |" in text
    objects = tuple(wanted(config_map(f"c{number}")) for number in range(2000))
    large = plan(desired(*objects), None, {one.key: None for one in objects})
    cut = markdown_comment([PlanView("orders", "eu-1", large)])
    assert len(cut) < 65_536
    assert cut.count("```") % 2 == 0


def test_the_budget_counts_deletions_and_clusters_that_leave() -> None:
    entries = tuple(entry_of(config_map(f"c{number}")) for number in range(3))
    known = Inventory("orders", "eu-1", "r", entries)
    deletes = plan(desired(), known, {entry.key: live_of(config_map(entry.key.name)) for entry in entries})
    check_budget("eu-1", [deletes], DeletionBudget(3))
    with pytest.raises(PolicyError, match=r"takes away 3 objects \(orders 3\), the budget is 2"):
        check_budget("eu-1", [deletes], DeletionBudget(2))
    with pytest.raises(PolicyError):
        check_budget("eu-1", [plan_removed_placement(known)], DeletionBudget(2))


def test_a_stack_loses_one_object_or_its_share_and_what_is_retained_does_not_count() -> None:
    def losing(count: int, of: int) -> Plan:
        entries = tuple(entry_of(config_map(f"c{number:02}")) for number in range(of))
        kept = (entry_of(config_map("kept"))._replace(retain=True),)
        live = {entry.key: live_of(config_map(entry.key.name)) for entry in entries + kept}
        wants = [wanted(config_map(f"c{number:02}")) for number in range(count, of)]
        return plan(desired(*wants), Inventory("orders", "eu-1", "r", entries + kept), live)

    for count, of in ((1, 1), (1, 10), (2, 20), (3, 39)):
        assert count_lost_objects(losing(count, of)) == count
        check_share(losing(count, of), DeletionBudget())
    for count, of in ((2, 2), (2, 19), (4, 39)):
        with pytest.raises(PolicyError, match=f"takes away {count} of the {of} objects of orders"):
            check_share(losing(count, of), DeletionBudget())
        check_share(losing(count, of), DeletionBudget.override(count))
