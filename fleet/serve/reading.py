"""Who makes of a commit what is wanted: all in which a service at the centre and an agent in a cluster differ.

`Evaluating` reads the fleet's own repository. An agent reads the set that was rendered for its cluster, see
`fleet.agent.reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from fleet.evaluate.pool import Pool
from fleet.git.mirror import Mirror
from fleet.git.status import Record
from fleet.plan.budget import Allowance
from fleet.serve.loss import check_loss
from fleet.serve.origin import Origin
from fleet.serve.wanted import Wanted, wanted
from fleet.sync import approvals
from fleet.sync.departures import Placed


class Reading(Protocol):
    @property
    def also(self) -> tuple[str, ...]:
        """Refs that are asked for with the branch."""

    @property
    def pool(self) -> Pool | None:
        """Who evaluates; None where nobody does."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """For as long as the service runs."""

    def read(self, origin: Origin, mirror: Mirror, commit: str, before: Wanted | None) -> Wanted:
        """What a commit that the mirror has wants. Whatever is wrong with it is raised."""

    def check(self, found: Wanted, before: Wanted | None, memory: Callable[[], Iterable[Record]]) -> None:
        """Raise PolicyError if it lost more than it should. `memory` is what the status branch says."""


@dataclass(slots=True)
class Evaluating:
    also: tuple[str, ...] = (approvals.REF,)
    pool: Pool | None = field(default=None, init=False)

    @contextmanager
    def opened(self) -> Iterator[None]:
        with Pool() as self.pool:
            yield

    def read(self, origin: Origin, mirror: Mirror, commit: str, before: Wanted | None) -> Wanted:
        assert self.pool is not None  # noqa: S101 - it is open
        return wanted(origin, mirror, commit, before, self.pool)

    def check(self, found: Wanted, before: Wanted | None, memory: Callable[[], Iterable[Record]]) -> None:
        git = found.files.git
        assert git is not None  # noqa: S101 - the mirror's
        known = (before.revision, Placed.of(before.evaluation).pairs) if before else None
        check_loss(git, found.revision, found.evaluation, budget_of(found), before=known, memory=memory)


def budget_of(found: Wanted) -> Allowance:
    budget = found.files.repository.settings.budget
    return Allowance(budget.deletions, budget.share)
