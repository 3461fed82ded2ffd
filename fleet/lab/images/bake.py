"""Bake recipes into archives in the cache, one per recipe and content; a second time costs nothing."""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path

from fleet.lab.build import ETCDS, MODULES, built, content_of
from fleet.lab.files import explained, keep, remove, sha256
from fleet.lab.images import debian, store, wheel
from fleet.lab.images.archive import is_whole, layer_of, write_archive
from fleet.lab.images.jars import locks, repository
from fleet.lab.images.recipes import OWNER, Recipe
from fleet.lab.progress import Progress


def pause(reference: str) -> Path:
    """The image of the process that holds a pod's namespaces: one static binary."""
    programs = built(MODULES["pause"])
    target = store.images() / f"{programs.name}.tar"
    if not is_whole(target, reference):
        with explained("making the pause image"), store.workshop() as work:
            remove(target)
            root, layer, image = work / "root", work / "layer.tar", work / "image.tar"
            root.mkdir()
            shutil.copy(programs / "pause", root / "pause")
            layer_of(root, layer)
            write_archive(image, reference, [layer], ["/pause"], user="65535:65535")
            image.replace(target)
    return target


def bake(recipe: Recipe) -> Path:
    """The archive of a recipe's image, made if the cache does not have it."""
    with explained(f"making the image {recipe.reference}"):
        project = wheel.build() if recipe.wheel else None
        target = _place(recipe, project)
        with store.alone(target):
            if not is_whole(target, recipe.reference):
                remove(target)
                with Progress(f"making the image {recipe.reference}"):
                    _bake(recipe, project, target)
                store.tidy(f"{recipe.name}-{recipe.version}")
    return target


def baked(recipe: Recipe) -> Path | None:
    """The archive of a recipe if it was made; that of this project may be of other code than today's."""
    if recipe.wheel:
        return store.newest(f"{recipe.name}-{recipe.version}")
    target = _place(recipe, None)
    return target if target.exists() else None


def _place(recipe: Recipe, project: Path | None) -> Path:
    content = f"{recipe} {locks.read(recipe)} {debian.LEAN} {debian.LITTER} {platform.machine()} "
    content += content_of(ETCDS[recipe.version]) if recipe.exact else ""
    content += project.name + sha256(project) if project else ""
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    return store.images() / f"{recipe.name}-{recipe.version}-{key}.tar"


def _bake(recipe: Recipe, project: Path | None, target: Path) -> None:
    with store.workshop() as work:
        root, layer, image = work / "root", work / "layer.tar", work / "image.tar"
        root.mkdir()
        if project:
            wheel.install(project, recipe.python, root / wheel.PLACE)
        jars = locks.read(recipe)
        for jar, file in zip(jars, repository.fetched(jars), strict=True):
            keep(file, root / jar.directory.strip("/") / jar.name)
        for path, text in recipe.files.items():
            _write(root / path.strip("/"), text.lstrip("\n"), 0o644)
        for name, arguments in recipe.programs.items():
            script = f"#!/bin/sh\nexec java -cp '{next(iter(recipe.jars))}/*' {arguments} \"$@\"\n"
            _write(root / "usr/local/bin" / name, script, 0o755)
        if recipe.exact:
            _add_programs(built(ETCDS[recipe.version]), root / "usr/local/bin")
        layers = debian.layers(recipe, work) if recipe.suite else []
        if any(root.iterdir()) or recipe.owned:
            layer_of(root, layer, owned=recipe.owned, owner=OWNER)
            layers.append(layer)
        environment = [*recipe.environment, *(wheel.ENVIRONMENT if project else ())]
        write_archive(image, recipe.reference, layers, recipe.command, user=recipe.runs_as, environment=environment)
        image.replace(target)


def _add_programs(programs: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for program in programs.iterdir():
        if program.name != "sha256":
            shutil.copy(program, target / program.name, follow_symlinks=False)


def _write(file: Path, text: str, mode: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
