"""Whether a stack may be taken back by itself, and to what: from data."""

from __future__ import annotations

import pytest

from fleet.sync.going_back import NoWayBackError, Past, is_rollback, trailer, way_back

NOW = Past("n" * 40, was_well=False, same=True)  # the commit that made a cluster ill
NEIGHBOUR = Past("m" * 40, was_well=True, same=True)  # before it: another stack's commit, on the same files
GOOD = Past("g" * 40, was_well=True, same=False)
BAD = Past("b" * 40, was_well=False, same=False)
FORMER = Past("f" * 40, was_well=True, same=True)  # it stood on today's files before, and was well


def test_it_goes_back_to_the_commit_before_with_other_files_if_that_was_well() -> None:
    assert way_back([NOW, GOOD, BAD], is_rollback=False) == GOOD.revision
    assert way_back([NOW, NEIGHBOUR, GOOD], is_rollback=False) == GOOD.revision, "what changed nothing of it is no step"
    assert way_back([GOOD], is_rollback=False) == GOOD.revision, "nothing was written about the newest yet"


@pytest.mark.parametrize(
    ("past", "why"),
    [
        pytest.param([], "no earlier commit of it is known", id="its first commit"),
        pytest.param([NOW, NEIGHBOUR], "no earlier commit of it is known", id="always the same files"),
        pytest.param([NOW, BAD, GOOD], "it was not well at bbbbbbbb either", id="ill before"),
        pytest.param([NOW, BAD, FORMER], "as they were at ffffffff, where it was well", id="a revert that is ill"),
        pytest.param(
            [NOW, GOOD, FORMER], "as they were at ffffffff, where it was well", id="two that are both called well"
        ),
    ],
)
def test_else_it_stays_and_says_why(past: list[Past], why: str) -> None:
    with pytest.raises(NoWayBackError, match=why):
        way_back(past, is_rollback=False)


def test_a_rollback_is_never_rolled_back() -> None:
    with pytest.raises(NoWayBackError, match="is a rollback already"):
        way_back([NOW, GOOD], is_rollback=True)
    said = f"Roll back orders to 12345678\n\nAs of …\n\n{trailer('orders', 'a' * 40)}"
    assert is_rollback(said, "orders")
    assert not is_rollback(said, "order")
    assert not is_rollback("Roll back orders to 12345678\n", "orders")
