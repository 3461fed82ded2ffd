"""How the fleet at one moment looks at a terminal: stacks × clusters, and below it what happened last.

It always fits: what is not well comes first, and the rest is counted where there is no room for it. Where clusters are
too many to stand side by side, each stack in each cluster has a line of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from fleet.sync.observe import Observed
    from fleet.sync.watch import Sight

MOST_EVENTS = 12
GAP = 3  # between two columns
COLOURS = {"Healthy": "green", "Progressing": "yellow", "Missing": "red", "Degraded": "red"}


class Cell(NamedTuple):
    text: str
    style: str = ""


Row = list[Cell]


class View:
    """For rich: `sight` and `events` are what is shown from then on."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self.sight: Sight | None = None
        self.events: deque[str] = deque(maxlen=MOST_EVENTS)
        self._clusters = clusters

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        if self.sight is None:
            yield Text("looking …")
            return
        height = console.size.height - len(self.events) - 1
        for row in table(self.sight, self._clusters, width=options.max_width, height=height):
            line = Text(no_wrap=True, overflow="ellipsis")
            for cell in row:
                line.append(*cell)
            yield line
        if self.events:
            yield Text("")
        for event in self.events:
            yield Text(event, style="dim", no_wrap=True, overflow="ellipsis")


def table(sight: Sight, clusters: Sequence[str], *, width: int, height: int) -> list[Row]:
    """Pure: lines of at most `height`, of which the first is the head."""
    head, rows = _side_by_side(sight, clusters)
    widths = _widths([head, *rows])
    if sum(widths) > width:
        head, rows = _one_below_the_other(sight, clusters)
        widths = _widths([head, *rows])
    room = max(height - 1, 2)
    hidden = rows[room - 1 :] if len(rows) > room else []
    shown = [_padded(row, widths) for row in [head, *rows[: len(rows) - len(hidden)]]]
    return [*shown, [Cell(f"… and {len(hidden)} more", "dim")]] if hidden else shown


def _side_by_side(sight: Sight, clusters: Sequence[str]) -> tuple[Row, list[Row]]:
    """A line for each stack, those that are not well first, with a column for each cluster."""
    head = [Cell("STACK", "bold"), *(Cell(_title(name, sight), "bold") for name in clusters)]
    found = sight.stacks
    stacks = sorted({stack for stack, _ in found})
    stacks.sort(key=lambda stack: all(one.health == "Healthy" for (name, _), one in found.items() if name == stack))
    return head, [[Cell(stack), *(cell(found.get((stack, one))) for one in clusters)] for stack in stacks]


def _one_below_the_other(sight: Sight, clusters: Sequence[str]) -> tuple[Row, list[Row]]:
    pairs = [pair for pair in sorted(sight.stacks) if pair[1] in clusters]
    pairs.sort(key=lambda pair: sight.stacks[pair].health == "Healthy")
    head = [Cell("STACK", "bold"), Cell("CLUSTER", "bold"), Cell("")]
    return head, [[Cell(stack), Cell(_title(one, sight)), cell(sight.stacks[stack, one])] for stack, one in pairs]


def _title(cluster: str, sight: Sight) -> str:
    return cluster + (" (does not answer)" if cluster in sight.failed else "")


def cell(one: Observed | None) -> Cell:
    """What is said of a stack in a cluster, and its colour."""
    if one is None:
        return Cell("–", "dim")
    members = [each.members for each in one.objects if each.is_app and each.members]
    parts = [one.health, *members, one.revision[:8], "suspended" if one.suspended else ""]
    return Cell(" ".join(filter(None, parts)), COLOURS.get(one.health, ""))


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(len(one.text) for one in column) + GAP for column in zip(*rows, strict=True)]


def _padded(row: Row, widths: Sequence[int]) -> Row:
    return [Cell(one.text.ljust(width), one.style) for one, width in zip(row, widths, strict=True)]
