"""Lock files of jars, written anew: Maven itself finds what the artifacts of a recipe need.

    python -m fleet.lab.images.jars_resolve            every recipe with jars
    python -m fleet.lab.images.jars_resolve kafka:4.1  this one

Only a change of a recipe needs this; building an image needs no Maven.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from fleet.errors import ResourceError
from fleet.lab.files import hash_file, write_file
from fleet.lab.images.jars import Jar, format_lock, lock_file
from fleet.lab.images.recipes import Recipe, all_recipes, find_recipes
from fleet.lab.programs import packages
from fleet.text import count_noun

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# Natives for other systems come as jars of their own, with a classifier in their names.
ELSEWHERE = ("osx", "windows", "aarch_64", "aarch64")


def resolve_jars(recipe: Recipe) -> list[Jar]:
    """Return all jars that a recipe's artifacts need to run, each in the first directory that needs it."""
    jars: dict[str, Jar] = {}
    for directory, artifacts in recipe.jars.items():
        with tempfile.TemporaryDirectory() as work:
            _copy_jars(artifacts, Path(work))
            for file in sorted(Path(work, "jars").rglob("*.jar")):
                path = file.relative_to(Path(work, "jars")).as_posix()
                if not any(f"-{system}" in file.name for system in ELSEWHERE):
                    jars.setdefault(path, Jar(hash_file(file), directory, path))
    return sorted(jars.values(), key=lambda jar: (jar.directory, jar.path))


def _copy_jars(artifacts: tuple[str, ...], work: Path) -> None:
    project = Path(work, "pom.xml")
    project.write_text(_project_file(artifacts))
    options = [f"-DoutputDirectory={work}/jars", "-Dmdep.useRepositoryLayout=true", "-DincludeScope=runtime"]
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(project), PLUGIN, *options]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode:
        raise ResourceError(f"Maven could not resolve {', '.join(artifacts)}:\n{process.stdout.strip()[-2000:]}")


def _project_file(artifacts: tuple[str, ...]) -> str:
    def dependency(artifact: str) -> str:
        fields = zip(("groupId", "artifactId", "version"), artifact.split(":"), strict=True)
        return "<dependency>" + "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields) + "</dependency>"

    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>fleet</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencies>{''.join(map(dependency, artifacts))}</dependencies></project>"
    )


def main(names: list[str]) -> None:
    packages.require_programs({"mvn": "maven"}, "locks of jars")
    recipes = [recipe for name in names for recipe in find_recipes(name)] or all_recipes()
    for recipe in recipes:
        if recipe.jars:
            jars = resolve_jars(recipe)
            write_file(lock_file(recipe), format_lock(jars))
            print(f"{lock_file(recipe).name}: {count_noun(len(jars), 'jar')}")


if __name__ == "__main__":
    main(sys.argv[1:])
