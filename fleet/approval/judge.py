"""Which records stand for which commit of a branch, and what they allow. Pure.

A record is good for one merge. Where that was is found by the tree: the first commit after the record's base that has
exactly the files that were previewed, however it came about (merge, squash, rebase). Where a neighbour was merged in
between, no commit has that tree; then the record counts if *everything* in it is part of what git wants now, and it is
not known to have been merged and left behind before.

For each object the commits are gone through in their order, so an older record does not approve a way back. Whoever
applies an older commit than a cluster has needs a record that begins with what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.approval.record import ABSENT, REPAIR, Edge, Record, owned, short
from fleet.git.history import Past
from fleet.objects.desired import Key, StackCluster
from fleet.plan.severity import Severity
from fleet.version import __version__

NEVER = -1  # before the first commit
Wanted = Callable[[StackCluster], Mapping[Key, str]]


@dataclass(frozen=True, slots=True)
class Place:
    """A record in a history. `at` is the commit that merged it, None where that is not known by its tree."""

    record: Record
    base: int
    at: int | None
    until: int | None = None  # by this commit it was merged, as a later preview shows; None: nothing is known of that


class Mention(NamedTuple):
    place: Place
    edge: Edge


class Having(NamedTuple):
    """What a cluster has of an object: its state, whether it was applied so, and since which commit."""

    state: str
    is_applied: bool = True
    since: int = NEVER


@dataclass(frozen=True, slots=True)
class Allowed:
    """The most that may be done, or why nothing may."""

    severity: Severity = Severity.NOTHING
    refusal: str = ""


class Book:
    """All records, as they count for the commit number `end` of a branch, of which `wanted` says what git wants."""

    def __init__(self, records: Iterable[Record], history: Sequence[Past], end: int, wanted: Wanted) -> None:
        self.history = history
        self.position = {one.commit: number for number, one in enumerate(history)}
        self._end, self._wanted = end, wanted
        places = list(self._placed(records))
        self._mentions = _by_object(places)
        places = [self._bounded(one) if one.at is None else one for one in places]
        self._mentions = _by_object(self._contained(places))

    def allowed(self, pair: StackCluster, key: Key, wanted: str, having: Having) -> Allowed:
        """What may be done to make an object what git wants, given what the cluster has."""
        known = self._mentions.get((*pair, key), [])
        merged = sorted((one for one in known if one.place.at is not None), key=_at)
        newest = _at(merged[-1]) if merged else NEVER
        last = [one for one in merged if _at(one) == newest]
        since = max(newest, having.since - 1)
        loose = [one for one in known if one.place.at is None and _is_open(one.place, since)]
        done = having.is_applied and short(having.state) == short(wanted)
        if done and not merged and not loose:
            return Allowed(REPAIR)
        found = [one for one in last if one.edge.after == wanted or (done and owned(one.edge.after) == owned(wanted))]
        if having.since > self._end:
            found = [one for one in found if short(one.edge.before) == short(having.state)]
            loose = []
        way = _behind(merged, short(having.state)) if found else self._way(last, loose, wanted, having)
        if not found and way is None:
            return Allowed(refusal=self._refusal(last, wanted))
        if done:
            again = [one.edge.severity for one in found if short(one.edge.before) == short(wanted)]
            return Allowed(max([REPAIR, *again]))
        other = [one for one in [*found, *(way or ())] if one.edge.after == wanted]
        if not any(one.place.record.version == __version__ for one in other):
            return Allowed(
                refusal=f"was approved with fleet {other[0].place.record.version}, and this is {__version__}"
            )
        return Allowed(max(one.edge.severity for one in (*found, *(way or ()))))

    def unrecorded(self, since: int) -> list[Past]:
        """Commits after a position that no record leads to, the newest first."""
        known = {one.place.record.tree for mentions in self._mentions.values() for one in mentions}
        return [one for one in reversed(self.history[since + 1 : self._end + 1]) if one.tree not in known]

    def _placed(self, records: Iterable[Record]) -> Iterator[Place]:
        trees: dict[str, list[int]] = {}
        for number, one in enumerate(self.history[: self._end + 1]):
            trees.setdefault(one.tree, []).append(number)
        for record in records:
            base = NEVER if not record.base else self.position.get(record.base)
            if base is None:
                continue  # of another branch, or of a history that is no more
            yield Place(record, base, next((at for at in trees.get(record.tree, ()) if at > base), None))

    def _bounded(self, place: Place) -> Place:
        """A later preview that begins where this one ends shows that it was merged by then."""
        later = [
            other.place.base
            for edge in place.record.edges
            if edge.before != edge.after
            for other in self._mentions.get((edge.stack, edge.cluster, edge.key), ())
            if other.place.base >= place.base and other.place.record is not place.record
            if short(other.edge.before) == short(edge.after) and other.edge.before != other.edge.after
        ]
        return Place(place.record, place.base, None, min(later)) if later else place

    def _contained(self, places: Sequence[Place]) -> list[Place]:
        """Without those not found by their tree of which something is not, and was not, part of what git wants."""
        counted = list(places)
        while True:
            begins = {
                (edge.stack, edge.cluster, edge.key, short(edge.before))
                for one in counted
                for edge in one.record.edges
                if edge.before != edge.after
            }
            left = [one for one in counted if one.at is not None or self._is_contained(one.record, begins)]
            if len(left) == len(counted):
                return left
            counted = left

    def _is_contained(self, record: Record, begins: set[tuple[str, str, Key, str]]) -> bool:
        return all(
            self._wanted((edge.stack, edge.cluster)).get(edge.key, ABSENT) == edge.after
            or (edge.stack, edge.cluster, edge.key, short(edge.after)) in begins
            for edge in record.edges
        )

    def _way(
        self, last: Sequence[Mention], loose: Sequence[Mention], wanted: str, having: Having
    ) -> list[Mention] | None:
        """A chain of records that leads to what is wanted, from the newest that has its place or from the cluster."""
        starts = {short(one.edge.after) for one in last} or {short(having.state)}
        ways: dict[str, list[Mention]] = {start: [] for start in starts}
        open_ends = list(ways)
        while open_ends:
            here = open_ends.pop()
            for one in loose:
                there = short(one.edge.after)
                if short(one.edge.before) == here and (there not in ways or one.edge.after == wanted):
                    way = [*ways[here], one]
                    if one.edge.after == wanted:
                        return [*_behind(last, short(having.state)), *way]
                    ways[there] = way
                    open_ends.append(there)
        return None

    def _refusal(self, last: Sequence[Mention], wanted: str) -> str:
        now = f"git wants {wanted[:8]} now" if wanted else "git wants it no more"
        if not last:
            return f"nobody approved it: {now}"
        edge, place = last[-1].edge, last[-1].place
        if edge.after == wanted:
            return f"was approved as a step forward, and not as a way back: {now}"
        approved = f"{edge.after[:8]} was approved" if edge.after else "its removal was approved"
        commit = self.history[place.at].title if place.at is not None else ""
        return f"{approved} (in {commit}), and {now}"


def _by_object(places: Iterable[Place]) -> dict[tuple[str, str, Key], list[Mention]]:
    found: dict[tuple[str, str, Key], list[Mention]] = {}
    for place in places:
        for edge in place.record.edges:
            found.setdefault((edge.stack, edge.cluster, edge.key), []).append(Mention(place, edge))
    return found


def _at(one: Mention) -> int:
    return NEVER if one.place.at is None else one.place.at


def _is_open(place: Place, since: int) -> bool:
    """Whether it may have been merged after that commit, for all that is known."""
    return place.until is None or place.until > since


def _behind(merged: Sequence[Mention], having: str) -> list[Mention]:
    """Those that were merged and not applied yet: back to the one that begins with what the cluster has."""
    way: list[Mention] = []
    for one in reversed(merged):
        way.append(one)
        if short(one.edge.before) == having:
            return way
    return []
