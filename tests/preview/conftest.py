"""A repository on two real clusters, as the tests of sync have it, and one on none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.preview.plain import PlainRepository
from tests.sync.conftest import repository

__all__ = ["plain", "repository"]


@pytest.fixture
def plain(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> PlainRepository:
    return PlainRepository(tmp_path / "repository", capsys, monkeypatch)
