"""Repositories on real clusters, as the tests of sync have them."""

from __future__ import annotations

from tests.sync.conftest import repository

__all__ = ["repository"]
