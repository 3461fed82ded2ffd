"""Lock files: which jars an image has, where each goes, and the checksum that it must have.

A line is `SHA256  DIRECTORY  PATH`, where PATH is that of Maven's repositories: GROUP/ARTIFACT/VERSION/FILE.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigurationError
from fleet.lab.images.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of an image."""

    sha256: str
    directory: str
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def place(recipe: Recipe) -> Path:
    return Path(__file__).with_name(f"{recipe.name}-{recipe.version}.lock")


def read(recipe: Recipe) -> list[Jar]:
    """The jars of a recipe. Its lock must be one of the artifacts that the recipe names now."""
    file = place(recipe)
    lines = file.read_text().splitlines() if file.exists() else []
    found = [Jar(*line.split()) for line in lines]
    held = {(jar.directory, jar.path) for jar in found}
    for directory, artifacts in recipe.jars.items():
        for artifact in artifacts:
            if (directory, path_of(artifact)) not in held:
                raise ConfigurationError(
                    f"{file.name} does not have {artifact}, which the recipe of {recipe.name}:{recipe.version} names",
                    hint=f"run `python -m fleet.lab.images.jars.resolve {recipe.name}:{recipe.version}`",
                )
    return found


def text(jars: Iterable[Jar]) -> str:
    return "".join(f"{jar.sha256}  {jar.directory}  {jar.path}\n" for jar in jars)


def path_of(artifact: str) -> str:
    """Where repositories have `group:artifact:version`."""
    group, name, version = artifact.split(":")
    return f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar"
