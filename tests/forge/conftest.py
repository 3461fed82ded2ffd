"""A fleet's repository on no cluster, as the tests of previews have it."""

from __future__ import annotations

from tests.preview.conftest import plain

__all__ = ["plain"]
