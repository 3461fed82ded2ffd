"""Queue of previews: which is made next, and how much of the service one author may use.

Pull requests that wait are numbers here and nothing more: no connection, no task. So many previews are made at a time
of forks and so many of branches, of one author one at a time, and authors have their turns as they came. Forks have
little room: the time that previews of an author's forks took in the last hour is counted, and an author over the limit
waits until it is less. Pure; the clock is a parameter.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

AT_ONCE = 2  # previews that are made at a time: of forks, and of branches
HOUR = 3600.0  # seconds of the past that count
MOST_OF_HOUR = 600.0  # seconds of previews of one author's forks in that time; the last one may go beyond it

Author = tuple[bool, str]  # whether it counts for forks, and the name


@dataclass(frozen=True, slots=True)
class PreviewTurn:
    """Pull request whose preview is made now."""

    number: int
    author: Author
    begun: float


@dataclass(slots=True)
class PreviewQueue:
    """Queue of pull requests: `put` numbers in; `take` them as turns, and call `done` at the end of each."""

    clock: Callable[[], float] = time.monotonic
    _waiting: dict[Author, dict[int, None]] = field(default_factory=dict)  # authors and numbers, in order of arrival
    _running: dict[Author, PreviewTurn] = field(default_factory=dict)
    _taken: dict[Author, deque[tuple[float, float]]] = field(
        default_factory=dict
    )  # ends and durations of turns, of forks

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._waiting.values()))

    def put(self, number: int, author: str, *, fork: bool) -> None:
        """Have it wait, behind the others of its author; one that waits already keeps its place."""
        self._waiting.setdefault((fork, author), {})[number] = None

    def take(self) -> PreviewTurn | None:
        """Return the next pull request whose preview may begin now; None if there is none."""
        author = next((candidate for candidate in self._free() if not self._wait_of(candidate)), None)
        if author is None:
            return None
        numbers = self._waiting[author]
        number = next(iter(numbers))
        del numbers[number]
        if not numbers:
            del self._waiting[author]
        turn = self._running[author] = PreviewTurn(number, author, self.clock())
        return turn

    def done(self, turn: PreviewTurn) -> None:
        """End a turn, and count the time it took if it was about a fork."""
        del self._running[turn.author]
        if turn.author in self._waiting:  # behind all other authors
            self._waiting[turn.author] = self._waiting.pop(turn.author)
        if turn.author[0]:
            now = self.clock()
            self._taken.setdefault(turn.author, deque()).append((now, now - turn.begun))
            for author in [author for author, ends in self._taken.items() if ends[-1][0] <= now - HOUR]:
                del self._taken[author]

    def due_in(self) -> float | None:
        """Return in how many seconds an author may have another turn by time alone; None if that changes nothing."""
        return min(map(self._wait_of, self._free()), default=None)

    def _free(self) -> Iterator[Author]:
        """Yield authors who wait, have no turn, and for whom there is room."""
        used = Counter(fork for fork, _ in self._running)
        return (author for author in self._waiting if author not in self._running and used[author[0]] < AT_ONCE)

    def _wait_of(self, author: Author) -> float:
        """Return how many seconds it is until the author is below the bound."""
        since = self.clock() - HOUR
        ends = self._taken.get(author, deque())
        while ends and ends[0][0] <= since:
            ends.popleft()
        taken, wait = sum(seconds for _, seconds in ends), 0.0
        for end, seconds in ends:
            if taken < MOST_OF_HOUR:
                break
            taken, wait = taken - seconds, end - since
        return wait
