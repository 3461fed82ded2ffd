"""The recipes of images, as data: their names, their content, and the command that runs in them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fleet.errors import ConfigurationError
from fleet.version import __version__

PREFIX = "localhost/fleet-lab"
ALL_IMAGES = "images"
OWNER = 999  # the user and group of every engine's process and data


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image: `name:version` from packages of a Debian release, perhaps with jars or this project on top; or static
    binaries alone.

    - `exact`: the very version that the name says, built from its Go module, and nothing else inside
    - `account`: the name that the packages give to the user of the engine; it gets the number of `OWNER`
    - `owned`: directories that the engine writes to, empty in the image; the first one is for its data
    - `without`: patterns of paths that the packages bring and the image does not need
    - `jars`: Maven artifacts by the directory that they and all that they need go to; what one directory has, the
      next ones do not repeat. The exact files are locked in `jar_locks/NAME-VERSION.lock`
    - `programs`: commands of the image by name, each with the options and the main class that Java gets
    - `files`: texts by path
    """

    name: str
    version: str
    suite: str = ""
    packages: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    account: str = ""
    owned: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    jars: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    wheel: bool = False
    python: str = ""
    exact: bool = field(default=False, repr=False)

    @property
    def reference(self) -> str:
        """Return the name by which a pod asks for it; `localhost/` keeps a kubelet from looking for a registry."""
        return f"{PREFIX}/{self.name}:{self.version}"

    @property
    def runs_as(self) -> str:
        """Return the user of the image's process, in numbers: a kubelet can see that it is not root."""
        return self.user or (f"{OWNER}:{OWNER}" if self.account else "")

    @property
    def source(self) -> str:
        if self.exact:
            return "Go modules"
        return f"Debian {self.suite}" + (", Maven Central" if self.jars else "")


@cache
def all_recipes() -> tuple[Recipe, ...]:
    data = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text())
    return tuple(
        _recipe(name, version, fields) for name, versions in data.items() for version, fields in versions.items()
    )


def _recipe(name: str, version: str, fields: dict[str, Any]) -> Recipe:
    return Recipe(name=name, version=version or __version__, **{key: _freeze(value) for key, value in fields.items()})


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _freeze(inner) for key, inner in value.items()}
    return tuple(value) if isinstance(value, list) else value


def find_recipes(reference: str) -> list[Recipe]:
    """Return the recipes that a user names: `etcd` (all versions), `etcd:3.5` (that one) or `images` (every recipe).

    Raises ConfigurationError if there is none.
    """
    if reference == ALL_IMAGES:
        return list(all_recipes())
    name, _, version = reference.partition(":")
    versions = [recipe for recipe in all_recipes() if recipe.name == name]
    if not versions:
        names = ", ".join(dict.fromkeys(recipe.name for recipe in all_recipes()))
        raise ConfigurationError(f"there is no recipe for an image {name!r}", hint=f"there are: {names}")
    recipes = [recipe for recipe in versions if version in ("", recipe.version)]
    if not recipes:
        names = ", ".join(f"{recipe.name}:{recipe.version}" for recipe in versions)
        raise ConfigurationError(f"there is no recipe for version {version} of {name}", hint=f"there are: {names}")
    return recipes
