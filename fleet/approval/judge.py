"""Judgement of records: which stand for which commit of a branch, and what they allow. Pure.

A record is good for one merge. Where that was is found by the tree: the first commit after the record's base that has
exactly the files that were previewed, however it came about (merge, squash, rebase). Where another change was merged in
between, no commit has that tree; then the record counts if *everything* in it is part of what git wants now, and it is
not known to have been merged and left behind before.

For each object the commits are gone through in their order, so an older record does not approve a way back. To apply an
older commit than a cluster has needs a record that begins with what the cluster has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.approval.record import ABSENT, REPAIR, ApprovalRecord, ApprovedChange, short_state, without_adoption
from fleet.git.history import PastCommit
from fleet.objects.desired import Key, StackCluster
from fleet.plan.effect import Severity
from fleet.version import __version__

NEVER = -1  # before the first commit
DesiredStates = Callable[[StackCluster], Mapping[Key, str]]


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A record with its place in a history. `at` is the commit that merged it, None where the tree does not tell."""

    record: ApprovalRecord
    base: int
    at: int | None
    until: int | None = None  # by this commit it was merged, as a later preview shows; None: unknown


class Mention(NamedTuple):
    """One change of a record, with the record's place in the history."""

    place: PlacedRecord
    edge: ApprovedChange


class AppliedState(NamedTuple):
    """The state of an object in a cluster: what was recorded, whether it was applied so, and since which commit."""

    state: str
    is_applied: bool = True
    since: int = NEVER


@dataclass(frozen=True, slots=True)
class Permission:
    """The most that may be done, or why nothing may."""

    severity: Severity = Severity.NOTHING
    refusal: str = ""


class ApprovalHistory:
    """The approvals as they count for the commit number `end` of a branch, of which `wanted` says what git wants."""

    def __init__(
        self, records: Iterable[ApprovalRecord], history: Sequence[PastCommit], end: int, wanted: DesiredStates
    ) -> None:
        self.history = history
        self.position = {past_commit.commit: number for number, past_commit in enumerate(history)}
        self._end, self._wanted = end, wanted
        placed_records = list(self._place_records(records))
        self._mentions = _mentions_by_object(placed_records)
        placed_records = [self._limit_record(placed) if placed.at is None else placed for placed in placed_records]
        self._mentions = _mentions_by_object(self._keep_contained(placed_records))

    def permission(self, pair: StackCluster, key: Key, wanted: str, applied_state: AppliedState) -> Permission:
        """Return what may be done to make an object what git wants, given what the cluster has."""
        mentions = self._mentions.get((*pair, key), [])
        merged = sorted((mention for mention in mentions if mention.place.at is not None), key=_position_of)
        newest = _position_of(merged[-1]) if merged else NEVER
        newest_mentions = [mention for mention in merged if _position_of(mention) == newest]
        since = max(newest, applied_state.since - 1)
        unplaced = [mention for mention in mentions if mention.place.at is None and _is_open(mention.place, since)]
        is_applied = applied_state.is_applied and short_state(applied_state.state) == short_state(wanted)
        if is_applied and not merged and not unplaced:
            return Permission(REPAIR)
        matching = [
            mention
            for mention in newest_mentions
            if mention.edge.after == wanted
            or (is_applied and without_adoption(mention.edge.after) == without_adoption(wanted))
        ]
        if applied_state.since > self._end:
            matching = [
                mention for mention in matching if short_state(mention.edge.before) == short_state(applied_state.state)
            ]
            unplaced = []
        chain = (
            _find_unapplied(merged, short_state(applied_state.state))
            if matching
            else self._find_chain(newest_mentions, unplaced, wanted, applied_state)
        )
        if not matching and chain is None:
            return Permission(refusal=self._refusal(newest_mentions, wanted))
        if is_applied:
            severities = [
                mention.edge.severity for mention in matching if short_state(mention.edge.before) == short_state(wanted)
            ]
            return Permission(max([REPAIR, *severities]))
        leading = [mention for mention in [*matching, *(chain or ())] if mention.edge.after == wanted]
        if not any(mention.place.record.version == __version__ for mention in leading):
            return Permission(
                refusal=f"was approved with fleet {leading[0].place.record.version}, and this is {__version__}"
            )
        return Permission(max(mention.edge.severity for mention in (*matching, *(chain or ()))))

    def unrecorded_commits(self, since: int) -> list[PastCommit]:
        """Return the commits after a position that no record leads to, the newest first."""
        recorded_trees = {mention.place.record.tree for mentions in self._mentions.values() for mention in mentions}
        return [
            past_commit
            for past_commit in reversed(self.history[since + 1 : self._end + 1])
            if past_commit.tree not in recorded_trees
        ]

    def _place_records(self, records: Iterable[ApprovalRecord]) -> Iterator[PlacedRecord]:
        trees: dict[str, list[int]] = {}
        for number, past_commit in enumerate(self.history[: self._end + 1]):
            trees.setdefault(past_commit.tree, []).append(number)
        for record in records:
            base = NEVER if not record.base else self.position.get(record.base)
            if base is None:
                continue  # of another branch, or of a history that is no more
            yield PlacedRecord(record, base, next((at for at in trees.get(record.tree, ()) if at > base), None))

    def _limit_record(self, place: PlacedRecord) -> PlacedRecord:
        """Limit when a record was merged: a later preview that begins where this one ends shows that it was by then."""
        later = [
            other.place.base
            for edge in place.record.edges
            if edge.before != edge.after
            for other in self._mentions.get((edge.stack, edge.cluster, edge.key), ())
            if other.place.base >= place.base and other.place.record is not place.record
            if short_state(other.edge.before) == short_state(edge.after) and other.edge.before != other.edge.after
        ]
        return PlacedRecord(place.record, place.base, None, min(later)) if later else place

    def _keep_contained(self, placed_records: Sequence[PlacedRecord]) -> list[PlacedRecord]:
        """Drop records without a place of which some change is not, and was not, part of what git wants."""
        counted = list(placed_records)
        while True:
            begins = {
                (edge.stack, edge.cluster, edge.key, short_state(edge.before))
                for placed in counted
                for edge in placed.record.edges
                if edge.before != edge.after
            }
            contained = [
                placed for placed in counted if placed.at is not None or self._is_contained(placed.record, begins)
            ]
            if len(contained) == len(counted):
                return contained
            counted = contained

    def _is_contained(self, record: ApprovalRecord, begins: set[tuple[str, str, Key, str]]) -> bool:
        return all(
            self._wanted((edge.stack, edge.cluster)).get(edge.key, ABSENT) == edge.after
            or (edge.stack, edge.cluster, edge.key, short_state(edge.after)) in begins
            for edge in record.edges
        )

    def _find_chain(
        self, newest_mentions: Sequence[Mention], unplaced: Sequence[Mention], wanted: str, applied_state: AppliedState
    ) -> list[Mention] | None:
        """Return a chain of records that leads to what git wants; None when there is none.

        It begins at the newest records that have their place, or at what the cluster has.
        """
        starts = {short_state(mention.edge.after) for mention in newest_mentions} or {short_state(applied_state.state)}
        chains: dict[str, list[Mention]] = {start: [] for start in starts}
        open_ends = list(chains)
        while open_ends:
            end = open_ends.pop()
            for mention in unplaced:
                next_state = short_state(mention.edge.after)
                if short_state(mention.edge.before) == end and (
                    next_state not in chains or mention.edge.after == wanted
                ):
                    chain = [*chains[end], mention]
                    if mention.edge.after == wanted:
                        return [*_find_unapplied(newest_mentions, short_state(applied_state.state)), *chain]
                    chains[next_state] = chain
                    open_ends.append(next_state)
        return None

    def _refusal(self, newest_mentions: Sequence[Mention], wanted: str) -> str:
        current = f"git now declares {wanted[:8]}" if wanted else "no longer declared in git"
        if not newest_mentions:
            return f"nobody approved it: {current}"
        edge, place = newest_mentions[-1].edge, newest_mentions[-1].place
        if edge.after == wanted:
            return f"was approved as a step forward, and not as a way back: {current}"
        approved = f"{edge.after[:8]} was approved" if edge.after else "its removal was approved"
        commit = self.history[place.at].title if place.at is not None else ""
        return f"{approved} (in {commit}), and {current}"


def _mentions_by_object(places: Iterable[PlacedRecord]) -> dict[tuple[str, str, Key], list[Mention]]:
    mentions: dict[tuple[str, str, Key], list[Mention]] = {}
    for place in places:
        for edge in place.record.edges:
            mentions.setdefault((edge.stack, edge.cluster, edge.key), []).append(Mention(place, edge))
    return mentions


def _position_of(mention: Mention) -> int:
    return NEVER if mention.place.at is None else mention.place.at


def _is_open(place: PlacedRecord, since: int) -> bool:
    """Return whether a record may have been merged after that commit, for all that is known."""
    return place.until is None or place.until > since


def _find_unapplied(merged: Sequence[Mention], applied_state: str) -> list[Mention]:
    """Return the mentions that were merged but not applied, back to the one that begins at the cluster's state."""
    chain: list[Mention] = []
    for mention in reversed(merged):
        chain.append(mention)
        if short_state(mention.edge.before) == applied_state:
            return chain
    return []
