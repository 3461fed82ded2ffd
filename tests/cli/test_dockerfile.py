"""Whoever has only the package gets the images that a clone makes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from fleet.cli import run
from fleet.install.manifests import LOCK, STAGES
from fleet.version import __version__

CLONE = Path(__file__).parents[2] / "operator" / "deploy" / "Dockerfile"
_INSTRUCTION = re.compile(r"FROM python:[\w.-]+ AS \w+|FROM base( AS \w+)?|(RUN|COPY|ENV|USER|ENTRYPOINT|CMD) .+|#.*|")


def test_the_printed_dockerfile_has_the_stages_of_the_one_in_the_clone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["operator", "dockerfile"]) == 0
    text = capsys.readouterr().out

    assert f"fleet-gitops=={__version__}\n" in text
    assert LOCK in text
    assert text.endswith(STAGES)
    assert CLONE.read_text().endswith(STAGES)
    assert all(_INSTRUCTION.fullmatch(line) for line in text.splitlines())
    assert "COPY . ." not in text, "it is given to docker alone, without files"


def test_images_are_made_from_files_whose_hashes_are_locked(capsys: pytest.CaptureFixture[str]) -> None:
    """What is installed comes from a directory that was filled by hash, and from no index."""
    assert run(["operator", "dockerfile"]) == 0
    for text in (capsys.readouterr().out, CLONE.read_text()):
        commands = [
            part for part in re.split(r"\n|&&", text.replace("\\\n", " ")) if "pip " in part and "#" not in part
        ]
        (locked,) = (one for one in commands if "--requirement" in one)
        assert "pip download" in locked and "--require-hashes" in locked
        installs = [one for one in commands if "pip install" in one]
        assert installs and all("--no-index --find-links /tmp/locked" in one for one in installs)
    project = tomllib.loads((CLONE.parents[2] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]["requirements.lock"] == LOCK


def test_packages_with_app_types_are_installed_beside_what_is_locked(capsys: pytest.CaptureFixture[str]) -> None:
    wheel = "dist/fleet_queue-1.2.0-py3-none-any.whl"
    assert run(["operator", "dockerfile", "--with", "fleet-nats==1.2", "--with", wheel]) == 0
    text = capsys.readouterr().out
    assert all(_INSTRUCTION.fullmatch(line) for line in text.splitlines())
    assert text.endswith(STAGES)
    lines = text.splitlines()
    assert f"COPY {wheel} /tmp/types/fleet_queue-1.2.0-py3-none-any.whl" in lines
    (install,) = (line for line in lines if "--no-deps" in line and line.startswith("RUN pip install"))
    assert install.endswith("--target /opt/fleet fleet-nats==1.2 /tmp/types/fleet_queue-1.2.0-py3-none-any.whl")
    assert lines[lines.index(install) + 1].startswith("RUN PYTHONPATH=/opt/fleet python -P -m fleet crds")


@pytest.mark.parametrize(
    "package", ["fleet-nats", "fleet-nats>=1", "fleet-nats==1; rm -rf /", "/tmp/x.whl", "../x.whl", "-r x", "a b.whl"]
)
def test_what_is_no_single_release_is_refused(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["operator", "dockerfile", f"--with={package}"]) != 0
    assert "is neither one release of a package nor the file of a wheel" in capsys.readouterr().err
