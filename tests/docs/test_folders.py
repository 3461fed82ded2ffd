"""Whoever reads where things are finds every package there."""

from __future__ import annotations

import re

import pytest

from tests.docs.document import ROOT

PACKAGES = {path.parent.name for path in (ROOT / "fleet").glob("*/__init__.py")}


@pytest.mark.parametrize(
    ("page", "form"), [("CONTRIBUTING.md", r"`fleet/(\w+)`"), ("docs/design.md", r"`fleet\.(\w+)`")]
)
def test_the_table_of_folders_has_every_package(page: str, form: str) -> None:
    rows = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.startswith("| `fleet")]
    assert {name for row in rows for name in re.findall(form, row)} >= PACKAGES
