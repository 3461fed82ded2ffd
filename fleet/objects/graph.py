"""Order in a graph of dependencies: what is needed comes first, ties go by the order given, cycles are named."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


class CycleError(Exception):
    """A cycle of dependencies. `path` starts and ends with the same node: each one needs the next."""

    def __init__(self, path: tuple[Hashable, ...]) -> None:
        super().__init__(" → ".join(map(str, path)))
        self.path = path


def sort_by_dependencies(nodes: Iterable[N], needs: Mapping[N, Iterable[N]] | Callable[[N], Iterable[N]]) -> list[N]:
    """Return the nodes, each after those it needs; raise CycleError where that cannot be.

    Stable: the same input gives the same order. Needs that are no nodes are ignored.
    """
    pending = list(nodes)
    inside = set(pending)
    needs_of: Callable[[N], Iterable[N]] = needs if callable(needs) else lambda node: needs.get(node, ())
    done: dict[N, None] = {}
    for start in pending:
        # Depth first with an explicit stack: a chain of a thousand objects must not end in a RecursionError.
        path: dict[N, Iterable[N]] = {}
        stack = [] if start in done else [start]
        while stack:
            node = stack[-1]
            if node not in path:
                path[node] = iter([need for need in needs_of(node) if need in inside])
            for need in path[node]:
                if need in path:
                    open_nodes = list(path)
                    raise CycleError((*open_nodes[open_nodes.index(need) :], need))
                if need not in done:
                    stack.append(need)
                    break
            else:
                del path[node]
                done[stack.pop()] = None
    return list(done)
