"""What every recipe of an engine has in common."""

from __future__ import annotations

from collections import Counter

import pytest

from fleet.errors import ConfigurationError
from fleet.lab.images.recipes import Recipe, all_recipes, find

OURS = ("fleet-operator", "fleet-serve")
ENGINES = [recipe for recipe in all_recipes() if recipe.name not in (*OURS, "etcd")]
TWO_VERSIONS = ("etcd", "postgresql", "redis", "mariadb", "rabbitmq", "prometheus")


def test_engines_that_are_upgraded_in_tests_come_in_two_versions() -> None:
    counts = Counter(recipe.name for recipe in all_recipes())
    assert {name for name, count in counts.items() if count >= 2} >= set(TWO_VERSIONS)


@pytest.mark.parametrize("recipe", ENGINES, ids=lambda recipe: f"{recipe.name}:{recipe.version}")
def test_an_engine_is_not_root_and_has_a_place_for_its_data(recipe: Recipe) -> None:
    assert recipe.runs_as == "999:999"
    assert recipe.owned[0].startswith("/var/lib/")


def test_an_unknown_image_or_version_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="no recipe for an image 'mysql'") as refused:
        find("mysql")
    assert "mariadb" in (refused.value.hint or "")
    with pytest.raises(ConfigurationError, match="no recipe for version 6 of redis") as refused:
        find("redis:6")
    assert refused.value.hint == "there are: redis:7.0, redis:8.0"
