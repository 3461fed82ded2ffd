"""Whose stack is it: a repository changes its own and what nobody owns, and another's only by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.apply.executor import inventory_after
from fleet.errors import ConflictError
from fleet.objects.desired import Key
from fleet.plan import Inventory, Plan, PlanView, RepositoryOwnership, Verb, plan, plan_removed_placement
from fleet.plan.views.json import plan_data
from fleet.plan.views.markdown import markdown_comment
from fleet.plan.views.text import text_tree
from tests.objects.live import config_map, desired, entry_of, live_of, wanted

MANIFEST = config_map("a")
THEIRS = Inventory("orders", "eu-1", "abc", (entry_of(MANIFEST),), repository="example.com/theirs")


def planned(claim: RepositoryOwnership, inventory: Inventory | None = THEIRS) -> Plan:
    return plan(desired(wanted(MANIFEST)), inventory, {Key.of(MANIFEST): live_of(MANIFEST)}, ownership=claim)


@pytest.mark.parametrize("ours", ["example.com/ours", ""])
def test_a_stack_of_another_repository_is_refused_and_both_are_named(ours: str) -> None:
    with pytest.raises(ConflictError) as caught:
        planned(RepositoryOwnership(ours))
    assert "stack orders in cluster eu-1 belongs to the repository example.com/theirs" in caught.value.message
    assert (ours or "no name") in caught.value.message
    assert caught.value.hint is not None
    assert 'name = "example.com/theirs" under [fleet]' in caught.value.hint
    assert "--take-over example.com/theirs" in caught.value.hint


def test_it_is_not_emptied_or_forgotten_by_another_either() -> None:
    with pytest.raises(ConflictError):
        plan(
            desired(), THEIRS, {Key.of(MANIFEST): live_of(MANIFEST)}, ownership=RepositoryOwnership("example.com/ours")
        )
    with pytest.raises(ConflictError):
        plan_removed_placement(THEIRS, RepositoryOwnership("example.com/ours"))


def test_its_own_stack_costs_nothing() -> None:
    made = planned(RepositoryOwnership("example.com/theirs"))
    assert made.empty
    assert made.taken_from == ""


def test_one_without_an_owner_is_claimed_with_the_next_change_and_not_before() -> None:
    old = replace(THEIRS, repository="")
    unchanged = planned(RepositoryOwnership("example.com/ours"), old)
    assert unchanged.empty
    made = plan(desired(), old, {Key.of(MANIFEST): None}, ownership=RepositoryOwnership("example.com/ours"))
    assert not made.empty
    assert inventory_after(made, ()).repository == "example.com/ours"


def test_a_repository_without_a_name_does_not_take_the_name_away() -> None:
    made = plan(desired(), replace(THEIRS, repository=""), {Key.of(MANIFEST): None}, ownership=RepositoryOwnership(""))
    assert inventory_after(made, ()).repository == ""


def test_a_named_take_over_is_a_change_of_its_own_that_every_view_shows() -> None:
    made = planned(RepositoryOwnership("example.com/ours", take_over=frozenset(["example.com/theirs"])))
    assert [step.verb for step in made.steps] == [Verb.UNCHANGED]
    assert (made.taken_from, made.empty) == ("example.com/theirs", False)
    assert inventory_after(made, ()).repository == made.target.repository == "example.com/ours"
    branch = PlanView("orders", "eu-1", made)
    assert "eu-1  taken over from example.com/theirs" in text_tree([branch])
    assert "1 to take over" in text_tree([branch])
    assert "taken over from example.com/theirs" in markdown_comment([branch])
    assert plan_data([branch])["clusters"][0]["takenFrom"] == "example.com/theirs"


def test_taking_over_from_one_is_not_taking_over_from_another() -> None:
    with pytest.raises(ConflictError):
        planned(RepositoryOwnership("example.com/ours", take_over=frozenset(["example.com/third"])))
