"""Whose turn it is: how every stack is in every cluster at the newest revision, asked before a change begins.

The decision itself is `fleet.sync.gates`. What it is made from is seen by passes and forgotten with the process; since
when a stack is well is then told by the status branch and by its inventory, and approvals are in git.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fleet.evaluate.result import StackResult
from fleet.git.status import Record
from fleet.serve.wanted import Pair, Wanted
from fleet.sync.approvals import Approvals, digest
from fleet.sync.gates import UNSEEN, Standing, gate
from fleet.sync.outcome import Result
from fleet.sync.turn import PartlyWaitingError, WaitingError


@dataclass(slots=True)
class Order:
    clock: Callable[[], float] = time.time
    heard: str | None = None  # which approvals are known
    again: dict[Pair, float] = field(default_factory=dict)  # seconds after which to ask again, of what waits
    _approvals: Approvals = field(default_factory=dict)
    _standings: dict[Pair, tuple[str, Standing]] = field(default_factory=dict)  # with the revision
    _begun: Counter[Pair] = field(default_factory=Counter)
    _told: dict[Pair, Record] = field(default_factory=dict)  # by whoever served before

    def remember(self, records: Iterable[Record]) -> None:
        self._told = {(one.stack, one.cluster): one for one in records}

    def hear(self, approvals: Approvals, tip: str | None) -> None:
        self._approvals, self.heard = approvals, tip

    def forget(self, pair: Pair) -> None:
        self._standings.pop(pair, None)
        self.again.pop(pair, None)

    def moved_on(self, pairs: Iterable[Pair], revision: str) -> None:
        """A commit that wants of these what was wanted before."""
        for pair in pairs:
            if pair in self._standings:
                self._standings[pair] = (revision, self._standings[pair][1])

    def objection(self, current: Wanted, stack: StackResult, cluster: str, begun: Counter[Pair]) -> WaitingError | None:
        """Why the stack may not be changed there now; None: it may, and from here on it is being changed.

        `begun` is what the same pass has begun; it gives it back with `ended`.
        """
        pair = (stack.name, cluster)
        verdict = gate(
            stack.name,
            cluster,
            stack.rollout,
            self._all(current, stack),
            {name: self._all(current, current.stacks[name]) for name in stack.needs if name in current.stacks},
            approved=self._approvals.get((stack.name, digest(stack)), ()) if stack.rollout.approve else (),
            now=self.clock(),
        )
        if verdict.goes:
            self.again.pop(pair, None)
            begun[pair] += 1
            self._begun[pair] += 1
            return None
        self.again[pair] = min(verdict.again or 60.0, 60.0)
        return WaitingError(f"{cluster}: {stack.name} waits: {verdict.reason}")

    def ended(self, begun: Counter[Pair]) -> None:
        """A pass is over, however it ended."""
        self._begun -= begun

    def note(self, current: Wanted, result: Result) -> bool:
        """What a pass saw. True when others may be waiting for just that."""
        pair = (result.stack, result.cluster)
        held = isinstance(result.problem, WaitingError)
        seen = Standing(
            seen=True,
            applied=result.problem is None,
            partly=isinstance(result.problem, PartlyWaitingError),
            health=result.health,
            problem="" if held or not result.problem else result.problem.message,
        )
        revision, before = self._standings.get(pair, ("", None))
        wrote = any(verb.writes for verb in result.done)
        if before is None:
            since = self._since(result) if seen.is_well and not wrote else self.clock()
        elif wrote or replace(before, since=None) != seen:
            since = self.clock()
        else:
            since = before.since or self.clock()
        after = replace(seen, since=since)
        self._standings[pair] = (current.revision, after)
        if not held:
            self.again.pop(pair, None)
        return after != before or revision != current.revision

    def waiting(self, stacks: Mapping[str, StackResult] | None = None, changed: str = "") -> list[Pair]:
        """What waits; with `changed`, only what may wait for that stack."""
        if stacks is None:
            return list(self.again)
        return [
            pair
            for pair in self.again
            if pair[0] == changed or (pair[0] in stacks and changed in stacks[pair[0]].needs)
        ]

    def _all(self, current: Wanted, stack: StackResult) -> dict[str, Standing]:
        pairs = {cluster: (stack.name, cluster) for cluster in stack.clusters}
        return {cluster: self._standing(current, pair) for cluster, pair in pairs.items()}

    def _standing(self, current: Wanted, pair: Pair) -> Standing:
        revision, found = self._standings.get(pair, ("", UNSEEN))
        seen = found if revision == current.revision else UNSEEN
        return replace(seen, begun=True) if pair in self._begun else seen

    def _since(self, result: Result) -> float:
        """Since when a stack that was found well is so, by what others wrote; now, where they did not."""
        told = self._told.get((result.stack, result.cluster))
        changed = result.plan.inventory.changed if result.plan else ""
        if told is None or told.health != result.health or told.sync != "Synced" or not changed:
            return self.clock()
        return max(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in (told.since, changed))
