"""The word that a stack is left as it is: written, read, and meant for everywhere."""

from __future__ import annotations

from fleet.plan import Inventory, plan
from fleet.plan.inventory import Suspension
from fleet.sync.planning import ClusterPlan, StackPlan
from fleet.sync.result import Result
from fleet.sync.suspension import mark_suspended, read_suspensions
from tests.objects.live import config_map, desired, wanted

SAID = Suspension("2026-11-16T14:00:00Z", "Åsa@host", "ticket #12: 50 % more\twrites\n", everywhere=True)


def test_it_is_one_line_and_comes_back_as_it_was() -> None:
    assert SAID.line().count("\t") == 3
    assert "\n" not in SAID.line()
    assert Suspension.read(SAID.line()) == SAID
    assert Suspension.read("") is None
    assert str(Suspension.read("do not touch")) == "suspended by somebody: do not touch"


def seen(stack: str, word: Suspension | None) -> StackPlan:
    one = wanted(config_map("a"))
    made = plan(desired(one), Inventory("orders", "eu-1", suspension=word), {one.key: None})
    return StackPlan(stack, None, made)


def test_a_word_for_everywhere_holds_where_it_was_not_written() -> None:
    looks = {
        "eu": ClusterPlan((seen("orders", SAID), seen("billing", None))),
        "us": ClusterPlan((seen("orders", None),)),
    }
    words = read_suspensions(looks)
    assert words == {("orders", "eu"): SAID, ("orders", "us"): SAID}
    results = mark_suspended([Result("orders", "us", looks["us"].seen[0].plan), Result("billing", "eu")], words)
    assert results[0].plan is None
    assert results[0].suspended == f"{SAID}; 1 change waits"
    assert results[1] == Result("billing", "eu")


def test_a_word_for_one_cluster_holds_there_only() -> None:
    here = Suspension(SAID.at, SAID.by, everywhere=False)
    assert Suspension.read(here.line()) == here
    assert read_suspensions(
        {"eu": ClusterPlan((seen("orders", here),)), "us": ClusterPlan((seen("orders", None),))}
    ).keys() == {("orders", "eu")}
