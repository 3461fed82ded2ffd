"""What every recipe of an engine has in common."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest

from fleet.errors import ConfigurationError
from fleet.lab import files
from fleet.lab.images.recipes import Recipe, all_recipes, find_recipes
from fleet.lab.programs.build import ETCDS, build_module

OURS = ("fleet-operator", "fleet-serve")
ENGINES = [recipe for recipe in all_recipes() if recipe.name not in (*OURS, "etcd")]
TWO_VERSIONS = ("etcd", "nats", "postgresql", "redis", "mariadb", "rabbitmq", "prometheus")


def test_engines_that_are_upgraded_in_tests_come_in_two_versions() -> None:
    counts = Counter(recipe.name for recipe in all_recipes())
    assert {name for name, count in counts.items() if count >= 2} >= set(TWO_VERSIONS)


@pytest.mark.parametrize("recipe", ENGINES, ids=lambda recipe: f"{recipe.name}:{recipe.version}")
def test_an_engine_is_not_root_and_has_a_place_for_its_data(recipe: Recipe) -> None:
    assert recipe.runs_as == "999:999"
    assert recipe.owned[0].startswith("/var/lib/")


def test_an_unknown_image_or_version_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="no recipe for an image 'mysql'") as refused:
        find_recipes("mysql")
    assert "mariadb" in (refused.value.hint or "")
    with pytest.raises(ConfigurationError, match="no recipe for version 6 of redis") as refused:
        find_recipes("redis:6")
    assert refused.value.hint == "there are: redis:7.0, redis:8.0"


@pytest.mark.parametrize("version", sorted(ETCDS))
def test_an_exact_version_is_that_version(version: str) -> None:
    """Whatever the recipe is called: what runs says what it is, and so do its clients."""
    assert [recipe.exact for recipe in find_recipes(f"etcd:{version}")] == [True]
    programs = build_module(ETCDS[version])
    for command in (["etcd", "--version"], ["etcdctl", "version"], ["etcdutl", "version"]):
        said = subprocess.run([programs / command[0], *command[1:]], check=True, capture_output=True, text=True).stdout
        assert re.search(rf"^(etcd Version|{command[0]} version): {re.escape(version)}$", said, re.MULTILINE), said


@pytest.mark.parametrize("name", ["provisioner", "coredns", "etcd"])
def test_what_is_built_beside_kubernetes_has_the_same_versions_so_that_it_is_compiled_once(name: str) -> None:
    kubernetes, own = versions("kubernetes"), versions(name)
    shared = {path for path in own.keys() & kubernetes.keys() if not path.startswith("k8s.io/kubernetes")}
    assert len(shared) > 20
    assert {path: own[path] for path in shared} == {path: kubernetes[path] for path in shared}


def versions(name: str) -> dict[str, str]:
    """The modules that a go.mod names, by path."""
    text = (files.modules_directory() / name / "go.mod").read_text()
    found = dict(re.findall(r"^\s+(\S+) (v\S+)", text, re.MULTILINE))
    return found | dict(re.findall(r"^\s+(\S+) => \S+ (v\S+)", text, re.MULTILINE))
