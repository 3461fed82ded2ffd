"""What a user's files declare while they are imported: stacks and clusters, in the order they were written.

Outside a discovery nothing is recorded, so tests and scripts construct what they like.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.model.cluster import Cluster
    from fleet.model.stack import Stack


@dataclass(slots=True)
class Found:
    stacks: list[Stack] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)


_found: ContextVar[Found | None] = ContextVar("fleet.found", default=None)


def discovered() -> Found | None:
    """Where to record what is declared now, if anybody asked."""
    return _found.get()


@contextmanager
def discovering() -> Iterator[Found]:
    """Record every Stack and Cluster that is made inside the block; constructing an app there is an error."""
    found = Found()
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
