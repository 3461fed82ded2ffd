"""Versions of engines: series with one part or two, upgrades step by step or at once, ways back, images."""

from __future__ import annotations

import re

import pytest

from fleet.kit.driver import Refusal
from fleet.kit.versions import Versions, known_version, series_between

POSTGRES = Versions({"16": "16.9", "17": "17.5", "18": "18.1"}, "postgres:{version}", parts=1, step="any")
KAFKA = Versions(
    {"3.8": "3.8.1", "3.9": "3.9.1", "4.0": "4.0.0", "4.1": "4.1.0"},
    "kafka:{version}",
    step="any",
    before={"4.0": "3.9", "4.1": "3.9"},
    back={"4.1": "roll"},
)
MONGO = Versions(
    {"6.0": "6.0.20", "7.0": "7.0.14", "8.0": "8.0.4"}, "mongo:{version}", back={"8.0": "downgrade", "7.0": "roll"}
)


def hops(versions: Versions, current: str, target: str) -> list[str]:
    path = versions.path("it", current, target)
    assert not isinstance(path, Refusal)
    return [f"{hop} {hop.kind}, back by {hop.way_back}" for hop in path]


@pytest.mark.parametrize(
    ("versions", "current", "target", "said"),
    [
        (POSTGRES, "17.2", "17", []),
        (POSTGRES, "17.2", "17.4", ["17.2 → 17.4 patch, back by roll"]),
        (POSTGRES, "17.4", "17.2", ["17.4 → 17.2 patch, back by roll"]),
        (POSTGRES, "16.9", "18", ["16.9 → 18 upgrade, back by restore"]),
        (KAFKA, "3.8.1", "3.9", ["3.8.1 → 3.9 upgrade, back by restore"]),
        (
            KAFKA,
            "3.8.1",
            "4.1",
            ["3.8.1 → 3.9 upgrade, back by restore", "3.9 → 4.1 upgrade, back by roll"],
        ),
        (KAFKA, "4.1.0", "4.0.0", ["4.1.0 → 4.0.0 downgrade, back by roll"]),
        (
            MONGO,
            "6.0",
            "8.0",
            ["6.0 → 7.0 upgrade, back by roll", "7.0 → 8.0 upgrade, back by downgrade"],
        ),
        (
            MONGO,
            "8.0.4",
            "6.0.20",
            ["8.0.4 → 7.0 downgrade, back by roll", "7.0 → 6.0.20 downgrade, back by roll"],
        ),
    ],
)
def test_the_way_from_one_version_to_another(versions: Versions, current: str, target: str, said: list[str]) -> None:
    assert hops(versions, current, target) == said


@pytest.mark.parametrize(
    ("versions", "current", "target"),
    [(POSTGRES, "18.1", "17.5"), (KAFKA, "4.1", "3.9"), (MONGO, "6.0", "5.0")],
)
def test_where_there_is_no_way_back_the_reason_is_given(versions: Versions, current: str, target: str) -> None:
    path = versions.path("it", current, target)
    assert path == Refusal(f"it cannot go back from {current} to {target}", "restore a backup into a new app")


def test_a_series_is_any_patch_of_it() -> None:
    assert [POSTGRES.series_of(version) for version in ("17", "17.4")] == ["17", "17"]
    assert [POSTGRES.is_series(version) for version in ("17", "17.4")] == [True, False]
    assert (POSTGRES.exact("17"), POSTGRES.exact("17.2"), POSTGRES.newest("17.2")) == ("17.5", "17.2", "17.5")
    assert (POSTGRES.is_newer("17.6"), POSTGRES.is_newer("17.5"), POSTGRES.is_newer("17")) == (True, False, False)
    assert POSTGRES.newest("9") is None and not POSTGRES.is_newer("19.1")


@pytest.mark.parametrize(
    ("version", "present", "image"),
    [
        ("17", "", "postgres:17.5"),
        ("17", "postgres:17.2", "postgres:17.2"),
        ("17.4", "postgres:17.2", "postgres:17.4"),
        ("18", "postgres:17.2", "postgres:18.1"),
        ("17", "mirror/postgres:17.2", "postgres:17.5"),
    ],
)
def test_members_keep_the_patch_that_they_have(version: str, present: str, image: str) -> None:
    assert POSTGRES.kept_image(version, POSTGRES.image, present) == image


@pytest.mark.parametrize(
    ("image", "template", "version"),
    [
        ("postgres:17.2", "postgres:{version}", "17.2"),
        ("lab/postgres:17", "lab/postgres:{series}", "17"),
        ("r5.example:5000/postgres:17.2", "r5.example:5000/postgres:{tag}", "17.2"),
        ("mirror/2024.01/postgres:17.2", "mirror/2024.01/postgres:{tag}", "17.2"),
        ("other:17.2", "postgres:{version}", None),
    ],
)
def test_the_version_in_an_image_is_read_by_its_template(image: str, template: str, version: str | None) -> None:
    assert POSTGRES.version_in(image, template) == version


@pytest.mark.parametrize("versions", [POSTGRES, KAFKA, MONGO], ids=["postgres", "kafka", "mongo"])
def test_a_version_of_an_unknown_series_is_refused_by_the_server_and_by_the_model_alike(versions: Versions) -> None:
    rule = known_version("it", versions)
    pattern = rule.cel.removeprefix("self.matches('").removesuffix("')")
    assert rule.holds is not None
    texts = [f"{series}{patch}" for series in (*versions.series, "5", "7", "99.1") for patch in ("", ".1", ".1.2")]
    known = [text for text in texts if text.count(".") < 3 and rule.holds(text)]
    assert known == [text for text in texts if re.search(pattern, text)]
    assert set(versions.series) <= {*known}


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        ("etcd:v3.5.1", "etcd:v3.5.9", 0),
        ("etcd:3.4", "own.example:5000/etcd:3.6-debian", 2),
        ("etcd:3.6.1", "etcd:3.5.1", -1),
        ("postgres:16.9", "postgres:17.2", -1),
        ("etcd:newest", "etcd:3.5.1", None),
        ("etcd:3.5.1", "etcd@sha256:00", None),
    ],
)
def test_images_are_so_many_series_apart(before: str, after: str, steps: int | None) -> None:
    assert series_between(before, after) == steps


def test_the_tag_of_an_image_names_a_release_by_any_template() -> None:
    versions = Versions({"3.5": "3.5.35"}, image="quay.io/coreos/etcd:v{version}")
    assert versions.named_in("registry.example:5000/etcd:v3.5.9-debug") == "3.5.9"
    assert versions.named_in("registry.example:5000/etcd:3.5") == "3.5.35"
    assert versions.named_in("registry.example:5000/etcd") is None
