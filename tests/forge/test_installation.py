"""The installation of fleet in CI jobs and images, as it is written, from a directory of wheels instead of an index."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from fleet.install.manifests import dockerfile
from fleet.lab import files
from fleet.lab.images import bake
from fleet.repository.scaffold import write_repository
from fleet.version import __version__

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
CLONE = ROOT / "operator" / "deploy" / "Dockerfile"
WORKFLOWS = [f".{forge}/workflows/{name}.yml" for forge in ("github", "gitea") for name in ("fleet", "fleet-preview")]
SHADOWED = ("argparse", "json", "os", "pip", "shutil", "zipfile")  # modules that Python and pip import

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python as a runner has it: with pip, without fleet."""
    if not importlib.util.find_spec("ensurepip"):
        pytest.skip("this Python cannot make an environment with pip")
    place = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-P", "-m", "venv", place], check=True)
    return place / "bin" / "python"


@pytest.fixture(scope="module")
def wheels(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with this project's wheel and what is locked, which is fetched once from this machine's index."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    locked = files.cache_directory() / "locked" / f"{version}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    if not locked.exists():
        locked.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=locked.parent) as draft:
            download = ["download", "--quiet", "--require-hashes", "--only-binary", ":all:"]
            subprocess.run(
                [python, "-P", "-m", "pip", *download, "--requirement", LOCK, "--dest", f"{draft}/wheels"], check=True
            )
            Path(draft, "wheels").replace(locked)
    place = tmp_path_factory.mktemp("wheels")
    for wheel in (bake.build_wheel(), *locked.iterdir()):
        (place / wheel.name).symlink_to(wheel)
    return place


def run_script(script: str, python: Path, wheels: Path, directory: Path) -> None:
    """Run commands of a shell in a directory, with a pip that knows no index."""
    environment = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HOME": str(directory),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def shadow_modules(directory: Path) -> Path:
    """Put modules into a directory that shadow those of Python; return the file that they write when they are run."""
    mark = directory.parent / "shadowed"
    for name in SHADOWED:
        (directory / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    return mark


def actions_scripts(root: Path) -> list[str]:
    """The scripts that install fleet in the jobs of all workflows of Actions."""
    jobs = [job for name in WORKFLOWS for job in yaml.safe_load((root / name).read_text())["jobs"].values()]
    scripts = [step["run"] for job in jobs for step in job["steps"] if "pip" in step.get("run", "")]
    assert len(scripts) == len(jobs)
    return scripts


def gitlab_script(root: Path) -> list[str]:
    """The commands that GitLab runs before every job."""
    jobs = yaml.safe_load((root / ".gitlab/fleet.yml").read_text())
    assert [jobs[name]["extends"] for name in ("fleet-check", "fleet-preview", "fleet-comment")] == [".fleet"] * 3
    commands: list[str] = jobs[".fleet"]["before_script"]
    return commands


def test_all_jobs_install_fleet_by_the_same_commands(tmp_path: Path) -> None:
    write_repository(tmp_path)
    expected = [shlex.split(command) for command in gitlab_script(tmp_path)]
    for script in actions_scripts(tmp_path):
        assert [shlex.split(line.replace("$RUNNER_TEMP", "/tmp")) for line in script.splitlines()] == expected


@pytest.mark.full
def test_jobs_install_the_release_and_what_it_locked_and_run_nothing_of_the_tree(
    python: Path, wheels: Path, tmp_path: Path
) -> None:
    write_repository(tmp_path / "shop")
    root = tmp_path / "shop"
    mark = shadow_modules(root)  # GitLab has checked out the head when this runs
    run_script("\n".join(gitlab_script(root)).replace("/tmp/", f"{tmp_path}/"), python, wheels, root)
    assert not mark.exists(), mark.read_text()
    fleet = python.parent / "fleet"
    version = subprocess.run([fleet, "--version"], cwd=root, capture_output=True, text=True, check=True)
    assert __version__ in version.stdout
    subprocess.run([fleet, "check"], cwd=root, check=True)
    assert not mark.exists(), mark.read_text()


def build_commands(text: str) -> list[str]:
    """The commands of the stage `build` of a Dockerfile."""
    stage = text.replace("\\\n", " ").partition("AS build\n")[2].partition("\nFROM ")[0]
    return re.findall(r"(?m)^RUN (.+)", stage)


@pytest.mark.full
@pytest.mark.parametrize("image", ["printed", "clone"])
def test_images_are_made_from_the_release_and_what_it_locked(
    image: str, python: Path, wheels: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    if image == "clone":
        left_out = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "tests", "docs")
        shutil.copytree(ROOT, source, ignore=left_out)
        text = CLONE.read_text()
    else:
        source.mkdir()
        text = dockerfile()
    mark = shadow_modules(source) if image == "printed" else tmp_path / "none"
    script = "\n".join(build_commands(text)).replace("/tmp/", f"{tmp_path}/").replace("/opt/fleet", f"{tmp_path}/made")
    run_script(script, python, wheels, source)
    assert not mark.exists(), mark.read_text()
    for module in ("fleet", "fleet_operator"):
        subprocess.run(
            [python, "-P", "-m", module, "--help"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path / "made"), "HOME": str(tmp_path)},
            capture_output=True,
            check=True,
        )
