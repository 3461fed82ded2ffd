"""What can happen in a soak, as data. Each says in a line what it is, so that a plan can be read and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Trouble = Literal["frozen", "down", "dropping", "failing", "empty", "slow", "skewed"]
Drift = Literal["repair", "report"]
Deed = Literal["field", "label", "drift", "delete"]
UNREACHABLE: frozenset[Trouble] = frozenset({"frozen", "down"})  # for everybody, not for the service alone


@dataclass(frozen=True, slots=True)
class Item:
    """One object that a stack wants; `was` are its former names, the newest first."""

    name: str
    value: str
    was: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.was)


@dataclass(frozen=True, slots=True)
class Stack:
    name: str
    items: tuple[Item, ...]
    drift: Drift = "repair"


Fleet = tuple[Stack, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Git wants `fleet` from now on. One that is not `good` must be refused, and the one before goes on."""

    title: str
    fleet: Fleet
    good: bool = True
    raises: str = ""  # the stack whose file is broken
    rewrites: bool = False  # pushed by force over the last commit, which the next commit brings back

    @property
    def is_no_fleet(self) -> bool:
        """Nothing of it may be taken; else it is a fleet, and what it takes away is refused cluster by cluster."""
        return bool(self.raises) or self.rewrites or not self.fleet

    def __str__(self) -> str:
        return f"commit: {self.title}"


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL, and another process at once: now, or at the n-th write to a cluster, before or after it is done."""

    which: int  # of the processes that run
    cluster: str = ""
    write: int = 0
    before: bool = False

    def __str__(self) -> str:
        moment = (
            f"at write {self.write} to {self.cluster}, {'before' if self.before else 'after'}" if self.write else "now"
        )
        return f"kill {self.which} {moment}"


@dataclass(frozen=True, slots=True)
class Fault:
    cluster: str
    trouble: Trouble
    amount: float = 0.0  # a share of requests, or seconds

    def __str__(self) -> str:
        return f"{self.cluster} is {self.trouble}" + (f" {self.amount:g}" if self.amount else "")


@dataclass(frozen=True, slots=True)
class Calm:
    cluster: str

    def __str__(self) -> str:
        return f"{self.cluster} is well again"


@dataclass(frozen=True, slots=True)
class Meddle:
    """Somebody else does something to an object of ours."""

    cluster: str
    stack: str
    item: Item
    deed: Deed
    value: str

    def __str__(self) -> str:
        return f"a stranger: {self.deed} {self.value} of {self.stack}/{self.item.name} in {self.cluster}"


@dataclass(frozen=True, slots=True)
class Own:
    """Somebody else writes an object of their own into our namespace."""

    cluster: str
    stack: str
    name: str
    value: str

    def __str__(self) -> str:
        return f"a stranger's own {self.stack}/{self.name} in {self.cluster} is {self.value}"


@dataclass(frozen=True, slots=True)
class Squat:
    """The Lease of a stack is held by somebody on another machine who is gone, and whose clock was off."""

    cluster: str
    stack: str
    skew: float  # seconds

    def __str__(self) -> str:
        return f"the Lease of {self.stack} in {self.cluster} is held, by a clock that is {self.skew:+g} s off"


@dataclass(frozen=True, slots=True)
class Ail:
    """The operator says how the app is: of a stack that nothing else happens to, as ill ones stop their rollouts."""

    cluster: str
    health: Literal["Healthy", "Degraded"]

    def __str__(self) -> str:
        return f"the app in {self.cluster} is {self.health}"


@dataclass(frozen=True, slots=True)
class Settle:
    """All is well again; wait until clusters and status branch are as git says, and look at everything.

    `replicas` serve from then on: one without a Lease, or two that share one.
    """

    replicas: int = 1

    def __str__(self) -> str:
        return f"settle; {self.replicas} from here on"


Action = Commit | Kill | Fault | Calm | Meddle | Own | Squat | Ail | Settle


@dataclass(frozen=True, slots=True)
class Step:
    """An action, and the seconds that pass before it."""

    pause: float
    action: Action

    def __str__(self) -> str:
        return f"+{self.pause:.2f} s  {self.action}"
