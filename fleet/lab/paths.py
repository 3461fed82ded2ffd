"""Where the lab keeps things: caches that any lab may use, and one state directory per lab.

Paths are absolute: programs of a lab are told them, and run elsewhere than whoever started them.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache() -> Path:
    """Built binaries and images. Safe to delete at any time; what is missing is built again."""
    return Path(os.environ.get("FLEET_CACHE_DIR") or platformdirs.user_cache_path("fleet")).absolute()


def labs() -> Path:
    """The state of labs, one directory each."""
    return Path(os.environ.get("FLEET_STATE_DIR") or platformdirs.user_state_path("fleet")).absolute() / "labs"


def modules() -> Path:
    """The Go modules that ship inside this package."""
    return Path(__file__).parent / "go"
