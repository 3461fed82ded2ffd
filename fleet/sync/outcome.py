"""What became of a run, as data: per stack and cluster, and as the one error that it ends with, if any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.errors import FleetError, ResourceError
from fleet.plan import Branch, Plan, Verb

PAST = {
    Verb.CREATE: "created",
    Verb.UPDATE: "updated",
    Verb.ADOPT: "adopted",
    Verb.DELETE: "deleted",
    Verb.FORGET: "forgotten",
    Verb.RECORD: "recorded",
}


class ObjectHealth(NamedTuple):
    kind: str
    namespace: str
    name: str
    state: str
    message: str = ""
    version: str = ""
    is_app: bool = False
    members: str = ""  # of an app: those that serve, of those that there should be
    available: str = ""  # of an app: "yes" or "no", "" when it is not known
    called: str = ""  # of an app: its name in git, where that is another one

    @property
    def title(self) -> str:
        name = self.called or self.name
        title = f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"
        return f"{title} ({self.name} in the cluster)" if self.called else title


@dataclass(frozen=True, slots=True)
class Result:
    """One stack in one cluster."""

    stack: str
    cluster: str
    plan: Plan | None = None
    problem: FleetError | None = None  # why it could not be synced
    unhealthy: FleetError | None = None  # synced, but not well in time
    health: str = "Unknown"
    objects: tuple[ObjectHealth, ...] = ()
    done: Counter[Verb] = field(default_factory=Counter)
    leaving: bool = False
    suspended: str = ""  # why it is left as it is
    held_back: int = 0  # changes that wait for the end of that

    @property
    def is_to_do(self) -> bool:
        """There is something to write, and nothing speaks against it so far."""
        return self.problem is None and self.plan is not None and not self.plan.empty

    @property
    def branch(self) -> Branch:
        problem = str(self.problem) if self.problem else ""
        return Branch(self.stack, self.cluster, self.plan, problem, self.suspended)

    @property
    def words(self) -> str:
        """ "2 created, 1 updated", or "no changes"."""
        if self.suspended and not self.problem:
            return self.suspended
        taken = self.plan.taken_from if self.plan and not self.problem else ""
        parts = [f"taken over from {taken}"] if taken else []
        parts += [f"{self.done[verb]} {word}" for verb, word in PAST.items() if self.done[verb]]
        return ", ".join(parts) or "no changes"


def failure(problems: Iterable[FleetError | None]) -> FleetError | None:
    """One error for all: itself when alone, else a summary with their common exit code, or 4 when they differ."""
    unique = list({str(problem): problem for problem in problems if problem}.values())
    if len(unique) <= 1:
        return unique[0] if unique else None
    codes = {problem.exit_code for problem in unique}
    error = ResourceError("\nerror: ".join(str(problem) for problem in unique))
    error.exit_code = codes.pop() if len(codes) == 1 else ResourceError.exit_code
    return error
