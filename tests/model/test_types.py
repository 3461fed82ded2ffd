"""Strings with a grammar: what is taken, and what is said about what is not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fleet.model.types import AppName, Cron, Duration, Name, Quantity, Release, Version, amount, release
from fleet.times import seconds


def taken(kind: Any, text: str) -> str:
    value: str = TypeAdapter(kind).validate_python(text)
    return value


def refused(kind: Any, text: object) -> tuple[str, str | None]:
    """The message and the hint."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(text, strict=True)
    context = caught.value.errors()[0].get("ctx", {})
    return context.get("message", caught.value.errors()[0]["msg"]), context.get("hint")


@pytest.mark.parametrize("text", ["a", "orders-db", "9lives", "a" * 63])
def test_names_are_dns_labels(text: str) -> None:
    assert taken(Name, text) == text


@pytest.mark.parametrize(
    ("text", "right"),
    [("OrdersDb", "'orders-db'"), ("orders_db", "'orders-db'"), ("-x-", "'x'"), ("orders db!", "'orders-db'")],
)
def test_a_wrong_name_gets_the_right_one_proposed(text: str, right: str) -> None:
    message, hint = refused(Name, text)
    assert repr(text) in message
    assert hint is not None
    assert right in hint


def test_an_apps_name_leaves_room_for_what_is_made_of_it() -> None:
    assert "40 is the most" in refused(AppName, "a" * 41)[0]
    assert "must start with a letter" in refused(AppName, "9lives")[0]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1Ki", 1024),
        ("100Gi", 100 * 2**30),
        ("500m", Decimal("0.5")),
        ("2", 2),
        ("1.5G", 1_500_000_000),
        ("3Ei", 3 * 2**60),
    ],
)
def test_quantities_are_kubernetes_own(text: str, number: int | Decimal) -> None:
    assert taken(Quantity, text) == text
    assert amount(text) == number


@pytest.mark.parametrize(
    ("text", "hint"),
    [("100GB", "'100Gi'"), ("10 gi", "'10Gi'"), ("512 megabytes", "such as"), ("lots", "such as"), ("-1Gi", "such as")],
)
def test_a_wrong_quantity_says_what_was_probably_meant(text: str, hint: str) -> None:
    assert hint in (refused(Quantity, text)[1] or "")


def test_a_quantity_of_nothing_is_refused() -> None:
    assert "more than 0" in refused(Quantity, "0Gi")[0]


@pytest.mark.parametrize(("text", "length"), [("30s", 30), ("5m", 300), ("1h30m", 5400), ("2w", 1_209_600), ("0s", 0)])
def test_durations(text: str, length: int) -> None:
    assert taken(Duration, text) == text
    assert seconds(text) == length


@pytest.mark.parametrize(
    ("text", "hint"), [("5 min", "'5m'"), ("90 Seconds", "'90s'"), ("30m1h", "largest first"), ("", "such as")]
)
def test_a_wrong_duration_says_what_would_be_right(text: str, hint: str) -> None:
    assert hint in (refused(Duration, text)[1] or "")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("17", Release(17)), ("3.5", Release(3, 5)), ("3.5.21", Release(3, 5, 21)), ("8.0", Release(8, 0))],
)
def test_versions(text: str, parts: Release) -> None:
    assert taken(Version, text) == text
    assert release(text) == parts
    assert str(parts) == text


@pytest.mark.parametrize(
    ("text", "hint"), [("v3.5", "'3.5'"), ("3.5.x", "'3.5'"), ("latest", "such as"), ("03.5", "'03.5'")]
)
def test_a_wrong_version_says_how_to_write_it(text: str, hint: str) -> None:
    if text == "03.5":
        assert "is not a version" in refused(Version, text)[0]
    else:
        assert hint in (refused(Version, text)[1] or "")


@pytest.mark.parametrize(
    "text", ["0 3 * * *", "*/15 0-6,22 1 jan-mar mon", "5/10 * ? * 6", "@daily", "0 0 29 2 *", "0 0 31 2 fri"]
)
def test_schedules_are_cron_lines(text: str) -> None:
    assert taken(Cron, text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 3 * *", "has 4 fields"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 3 0 * *", "'0' is no day of the month"),
        ("0 3 * 13 *", "'13' is no month"),
        ("0 3 * * 7", "'7' is no day of the week"),  # as CronJobs have it
        ("0 3 * * 5-7", "'7' is no day of the week"),
        ("*/99999999999999999999 * * * *", "is no minute"),
        ("*/٣ * * * *", "is no minute"),
        ("0 3\x1c* * *", "has 4 fields"),
        ("0 3 * * " + ",".join(["0"] * 100), "is longer than 128 characters"),
        ("0 3 * * fry", "'fry' is no day of the week"),
        ("30-10 * * * *", "'30-10' is no minute"),
        ("*/0 * * * *", "'*/0' is no minute"),
        ("0 0 31 4,6 *", "never comes"),
        ("@never", "is not a schedule"),
    ],
)
def test_a_wrong_schedule_says_which_field(text: str, said: str) -> None:
    assert said in refused(Cron, text)[0]


@pytest.mark.parametrize("kind", [Name, Quantity, Duration, Version, Cron])
def test_numbers_are_never_taken_for_strings(kind: object) -> None:
    assert "string" in refused(kind, 5)[0]
