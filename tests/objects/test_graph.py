"""Order by need."""

from __future__ import annotations

import pytest

from fleet.objects.graph import CycleError, sort_by_dependencies


def test_what_is_needed_comes_first_and_ties_keep_their_order() -> None:
    assert sort_by_dependencies("abcd", {"a": "d", "c": "b"}) == ["d", "a", "b", "c"]
    assert sort_by_dependencies("abcd", {}) == ["a", "b", "c", "d"]
    assert sort_by_dependencies("ab", {"a": "z"}) == ["a", "b"]


def test_a_cycle_is_named_from_end_to_end() -> None:
    with pytest.raises(CycleError, match="b → c → b"):
        sort_by_dependencies("abc", {"a": "b", "b": "c", "c": "b"})
    with pytest.raises(CycleError, match="a → a"):
        sort_by_dependencies("a", {"a": "a"})


def test_a_long_chain_is_no_recursion() -> None:
    assert sort_by_dependencies(range(5000), {number: [number + 1] for number in range(4999)})[0] == 4999
