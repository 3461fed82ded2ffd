"""What is taken of the fields of an answer, whoever gave it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kit.protocol.bounds import cut_text, read_items, read_number, read_release, read_text


def test_fields_that_are_left_out_are_zero_and_empty() -> None:
    assert (read_number({}, "id"), read_text({}, "name"), read_items({}, "members")) == (0, "", [])


def test_numbers_of_64_bits_come_as_texts_or_numbers() -> None:
    assert read_number({"id": str((1 << 64) - 1)}, "id") == (1 << 64) - 1
    assert read_number({"id": 7}, "id") == 7


@pytest.mark.parametrize("odd", ["-1", "x", str(1 << 64), "9" * 5000, [], {}, 1e300], ids=lambda odd: str(odd)[:9])
def test_what_is_no_number_of_64_bits_is_refused(odd: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_number({"id": odd}, "id")


def test_a_text_is_cut_where_none_is_longer() -> None:
    assert len(read_text({"name": "m" * 5000}, "name")) == len(cut_text("m" * 5000)) == 1024


@pytest.mark.parametrize("odd", ["members", {"a": 1}, [1] * 65])
def test_a_list_is_one_and_not_longer_than_any_app(odd: Any) -> None:
    with pytest.raises(ValueError, match="members is no list of 64 at most"):
        read_items({"members": odd}, "members")


@pytest.mark.parametrize("version", ["3.5", "3.5.16", "17.2"])
def test_a_release_is_compared_with_others(version: str) -> None:
    assert read_release({"version": version}, "version") == version


@pytest.mark.parametrize("odd", ["", "three", "3", "3.5.16\n3.6", "3.5.16-rc.1", "99999.1", None])
def test_what_is_no_release_is_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match="is no release"):
        read_release({"version": odd}, "version")
