"""Where fleet keeps what it can make again: directories that are this user's alone.

What lies there is believed later, so nobody else may have written it. Safe to delete at any time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory(name: str) -> Path:
    """The cache of this name, made if it is missing; an OSError where it cannot be ours alone."""
    home = os.environ.get("FLEET_CACHE_DIR")
    if home:
        top = Path(home)
    elif sys.platform == "darwin":
        top = Path.home() / "Library" / "Caches" / "fleet"
    else:
        top = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleet"
    found = top / name
    found.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = found.lstat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise PermissionError(f"{found} is not ours alone")
    return found
