"""The ledger of members, as it is stored and read."""

from __future__ import annotations

import json

import pytest

from fleet.kit.members import MOST_RECORDS, Ledger, MemberRecord, founders, read

OF_BEFORE = (
    '{"failed": "", "failure": "", "identity": "c1", "places": {"db-0": {"cluster": ["db-0"], "member": "a0", '
    '"phase": "settled", "spoiled": ""}}, "survivor": ""}'
)


def test_a_ledger_of_a_release_before_is_read_and_written_as_it_was() -> None:
    ledger = read(OF_BEFORE)
    assert ledger == Ledger("c1", {"db-0": MemberRecord("settled", "a0", ("db-0",))})
    assert ledger.write() == OF_BEFORE


def test_members_of_a_second_role_are_kept_with_their_role() -> None:
    first, second = founders(("x-0",)), founders(("x-watch-0", "x-watch-1"), "watch")
    ledger = Ledger(places={**first.places, **second.places})
    assert read(ledger.write()) == ledger
    assert [*ledger.of_role("watch")] == ["x-watch-0", "x-watch-1"]
    assert [*ledger.of_role("")] == ["x-0"]
    stored = json.loads(ledger.write())["places"]
    assert "role" not in stored["x-0"], "as before there were roles"


def test_a_ledger_of_more_members_than_any_app_has_is_none() -> None:
    pods = tuple(f"x-{number}" for number in range(MOST_RECORDS + 1))
    with pytest.raises(ValueError, match="64 is the most"):
        read(founders(pods).write())
