"""Previews as pages: where they are, for how long, and what a process says that does not have them."""

from __future__ import annotations

import pytest

from fleet.serve.report import pages
from fleet.serve.report.pages import Pages, page_response


def path(address: str) -> str:
    return address.removeprefix("https://fleet.example.com")


def test_a_page_is_the_newest_preview_of_an_open_pull_request_at_an_address_of_its_own() -> None:
    kept = Pages("https://fleet.example.com/")
    first, other = kept.keep(1, "one"), kept.keep(2, "two")
    assert first != other
    assert kept.keep(1, "one, again") == first
    assert (kept.find(path(first)), kept.find(path(other))) == (b"one, again", b"two")
    assert Pages("https://fleet.example.com").keep(1, "one") != first, "it cannot be known from the number"
    kept.only({2})
    assert (kept.find(path(first)), kept.find(path(other))) == (None, b"two")
    kept.forget(2)
    assert kept.find(path(other)) is None
    assert kept.keep(1, "opened again") != first


def test_where_people_do_not_reach_the_process_there_is_no_page() -> None:
    assert Pages().keep(1, "one") == ""


def test_pages_are_bounded_and_of_equal_ones_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST", 10)
    kept = Pages("https://fleet.example.com")
    addresses = [kept.keep(number, "four") for number in (1, 2, 3)]
    assert [kept.find(path(one)) for one in addresses] == [None, b"four", b"four"]
    kept.keep(2, "4444")
    assert kept.keep(4, "four")
    assert [kept.find(path(one)) for one in addresses] == [None, b"4444", None], "what was made anew is not old"
    assert kept.keep(5, "more than ten") == ""


def test_a_replica_that_stands_by_has_browsers_ask_again() -> None:
    assert page_response(b"<p>", leads=True).status == 200
    assert page_response(b"<p>", leads=True).headers["Cache-Control"] == "no-store"
    assert page_response(None, leads=True).status == 404
    elsewhere = page_response(None, leads=False)
    assert (elsewhere.status, elsewhere.headers["Connection"]) == (503, "close")
    assert "refresh" in (elsewhere.text or "")
