"""What happens in a soak, drawn from a seed: the same seed, the same steps for ever. Pure.

Between two `Settle`s is an episode. Every episode keeps within what is allowed whatever the service sees of it: commits
may be seen together, so a stack loses one object per episode, and what is meant to be refused loses half of those that
were there when it began. History is rewritten only right after a settle: a commit that nobody has applied yet may be
amended by anybody.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tests.soak.actions import (
    UNREACHABLE,
    Action,
    Ail,
    Calm,
    Commit,
    Deed,
    Drift,
    Fault,
    Fleet,
    Item,
    Kill,
    Meddle,
    Own,
    Settle,
    Squat,
    Stack,
    Step,
    Trouble,
)

ITEMS = 12  # of a stack, at the beginning and about so many later
TROUBLES: tuple[tuple[Trouble, tuple[float, ...], int], ...] = (  # with amounts, and how often
    ("frozen", (0.0,), 3),
    ("down", (0.0,), 1),
    ("dropping", (0.1, 0.3, 0.6), 4),
    ("failing", (0.2, 0.5, 1.0), 3),
    ("empty", (0.5, 1.0), 2),
    ("slow", (0.2, 1.0), 2),
    ("skewed", (-3600.0, -40.0, 40.0, 3600.0), 3),
)
DEEDS: tuple[Deed, ...] = ("field", "field", "label", "drift", "drift", "delete")


@dataclass(frozen=True, slots=True)
class Manner:
    """How much of what."""

    pause: float = 0.15  # seconds on average
    longest: float = 1.2
    episode: int = 28  # steps between two settles
    kills: bool = True
    replicas: int = 0  # each so many-th episode has two replicas; 0: none has


def first(names: tuple[str, ...]) -> Fleet:
    return tuple(Stack(name, tuple(Item(f"{name}-{number}", "0") for number in range(ITEMS))) for name in names)


def draw(seed: int, stacks: tuple[str, ...], clusters: tuple[str, str], *manners: tuple[Manner, int]) -> Iterator[Step]:
    """So many episodes in each manner, one after the other; each ends with a `Settle`."""
    drawn = Drawn(seed, clusters, first(stacks))
    for manner, count in manners:
        for _ in range(count):
            yield from drawn.episode(manner)


@dataclass
class Drawn:
    seed: int
    clusters: tuple[str, str]
    fleet: Fleet  # as the last good commit says
    random: random.Random = field(init=False)
    manner: Manner = field(default_factory=Manner)
    count: int = ITEMS  # names and values are never used twice
    episodes: int = 0
    before: Fleet | None = None  # as before the last commit, where going back takes nothing away
    removed: set[str] = field(default_factory=set)  # stacks that lost their object in this episode
    settled: dict[str, frozenset[str]] = field(default_factory=dict)  # what each had when it began
    troubles: dict[str, Trouble] = field(default_factory=dict)
    refused: bool = False  # the last commit is to be
    rewritten: bool = False
    replicas: int = 1

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def episode(self, manner: Manner) -> Iterator[Step]:
        self.manner = manner
        self.episodes += 1
        self.removed.clear()
        self.settled = {one.name: frozenset(item.name for item in one.items) for one in self.fleet}
        if self.random.random() < 0.25:
            yield self._step(self._rewrite())
        for _ in range(self.manner.episode):
            for action in self._next():
                yield self._step(action)
        if self.refused or any(one.drift == "report" for one in self.fleet):
            yield self._step(self._good("put back", tuple(replace(one, drift="repair") for one in self.fleet)))
        self.troubles.clear()
        every = self.manner.replicas
        self.replicas = 2 if every and self.episodes % every == every - 1 else 1
        yield self._step(Settle(self.replicas))

    def _step(self, action: Action) -> Step:
        pause = min(self.random.expovariate(1 / self.manner.pause), self.manner.longest)
        return Step(round(pause, 3), action)

    def _next(self) -> list[Action]:
        chances: list[tuple[int, Callable[[], list[Action]]]] = [
            (11, lambda: [self._commit()]),
            (4 if self.manner.kills else 0, self._kill),
            (3, self._trouble),
            (5, lambda: [self._meddle()]),
            (1, lambda: [self._own()]),
            (1, lambda: [self._squat()]),
            (1, lambda: [self._ail()]),
        ]
        (chosen,) = self.random.choices([one for _, one in chances], [weight for weight, _ in chances])
        return chosen()

    def _kill(self) -> list[Action]:
        which = self.random.randrange(self.replicas)
        if self.random.random() < 0.5:
            return [Kill(which)]
        cluster = self.random.choice(self.clusters)
        return [self._commit(), Kill(which, cluster, self.random.randint(1, 7), self.random.random() < 0.3)]

    def _trouble(self) -> list[Action]:
        cluster = self.random.choice(self.clusters)
        if cluster in self.troubles:
            del self.troubles[cluster]
            return [Calm(cluster)]
        names = [one for one, _, _ in TROUBLES]
        (name,) = self.random.choices(names, [weight for _, _, weight in TROUBLES])
        amounts = next(amounts for one, amounts, _ in TROUBLES if one == name)
        self.troubles[cluster] = name
        return [Fault(cluster, name, self.random.choice(amounts))]

    def _reachable(self) -> str:
        """A cluster that strangers can talk to; where there is none, they talk to nobody."""
        well = [one for one in self.clusters if self.troubles.get(one) not in UNREACHABLE]
        return self.random.choice(well or self.clusters)

    def _meddle(self) -> Action:
        stack = self.random.choice(self.fleet)
        deed = self.random.choice(DEEDS)
        return Meddle(self._reachable(), stack.name, self.random.choice(stack.items), deed, self._new("theirs"))

    def _own(self) -> Action:
        stack = self.random.choice(self.fleet)
        name = f"own-{self.random.randrange(3)}"
        return Own(self._reachable(), stack.name, name, self._new("v"))

    def _squat(self) -> Action:
        stack = self.random.choice(self.fleet)
        return Squat(self._reachable(), stack.name, self.random.choice((-7200.0, -45.0, -28.0, -31.0)))

    def _ail(self) -> Action:
        return Ail(self._reachable(), self.random.choice(("Healthy", "Degraded")))

    def _commit(self) -> Action:
        if self.refused or self.rewritten:
            return self._good("put right", self.fleet)
        stack = self.random.choice(self.fleet)
        item = self.random.choice(stack.items)
        match self.random.choices(
            ("change", "add", "rename", "remove", "revert", "raise", "halve", "empty", "policy"),
            (40, 14, 8, 10, 6, 6, 4, 2, 6),
        )[0]:
            case "add":
                return self._add(stack)
            case "rename" if len(item.was) < 4:
                new = Item(self._new(stack.name), item.value, item.names)
                return self._with(f"rename {item.name} to {new.name}", stack, _put(stack, item, new))
            case "remove" if stack.name not in self.removed and len(stack.items) > ITEMS - 2:
                return self._remove(stack, item)
            case "revert" if self.before is not None:
                return self._good("revert", self.before)
            case "raise":
                self.refused = True
                return Commit(f"{stack.name} raises", self.fleet, good=False, raises=stack.name)
            case "halve":
                return self._halve(stack)
            case "empty":
                self.refused = True
                return Commit("no stacks", (), good=False)
            case "policy":
                drift: Drift = "report" if stack.drift == "repair" else "repair"
                return self._with(f"drift of {stack.name}: {drift}", stack, replace(stack, drift=drift), back=True)
            case _:
                new = replace(item, value=self._new("v"))
                return self._with(f"{item.name} is {new.value}", stack, _put(stack, item, new), back=True)

    def _add(self, stack: Stack) -> Action:
        if len(stack.items) > ITEMS + 5:
            return self._with(f"the items of {stack.name} in another order", stack, _turned(stack), back=True)
        new = Item(self._new(stack.name), self._new("v"))
        return self._with(f"add {new.name}", stack, replace(stack, items=(*stack.items, new)))

    def _remove(self, stack: Stack, item: Item) -> Action:
        self.removed.add(stack.name)
        items = tuple(one for one in stack.items if one is not item)
        return self._with(f"remove {item.name}", stack, replace(stack, items=items), back=True)

    def _halve(self, stack: Stack) -> Action:
        """Half of what was there at the beginning, under whatever name it is now."""
        old = [one for one in stack.items if self.settled[stack.name].intersection(one.names)]
        gone = set(self.random.sample([one.name for one in old], len(old) // 2))
        left = replace(stack, items=tuple(one for one in stack.items if one.name not in gone))
        self.refused = True
        return Commit(f"half of {stack.name} is gone", _swap(self.fleet, left), good=False)

    def _rewrite(self) -> Action:
        self.rewritten = True
        stack = self.random.choice(self.fleet)
        wrong = tuple(replace(one, value="rewritten") for one in stack.items)
        return Commit("another past", _swap(self.fleet, replace(stack, items=wrong)), good=False, rewrites=True)

    def _with(self, title: str, stack: Stack, after: Stack, *, back: bool = False) -> Commit:
        before = self.fleet if back else None
        made = self._good(title, _swap(self.fleet, after))
        self.before = before
        return made

    def _good(self, title: str, fleet: Fleet) -> Commit:
        self.fleet, self.before, self.refused, self.rewritten = fleet, None, False, False
        return Commit(title, fleet)

    def _new(self, word: str) -> str:
        self.count += 1
        return f"{word}-{self.count}"


def _put(stack: Stack, item: Item, new: Item) -> Stack:
    return replace(stack, items=tuple(new if one is item else one for one in stack.items))


def _turned(stack: Stack) -> Stack:
    return replace(stack, items=stack.items[::-1])


def _swap(fleet: Fleet, after: Stack) -> Fleet:
    return tuple(after if one.name == after.name else one for one in fleet)
