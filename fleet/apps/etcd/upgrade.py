"""Which version of etcd follows which. One minor release at a time; back only where etcd itself can go back.

From etcd's own guides: members on 3.5 must be at patch 26 or later before 3.6. Since 3.6 etcd can be told to go back
one minor release, with the data rewritten before the first member restarts; 3.5 cannot, and 3.4 ends when it finds
itself in a cluster of 3.5.
"""

from __future__ import annotations

from fleet.kit.driver import Hop, Path, Refusal, WayBack
from fleet.model.types import Release, release

SERIES = ("3.4", "3.5", "3.6")  # oldest first
_NEEDED_BEFORE = {(3, 6): Release(3, 5, 26)}  # the patch to be on before a series
_GOES_BACK = {(3, 6)}  # series that keep a way back to the one before once all members run them


def path(current: str, target: str) -> Path:
    """The hops from one version to another, or why there is none."""
    start, end = release(current), release(target)
    if start.major != end.major:
        return Refusal(f"etcd {start.major} and {end.major} share no data format", "restore a backup into a new app")
    if start.series == end.series:  # of which any patch will do, unless one is said
        return () if end.patch is None or start == end else (Hop(current, target, "patch", "roll"),)
    return _up(start, end) if start.series < end.series else _down(start, end)


def _up(start: Release, end: Release) -> Path:
    hops: list[Hop] = []
    here = start
    while here.series != end.series:
        following = Release(here.major, (here.minor or 0) + 1)
        needed = _NEEDED_BEFORE.get(following.series)
        if needed is not None and here.patch is not None and here.patch < (needed.patch or 0):
            hops.append(Hop(str(here), str(needed), "patch", "roll", f"{following} needs at least {needed}"))
            here = needed
        after = following if following.series != end.series else end
        coming = _NEEDED_BEFORE.get((after.major, (after.minor or 0) + 1))
        if after is not end and coming is not None:
            after = coming  # stop on the patch that the hop after this one needs
        back: WayBack = "downgrade" if after.series in _GOES_BACK else "restore"
        hops.append(Hop(str(here), str(after), "upgrade", back))
        here = after
    return tuple(hops)


def _down(start: Release, end: Release) -> Path:
    """One minor release at most: what etcd goes back to does not go back any further."""
    before = Release(start.major, (start.minor or 0) - 1)
    if start.series not in _GOES_BACK or before.series != end.series:
        return Refusal(f"etcd cannot go back from {start} to {end}", "restore a backup into a new app")
    return (Hop(str(start), str(end), "downgrade", "roll"),)
