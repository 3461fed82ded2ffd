"""Directories where fleet keeps what it can make again; they are this user's alone.

What lies there is trusted later, so no other user may have written it. Safe to delete at any time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory(name: str) -> Path:
    """Return the cache directory of this name, made if it is missing; raise OSError where it cannot be ours alone."""
    home = os.environ.get("FLEET_CACHE_DIR")
    if home:
        top = Path(home)
    elif sys.platform == "darwin":
        top = Path.home() / "Library" / "Caches" / "fleet"
    else:
        top = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleet"
    path = top / name
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = path.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"{path} is not ours alone")
    return path
