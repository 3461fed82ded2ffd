"""What a driver cannot do for a spec, by what it says of itself. Refused with a reason, never faked. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.kit.driver import Driver
    from fleet.model.app import App

LACKS = "this release of fleet has no way to do that"


def beyond(driver: Driver[Any], spec: App, previous: App | None) -> Iterator[tuple[str, str, str]]:
    """Field, what is wrong, what would be right."""
    caps, meta = driver.caps, driver.meta
    members = driver.members(spec)
    if not meta.fewest <= members <= meta.most:
        yield "members", f"{meta.name} cannot have {count_noun(members, 'member')}", f"{meta.fewest} to {meta.most}"
    if not caps.backup and getattr(spec, "backup", None):
        yield "backup", f"{meta.name} cannot be backed up: {LACKS}", "leave it out"
    if not caps.restore and getattr(spec, "restore_from", None):
        yield "restore_from", f"{meta.name} cannot start from a backup: {LACKS}", "leave it out, and load the data"
    if not caps.adopt and spec.adoption:
        yield "opts.adopt", f"{meta.name} that others set up cannot be taken over: {LACKS}", "make a new app"
    if previous is None:
        return
    before = driver.members(previous)
    if not caps.scale and members != before:
        yield "members", f"{meta.name} cannot be scaled: {LACKS}", f"leave it at {before}"
    current, target = driver.version(previous), driver.version(spec)
    if not caps.upgrade and target != current:
        yield "version", f"{meta.name} cannot be upgraded: {LACKS}", f"leave it at {current}"
    elif not caps.downgrade and _series(meta.versions, target) < _series(meta.versions, current):
        yield "version", f"{meta.name} cannot go back from {current} to {target}", "restore a backup into a new app"


def _series(known: tuple[str, ...], version: str) -> int:
    """Which of the series that the driver knows a version is of; -1 for one that it does not know."""
    found = (number for number, series in enumerate(known) if f"{version}.".startswith(f"{series}."))
    return next(found, -1)
