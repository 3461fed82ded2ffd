"""This project as part of an image: built as a wheel and installed with the dependencies that are installed here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab import toolchain
from fleet.lab.files import sha256
from fleet.lab.images import store

SOURCE = Path(__file__).parents[3]
PLACE = "opt/fleet"
ENVIRONMENT = (f"PYTHONPATH=/{PLACE}", "PYTHONDONTWRITEBYTECODE=1")


def build() -> Path:
    """This project as a wheel, built from its source tree."""
    if not (SOURCE / "pyproject.toml").is_file():
        raise ResourceError(
            "the images of fleet itself are made from the project's source tree, and this is an installed package",
            hint="clone the repository and run `fleet lab image build` there",
        )
    target = store.wheels()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "hatchling", "build", "--target", "wheel", "--directory", work],
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
        # Below its content: the cache is shared, and another checkout has a wheel of the same name.
        kept = target / sha256(wheels[0]) / wheels[0].name
        kept.parent.mkdir(exist_ok=True)
        wheels[0].replace(kept)
        return kept


def install(wheel: Path, python: str, target: Path) -> None:
    """Install the wheel with the versions of its dependencies that this environment has."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write(
            "\n".join(
                f"{dist.metadata['Name']}=={dist.version}"
                for dist in importlib.metadata.distributions()
                if dist.metadata["Name"] != "fleet-gitops"
            )
        )
        constraints.flush()
        command = [*toolchain.installer(), "--target", str(target), "--only-binary", ":all:"]
        command += ["--python-version", python, *_platform(command[0])]
        command += ["--constraint", constraints.name, str(wheel)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ResourceError(f"the project's dependencies could not be installed:\n{done.stderr.strip()[-800:]}")


def _platform(installer: str) -> list[str]:
    machine = platform.machine()
    if Path(installer).name == "uv":
        return ["--python-platform", f"{machine}-manylinux_2_28"]
    tags = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    return ["--implementation", "cp", *(word for tag in tags for word in ("--platform", f"{tag}_{machine}"))]
