"""Repositories as the tests of sync and preview have them, with pull requests as git alone has them."""

from __future__ import annotations

from tests.preview.conftest import plain
from tests.sync.conftest import repository

__all__ = ["plain", "repository"]
