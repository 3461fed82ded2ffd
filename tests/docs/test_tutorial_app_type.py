"""The tutorial of an app type, followed to its end in a Python of its own: it installs a package there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.docs.document import ROOT
from tests.docs.terminal import Terminal
from tests.docs.test_examples import IN_ITS_OWN_PYTHON, follow


def make_python(directory: Path) -> dict[str, str]:
    """Make a Python that has what this one has, and return the environment in which programs find it first."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    library = Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))
    (library / "shared.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for program in ("fleet", "pip", "pytest"):
        script = directory / "bin" / program
        script.write_text(f'#!/bin/sh\nexec "{directory}/bin/python" -m {program} "$@"\n')
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_", "PYTHON"))}
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**kept, **offline, "PATH": f"{directory}/bin:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "160"}


@pytest.mark.timeout(900)
def test_the_tutorial_of_an_app_type_comes_to_its_end(tmp_path: Path) -> None:
    environment = make_python(tmp_path / "python")
    (tmp_path / "work").mkdir()
    with Terminal(tmp_path / "work", environment, tmp_path) as terminal:
        follow(ROOT / IN_ITS_OWN_PYTHON, terminal)
