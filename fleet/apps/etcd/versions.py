"""The versions of etcd: one minor release at a time, and back only where etcd itself can go back.

From etcd's own guides: members on 3.5 must be at patch 26 or later before 3.6. Since 3.6 etcd can be told to go back
one minor release, with the data rewritten before the first member restarts; 3.5 cannot, and 3.4 ends when it finds
itself in a cluster of 3.5. What etcd goes back to does not go back any further.
"""

from __future__ import annotations

from fleet.kit.driver import Path, Refusal
from fleet.kit.versions import Versions
from fleet.model.types import release

NEWEST = {"3.4": "3.4.37", "3.5": "3.5.35", "3.6": "3.6.16"}  # what a series stands for in this release of fleet
VERSIONS = Versions(
    NEWEST,
    image="quay.io/coreos/etcd:v{version}",
    before={"3.6": "3.5.26"},
    back={"3.6": "downgrade"},
)


def find_path(current: str, target: str) -> Path:
    """Return the hops from one version to another, or why there is no way."""
    start, end = release(current).major, release(target).major
    if start != end:
        return Refusal(f"etcd {start} and {end} share no data format", "restore a backup into a new app")
    return VERSIONS.path("etcd", current, target)
