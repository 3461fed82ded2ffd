"""Bake recipes into archives in the cache, one per recipe and content; a second time costs nothing."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab import packages, paths, toolchain
from fleet.lab.build import MODULES, built
from fleet.lab.files import explained, sha256
from fleet.lab.images.archive import contents, layer_of, write_archive
from fleet.lab.images.recipes import Recipe
from fleet.lab.progress import Progress

SOURCE = Path(__file__).parents[3]
LEAN = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")


def pause(reference: str) -> Path:
    """The image of the process that holds a pod's namespaces: one static binary."""
    programs = built(MODULES["pause"])
    target = paths.cache() / "images" / f"{programs.name}.tar"
    if not contents(target):
        with explained("making the pause image"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".bake-") as work:
                root, layer = Path(work) / "root", Path(work) / "layer.tar"
                root.mkdir()
                shutil.copy(programs / "pause", root / "pause")
                layer_of(root, layer)
                write_archive(Path(work) / "image.tar", reference, [layer], ["/pause"], user="65535:65535")
                (Path(work) / "image.tar").replace(target)
    return target


def bake(recipe: Recipe) -> Path:
    """The archive of a recipe's image, made if the cache does not have it."""
    wheel = _wheel() if recipe.wheel else None
    content = f"{recipe} {platform.machine()} {wheel.name + sha256(wheel) if wheel else ''}"
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    target = paths.cache() / "images" / f"{recipe.name}-{recipe.version}-{key}.tar"
    with explained(f"making the image {recipe.reference}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not contents(target):
                with Progress(f"making the image {recipe.reference}"):
                    _bake(recipe, wheel, target)
    return target


def _bake(recipe: Recipe, wheel: Path | None, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".bake-") as work:
        layers = [_base(recipe)]
        environment = []
        if wheel:
            root, layer = Path(work) / "root", Path(work) / "layer.tar"
            _install(wheel, recipe.python, root)
            layer_of(root, layer, below="opt/fleet")
            layers.append(layer)
            environment = ["PYTHONPATH=/opt/fleet", "PYTHONDONTWRITEBYTECODE=1"]
        image = Path(work) / "image.tar"
        write_archive(image, recipe.reference, layers, recipe.command, user=recipe.user, environment=environment)
        image.replace(target)


def _base(recipe: Recipe) -> Path:
    """The root file system of a recipe's packages, kept by content: a new wheel needs no new one."""
    key = hashlib.sha256(f"{recipe.suite} {recipe.packages} {LEAN}".encode()).hexdigest()[:12]
    target = paths.cache() / "images" / f".base-{recipe.suite}-{key}.tar"
    if target.exists():
        return target
    packages.require(packages.IMAGES, "images")
    partial = target.with_suffix(f".{os.getpid()}.tar")
    command = ["mmdebstrap", "--variant=essential", f"--include={','.join(recipe.packages)}", "--skip=output/dev"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEAN]
    command += [recipe.suite, str(partial), *_mirror(recipe.suite)]
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if re.match(r"[EW]:", line)] or done.stderr.splitlines()
            raise ResourceError(
                f"Debian {recipe.suite} with {', '.join(recipe.packages)} could not be installed:\n    "
                + "\n    ".join(lines[-10:]),
                hint="Debian's package archive must be reachable with the machine's apt settings",
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _mirror(suite: str) -> list[str]:
    """The archive that the machine's own apt uses; none on another system: then mmdebstrap knows a default."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        uri, _, label = line.partition(" ")
        if label == "Debian":
            return [f"deb {uri} {suite} main"]
    return []


def _wheel() -> Path:
    """This project as a wheel: built from its source tree, or taken from where it was installed from."""
    if not (SOURCE / "pyproject.toml").is_file():
        raise ResourceError(
            "the image of fleet-operator is made from the project's source tree, and this is an installed package",
            hint="clone the repository and run `fleet lab image build fleet-operator` there",
        )
    target = paths.cache() / "wheels"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", work],
            cwd=SOURCE,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"},  # equal source gives an equal wheel
        )
        wheels = list(Path(work).glob("*.whl"))
        if done.returncode or not wheels:
            raise ResourceError(
                f"the project's wheel did not build:\n{done.stderr.strip()[-800:]}",
                hint="`make setup` installs what the build needs",
            )
        wheels[0].replace(target / wheels[0].name)
        return target / wheels[0].name


def _install(wheel: Path, python: str, target: Path) -> None:
    """Install the wheel with the versions of its dependencies that this environment has."""
    constraints = target.with_name("constraints.txt")
    constraints.write_text(
        "\n".join(
            f"{dist.metadata['Name']}=={dist.version}"
            for dist in importlib.metadata.distributions()
            if dist.metadata["Name"] != "fleet-gitops"
        )
    )
    machine = platform.machine()
    command = [*toolchain.installer(), "--target", str(target), "--only-binary", ":all:", "--python-version", python]
    if Path(command[0]).name == "uv":
        command += ["--python-platform", f"{machine}-manylinux_2_28"]
    else:
        command += ["--implementation", "cp"]
        for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
            command += ["--platform", f"{tag}_{machine}"]
    done = subprocess.run(
        [*command, "--constraint", str(constraints), str(wheel)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ResourceError(f"the project's dependencies could not be installed:\n{done.stderr.strip()[-800:]}")
