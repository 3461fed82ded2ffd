"""Whoever has only the package gets the images that a clone makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet.cli import run
from fleet.install.dockerfile import STAGES
from fleet.version import __version__

CLONE = Path(__file__).parents[2] / "operator" / "deploy" / "Dockerfile"
_INSTRUCTION = re.compile(r"FROM python:[\w.-]+ AS \w+|FROM base( AS \w+)?|(RUN|COPY|ENV|USER|ENTRYPOINT|CMD) .+|#.*|")


def test_the_printed_dockerfile_has_the_stages_of_the_one_in_the_clone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["operator", "dockerfile"]) == 0
    text = capsys.readouterr().out

    assert f"fleet-gitops=={__version__}\n" in text
    assert text.endswith(STAGES)
    assert CLONE.read_text().endswith(STAGES)
    assert all(_INSTRUCTION.fullmatch(line) for line in text.splitlines())
    assert "COPY . ." not in text, "it is given to docker alone, without files"
