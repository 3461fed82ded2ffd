"""Image archives from recipes, in the cache: one per recipe and content, so a second time costs nothing.

An image of this project contains its wheel, built from the source tree, and the versions of its dependencies that are
installed here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab.files import explain_disk_errors, hash_file, link_file, remove_path
from fleet.lab.images import debian, store
from fleet.lab.images.archive import is_whole, write_archive, write_layer
from fleet.lab.images.jars import fetch_jars, read_lock
from fleet.lab.images.recipes import OWNER, Recipe
from fleet.lab.programs.build import ETCDS, MODULES, build_key, build_module, python_installer
from fleet.lab.progress import BuildProgress

SOURCE = Path(__file__).parents[3]
INSTALL_DIRECTORY = "opt/fleet"
ENVIRONMENT = (f"PYTHONPATH=/{INSTALL_DIRECTORY}", "PYTHONDONTWRITEBYTECODE=1")


def build_wheel() -> Path:
    """Build this project's wheel from its source tree, and return the file."""
    if not (SOURCE / "pyproject.toml").is_file():
        raise ResourceError(
            "the images of fleet itself are made from the project's source tree, and this is an installed package",
            hint="clone the repository and run `fleet lab image build` there",
        )
    target = store.wheels_directory()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        process = subprocess.run(
            [sys.executable, "-P", "-m", "hatchling", "build", "--target", "wheel", "--directory", work],
            cwd=SOURCE,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"},  # equal source gives an equal wheel
        )
        wheels = list(Path(work).glob("*.whl"))
        if process.returncode or not wheels:
            raise ResourceError(
                f"the project's wheel did not build:\n{process.stderr.strip()[-800:]}",
                hint="`make setup` installs what the build needs",
            )
        # Below its content: the cache is shared, and another checkout has a wheel of the same name.
        wheel = target / hash_file(wheels[0]) / wheels[0].name
        wheel.parent.mkdir(exist_ok=True)
        wheels[0].replace(wheel)
        return wheel


def install_wheel(wheel: Path, python: str, target: Path) -> None:
    """Install a wheel into a directory, with the versions of its dependencies that this environment has."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write(
            "\n".join(
                f"{distribution.metadata['Name']}=={distribution.version}"
                for distribution in importlib.metadata.distributions()
                if distribution.metadata["Name"] != "fleet-gitops"
            )
        )
        constraints.flush()
        command = [*python_installer(), "--target", str(target), "--only-binary", ":all:"]
        command += ["--python-version", python, *_platform(command[0])]
        command += ["--constraint", constraints.name, str(wheel)]
        process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode:
        raise ResourceError(f"the project's dependencies could not be installed:\n{process.stderr.strip()[-800:]}")


def _platform(installer: str) -> list[str]:
    machine = platform.machine()
    if Path(installer).name == "uv":
        return ["--python-platform", f"{machine}-manylinux_2_28"]
    tags = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    return ["--implementation", "cp", *(option for tag in tags for option in ("--platform", f"{tag}_{machine}"))]


def bake_pause(reference: str) -> Path:
    """Return the archive of the image that holds a pod's namespaces, one static binary; make it if it is not there."""
    programs = build_module(MODULES["pause"])
    target = store.images_directory() / f"{programs.name}.tar"
    if not is_whole(target, reference):
        with explain_disk_errors("making the pause image"), store.work_directory() as work:
            remove_path(target)
            root, layer, image = work / "root", work / "layer.tar", work / "image.tar"
            root.mkdir()
            shutil.copy(programs / "pause", root / "pause")
            write_layer(root, layer)
            write_archive(image, reference, [layer], ["/pause"], user="65535:65535")
            image.replace(target)
    return target


def bake(recipe: Recipe) -> Path:
    """Return the archive of a recipe's image; make it if the cache does not have it."""
    with explain_disk_errors(f"making the image {recipe.reference}"):
        wheel = build_wheel() if recipe.wheel else None
        target = _archive_path(recipe, wheel)
        with store.lock_archive(target):
            if not is_whole(target, recipe.reference):
                remove_path(target)
                with BuildProgress(f"making the image {recipe.reference}"):
                    _bake_image(recipe, wheel, target)
                store.remove_unused(f"{recipe.name}-{recipe.version}")
    return target


def find_archive(recipe: Recipe) -> Path | None:
    """Return the archive of a recipe if the cache has one, else None.

    The image of this project may be of other code than today's.
    """
    if recipe.wheel:
        return store.newest_archive(f"{recipe.name}-{recipe.version}")
    target = _archive_path(recipe, None)
    return target if target.exists() else None


def _archive_path(recipe: Recipe, wheel: Path | None) -> Path:
    """Return the path of a recipe's archive; its name depends on everything that the image is made from."""
    content = f"{recipe} {read_lock(recipe)} {debian.LEAN} {debian.LITTER} {platform.machine()} "
    content += build_key(ETCDS[recipe.version]) if recipe.exact else ""
    content += wheel.name + hash_file(wheel) if wheel else ""
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    return store.images_directory() / f"{recipe.name}-{recipe.version}-{key}.tar"


def _bake_image(recipe: Recipe, wheel: Path | None, target: Path) -> None:
    """Make the image of a recipe in a work directory, and move its archive to `target`."""
    with store.work_directory() as work:
        root, layer, image = work / "root", work / "layer.tar", work / "image.tar"
        root.mkdir()
        if wheel:
            install_wheel(wheel, recipe.python, root / INSTALL_DIRECTORY)
        jars = read_lock(recipe)
        for jar, file in zip(jars, fetch_jars(jars), strict=True):
            link_file(file, root / jar.directory.strip("/") / jar.name)
        for path, text in recipe.files.items():
            _write(root / path.strip("/"), text.lstrip("\n"), 0o644)
        for name, arguments in recipe.programs.items():
            script = f"#!/bin/sh\nexec java -cp '{next(iter(recipe.jars))}/*' {arguments} \"$@\"\n"
            _write(root / "usr/local/bin" / name, script, 0o755)
        if recipe.exact:
            _add_programs(build_module(ETCDS[recipe.version]), root / "usr/local/bin")
        layers = debian.build_layers(recipe, work) if recipe.suite else []
        if any(root.iterdir()) or recipe.owned:
            write_layer(root, layer, owned=recipe.owned, owner=OWNER)
            layers.append(layer)
        environment = [*recipe.environment, *(ENVIRONMENT if wheel else ())]
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
