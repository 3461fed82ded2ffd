"""README.md of the status branch, from data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.git import status
from fleet.git.status_records import AppRecord, StatusRecord

AT = "2025-03-01T12:00:00Z"
WELL = StatusRecord(
    "orders", "eu-1", "Synced", "Healthy", AT, "a" * 40, "a" * 40,
    apps=(
        AppRecord("Etcd", "orders", "config", "3.6.5", "3/3", "yes", "Healthy", AT),
        AppRecord("Etcd", "orders", "other", "3.6.5", "3/3", "yes", "Healthy", AT),
        AppRecord("Redis", "orders", "cache", "8.0", health="Healthy", since=AT),
    ),
)  # fmt: skip


def rendered(*records: StatusRecord, unreadable: int = 0) -> str:
    return status.render_page(records, unreadable).decode()


def test_the_table_has_a_row_per_stack_and_cluster() -> None:
    text = rendered(WELL, replace(WELL, cluster="us-1", health="Progressing"))
    assert "🟢 1 healthy · 🔵 1 progressing" in text
    assert "| Stack | Cluster | Health | Version | Revision | Since |" in text
    versions = "Etcd config 3.6.5 (3/3), Etcd other 3.6.5 (3/3), Redis 8.0"
    row = ["[orders](clusters/eu-1/orders.json)", "eu-1", "🟢 Healthy", versions, "`aaaaaaaa`"]
    assert f"| {' | '.join(row)} | 2025-03-01 12:00 UTC |" in text.splitlines()


def test_what_is_wrong_stands_below_with_its_reason() -> None:
    sick = replace(
        WELL, sync="Unreachable", health="Unknown", wanted="b" * 40, message="no route to host",
        apps=(AppRecord("Etcd", "orders", "config", health="Degraded", since=AT, message="2 of 3 members"),),
    )  # fmt: skip
    text = rendered(sick)
    assert "| ⚫ Unknown · ⚠️ Unreachable | – | `aaaaaaaa` → `bbbbbbbb` |" in text
    assert "⚠️ 1 not synced" in text
    assert "- **orders** on **eu-1**: `no route to host`\n  - Etcd config: `2 of 3 members`\n" in text


@pytest.mark.parametrize("health", ["Unknown", "Progressing", "Suspended"])
def test_what_is_not_reported_or_under_way_is_not_called_wrong(health: str) -> None:
    young = replace(
        WELL, health=health, message="Etcd config: no operator has reported on it yet",
        apps=(replace(WELL.apps[0], health=health, message="no operator has reported on it yet"),),
    )  # fmt: skip
    text = rendered(young)
    assert "wrong" not in text
    assert (
        "## What else is not healthy\n\n- **orders** on **eu-1**: `Etcd config: no operator has reported on it yet`\n"
    ) in text
    assert "wrong" not in rendered(replace(young, sync="Waiting"))
    assert "## What is wrong\n" in rendered(replace(young, sync="Failed"))
    sick = replace(young, apps=(replace(young.apps[0], health="Degraded"),))
    both = rendered(replace(sick, stack="a"), young)
    wrong, _, other = both.partition("## What else")
    assert ("**a**" in wrong, "**a**" in other) == (True, False)
    assert ("**orders**" in wrong, "**orders**" in other) == (False, True)


def test_a_healthy_fleet_has_no_section_of_troubles() -> None:
    assert "wrong" not in rendered(WELL)


def test_an_empty_fleet_says_so() -> None:
    assert "Nothing is deployed." in rendered()


def test_files_of_another_version_are_counted() -> None:
    assert "of another version and not shown: 2." in rendered(WELL, unreadable=2)


def test_no_text_from_outside_can_break_the_table_or_become_markup() -> None:
    evil = "`x` | <img src=x onerror=y> @everyone [l](http://e)"
    text = rendered(
        replace(WELL, health="Degraded", message=evil, apps=(replace(WELL.apps[0], version="1|2<b>@all`"),))
    )
    row = next(line for line in text.splitlines() if "eu-1" in line)
    assert row.count("|") == 7
    assert not set("<`@") & set(row.split("|")[4])
    code = next(line for line in text.splitlines() if line.startswith("- **orders**")).partition(": ")[2]
    assert code.count("`") == 2
    assert code[0] == code[-1] == "`"


def test_a_very_large_fleet_is_cut_off_with_a_word() -> None:
    text = rendered(*(replace(WELL, cluster=f"c-{n}") for n in range(status.MOST_ROWS + 5)))
    assert "5 more are in the files under `clusters/`." in text
