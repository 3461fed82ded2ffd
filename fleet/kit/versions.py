"""Versions of an engine: which patch a series stands for, which image a version is, which version follows which.

Which patch a series stands for changes with releases of fleet, and no member restarts for that: a member that has a
patch of the series that git names keeps it until git names another version or a restart is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleet.kit.driver import Hop, Path, Refusal, WayBack
from fleet.model.base import Rule
from fleet.model.types import Release, release

_CANDIDATES = {1: re.compile(r"\d+(?:\.\d+){0,2}"), 2: re.compile(r"\d+\.\d+(?:\.\d+)?")}  # by parts of a series
_TAGGED = re.compile(r"\d+\.\d+(\.\d+)?")
_RESTORE = "restore a backup into a new app"


@dataclass(frozen=True, slots=True)
class Versions:
    """What a release of fleet knows of an engine's versions."""

    patches: Mapping[str, str]  # the newest patch by series, oldest series first
    image: str  # the official one, with {version}, {series} or {tag}, which is the version as git says it
    parts: Literal[1, 2] = 2  # of a version that make a series: 1 where "17.2" and "17.4" are two patches of "17"
    step: Literal["next", "any"] = "next"  # whether an upgrade passes through every series on its way
    before: Mapping[str, str] = field(default_factory=dict)  # by series: the version to be on before it
    # By series, for those from which members that all run it can go back to the series before: by a procedure of the
    # engine's, or as if it were another patch. Elsewhere only a backup leads back.
    back: Mapping[str, Literal["downgrade", "roll"]] = field(default_factory=dict)

    @property
    def series(self) -> tuple[str, ...]:
        return tuple(self.patches)

    def series_of(self, version: str) -> str:
        """Return the series of a version: "3.5" of "3.5.21"."""
        return self._text(release(version))

    def is_series(self, version: str) -> bool:
        """Tell whether any patch of a series will do: "3.5", and not "3.5.21"."""
        return sum(part is not None for part in release(version)) <= self.parts

    def has_series(self, version: str) -> bool:
        """Tell whether a version says at least its series: "3" is none of etcd's."""
        return sum(part is not None for part in release(version)) >= self.parts

    def newest(self, version: str) -> str | None:
        """Return the newest patch that is known of the version's series; None of an unknown series."""
        return self.patches.get(self.series_of(version))

    def exact(self, version: str) -> str:
        """Return the release that a version stands for: "3.5" is the newest patch that is known."""
        return self.patches.get(version, version)

    def is_newer(self, version: str) -> bool:
        """Tell whether an exact version is newer than every patch of its series that is known. It may exist all the
        same."""
        newest = self.newest(version)
        return newest is not None and not self.is_series(version) and _key(release(version)) > _key(release(newest))

    # Images

    def image_of(self, version: str, template: str) -> str:
        """Return the image of a version by a template with {version}, {series} or {tag}."""
        return self._fill(template, self.exact(version), version)

    def kept_image(self, version: str, template: str, present: str) -> str:
        """Return the image of members that have `present`: that one, if it is a patch of the series that git names."""
        running = self.version_in(present, template)
        if running is not None and self.is_series(version) and self.series_of(running) == self.series_of(version):
            return present
        return self.image_of(version, template)

    def version_in(self, image: str, template: str) -> str | None:
        """Return the version, or series, that an image was made for by the same template; None if it was not."""
        for version in _CANDIDATES[self.parts].findall(image):
            try:
                if self._fill(template, version, version) == image:
                    return str(version)
            except ValueError:  # a number such as "2024.01", which is no version
                continue
        return None

    def named_in(self, image: str) -> str | None:
        """Return the release that the tag of an image names, by whatever template; None if it names none."""
        found = _CANDIDATES[self.parts].search(image.rpartition(":")[2])
        return self.exact(found[0]) if found is not None else None

    def _fill(self, template: str, version: str, tag: str) -> str:
        return template.format(version=version, series=self.series_of(version), tag=tag)

    # Upgrades

    def path(self, engine: str, current: str, target: str) -> Path:
        """Return the hops from one version to another, or why there is no way."""
        start, end = release(current), release(target)
        if self._series(start) == self._series(end):
            is_there = self.is_series(target) or start == end
            return () if is_there else (Hop(current, target, "patch", "roll"),)
        if self._series(start) < self._series(end):
            return tuple(self._up(start, end))
        if not self._goes_back(start, end):
            return Refusal(f"{engine} cannot go back from {start} to {end}", _RESTORE)
        return tuple(self._down(start, end))

    def _up(self, here: Release, end: Release) -> Iterator[Hop]:
        while self._series(here) != self._series(end):
            following = self._following(here, end)
            needed = self._needed(following)
            note = f"{self._text(following)} needs at least {needed}"
            if needed is not None and self._series(here) < self._series(needed):
                following, needed = needed, None
            if needed is not None and not self._is_open(here) and _key(here) < _key(needed):
                yield Hop(str(here), str(needed), "patch", "roll", note)
                here = needed
            after = following
            coming = self._needed(self._following(following, end)) if following is not end else None
            if coming is not None and self._series(coming) == self._series(following):
                after = coming  # the patch that the hop after this one needs
            yield Hop(str(here), str(after), "upgrade", self._way_back(after))
            here = after

    def _down(self, here: Release, end: Release) -> Iterator[Hop]:
        while self._series(here) != self._series(end):
            before = self._preceding(here)
            after = end if before is None or before == self._series(end) else _release(before)
            yield Hop(str(here), str(after), "downgrade", "roll")
            here = after

    def _goes_back(self, here: Release, end: Release) -> bool:
        """Tell whether every series on the way down has a way back to the one before it."""
        series = self._series(here)
        while series > self._series(end):
            before = self._preceding(_release(series))
            if before is None or ".".join(map(str, series)) not in self.back:
                return False
            series = before
        return series == self._series(end)

    def _following(self, here: Release, end: Release) -> Release:
        """Return the version to go to next: a series, or the end itself."""
        if self.step == "any":
            return end
        known = (_release(series) for series in self._known() if self._series(here) < series < self._series(end))
        return next(known, end)

    def _preceding(self, here: Release) -> tuple[int, ...] | None:
        return max((series for series in self._known() if series < self._series(here)), default=None)

    def _known(self) -> list[tuple[int, ...]]:
        return [self._series(release(series)) for series in self.patches]

    def _needed(self, version: Release) -> Release | None:
        needed = self.before.get(self._text(version))
        return release(needed) if needed else None

    def _way_back(self, version: Release) -> WayBack:
        return self.back.get(self._text(version), "restore")

    def _is_open(self, version: Release) -> bool:
        """Tell whether it is a series, of which the patch is not known."""
        return self.is_series(str(version))

    def _series(self, version: Release) -> tuple[int, ...]:
        return tuple(part or 0 for part in version[: self.parts])

    def _text(self, version: Release) -> str:
        return ".".join(map(str, self._series(version)))


def _key(version: Release) -> tuple[int, ...]:
    return tuple(part or 0 for part in version)


def _release(series: tuple[int, ...]) -> Release:
    return release(".".join(map(str, series)))


def series_between(before: str, after: str) -> int | None:
    """Return by how many minor series one image is newer than another, by their tags; None where a tag says none.

    Of another major version it is -1: no engine reads that data.
    """
    tags = [_TAGGED.search(image.rpartition(":")[2]) for image in (before, after)]
    if tags[0] is None or tags[1] is None:
        return None
    old, new = (release(tag[0]).series for tag in tags if tag)
    return new[1] - old[1] if old[0] == new[0] else -1


def known_version(engine: str, versions: Versions) -> Rule:
    """Return the rule that a version is of a series that is known, in Python and in CEL."""
    series = versions.series
    names = f"{', '.join(series[:-1])} or {series[-1]}" if len(series) > 1 else series[0]
    pattern = "|".join(name.replace(".", "[.]") for name in series)
    rest = {1: "([.][0-9]+){0,2}", 2: "([.][0-9]+)?"}[versions.parts]
    return Rule(
        cel=f"self.matches('^({pattern}){rest}$')",
        message=f"must be a release of {engine} {names}",
        holds=lambda version: versions.has_series(version) and versions.series_of(version) in series,
        hint=f"'{series[-1]}' is the newest series, and stands for its newest patch",
    )
