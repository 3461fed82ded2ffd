"""What has left git, as data: how much of it is believed."""

from __future__ import annotations

import pytest

from fleet.errors import PolicyError
from fleet.objects.desired import StackCluster
from fleet.plan.budget import DeletionBudget
from fleet.sync.safety import Placements, check_removed_placements, removed_placements

CLUSTERS = [f"c{number}" for number in range(20)]


def placed(stacks: list[str], clusters: list[str], *, complete: bool = True) -> Placements:
    pairs = frozenset((stack, cluster) for stack in stacks for cluster in clusters)
    return Placements(frozenset(stacks), frozenset(clusters), pairs, complete)


def known(stacks: list[str], clusters: list[str]) -> set[StackCluster]:
    return {(stack, cluster) for stack in stacks for cluster in clusters}


def test_one_of_anything_may_leave() -> None:
    before = known(["a", "b"], CLUSTERS[:3])
    check_removed_placements(before, placed(["a"], CLUSTERS[:3]), DeletionBudget())
    check_removed_placements(before, placed(["a", "b"], CLUSTERS[:2]), DeletionBudget())
    check_removed_placements(before, placed(["a", "b", "new"], CLUSTERS[:4]), DeletionBudget())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ((["a"], ["c1"]), ([], ["c1"]), "no stack is left in git, and a had been synced"),
        ((["a", "b", "c", "d"], ["c1"]), (["a", "b"], ["c1"]), "2 of 4 stacks have left git (c, d), the budget is 1"),
        ((["a"], CLUSTERS), (["a"], CLUSTERS[:17]), "3 of 20 clusters have left git (c17, c18, c19), the budget is 2"),
    ],
)
def test_more_is_refused_and_allowed_by_number(
    before: tuple[list[str], list[str]], after: tuple[list[str], list[str]], words: str
) -> None:
    was, now = known(*before), placed(*after)
    gone = len(removed_placements(was, now))
    with pytest.raises(PolicyError) as refused:
        check_removed_placements(was, now, DeletionBudget())
    assert words in refused.value.message
    assert f"--allow-deletes {gone}" in str(refused.value)
    check_removed_placements(was, now, DeletionBudget.override(gone))
    placements = "1 placement has" if gone == 1 else f"{gone} placements have"
    with pytest.raises(PolicyError, match=f"{placements} left git, the budget is {gone - 1}"):
        check_removed_placements(was, now, DeletionBudget.override(gone - 1))


def test_labels_that_choose_fewer_clusters_are_counted_by_stack() -> None:
    now = Placements(frozenset({"a"}), frozenset(CLUSTERS), frozenset(("a", one) for one in CLUSTERS[:10]))
    with pytest.raises(PolicyError, match="10 of 20 clusters are no longer chosen by a"):
        check_removed_placements(known(["a"], CLUSTERS), now, DeletionBudget())


def test_a_run_over_some_stacks_says_nothing_about_the_others() -> None:
    before = known(["a", "b", "c"], CLUSTERS[:2])
    check_removed_placements(before, placed(["a"], CLUSTERS[:2], complete=False), DeletionBudget())


def test_many_small_losses_are_a_large_one() -> None:
    stacks = [f"s{number}" for number in range(30)]
    with pytest.raises(PolicyError, match="30 placements have left git, the budget is 10"):
        check_removed_placements(known(stacks, CLUSTERS), placed(stacks, CLUSTERS[:19]), DeletionBudget())
