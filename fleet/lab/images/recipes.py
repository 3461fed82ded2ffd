"""The recipes of images, as data: what they are called, what is inside."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fleet.errors import ConfigurationError
from fleet.version import __version__

PREFIX = "localhost/fleet-lab"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image: `name:version` from packages of a Debian release, perhaps with this project on top."""

    name: str
    version: str
    suite: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    user: str = ""
    wheel: bool = False
    python: str = ""

    @property
    def reference(self) -> str:
        """The name by which a pod asks for it; `localhost/` keeps a kubelet from looking for a registry."""
        return f"{PREFIX}/{self.name}:{self.version}"


@cache
def all_recipes() -> tuple[Recipe, ...]:
    data = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text())
    return tuple(
        _recipe(name, version, fields) for name, versions in data.items() for version, fields in versions.items()
    )


def _recipe(name: str, version: str, fields: dict[str, Any]) -> Recipe:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return Recipe(name=name, version=version or __version__, **values)


def find(wanted: str) -> list[Recipe]:
    """The recipes that `etcd` (all of them) or `etcd:3.5` (that one) names."""
    name, _, version = wanted.partition(":")
    named = [recipe for recipe in all_recipes() if recipe.name == name]
    if not named:
        known = ", ".join(dict.fromkeys(recipe.name for recipe in all_recipes()))
        raise ConfigurationError(f"there is no recipe for an image {name!r}", hint=f"there are: {known}")
    found = [recipe for recipe in named if version in ("", recipe.version)]
    if not found:
        known = ", ".join(f"{recipe.name}:{recipe.version}" for recipe in named)
        raise ConfigurationError(f"there is no recipe for version {version} of {name}", hint=f"there are: {known}")
    return found
