"""What a stack's function declares while it runs for one cluster. Constructing a resource registers it here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleet.errors import ConfigurationError, Source
from fleet.model.discovery import discovered
from fleet.model.resource import Resource
from fleet.model.source import NOWHERE

if TYPE_CHECKING:
    from fleet.model.desired import Key


@dataclass(frozen=True, slots=True)
class Asked:
    """An export of another stack that was read with `fleet.output`: an edge of the graph of stacks."""

    stack: str
    name: str
    source: Source = field(default=NOWHERE, compare=False)


@dataclass(slots=True)
class Scope:
    """Open while the function runs; `Collected` is what is left of it."""

    stack: str
    namespace: str
    cluster: str
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of other stacks, by stack and name
    resources: dict[Key, Resource] = field(default_factory=dict)
    exports: dict[str, Any] = field(default_factory=dict)
    asked: dict[Asked, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)

    def declare(self, resource: Resource) -> None:
        first = self.resources.setdefault(resource.key, resource)
        if first is not resource:
            raise ConfigurationError(
                f"{resource.key} is declared twice in stack {self.stack!r}",
                hint=f"the first is at {first.source}; give this one another name",
                source=resource.source,
                field="name",
            )


_scope: ContextVar[Scope | None] = ContextVar("fleet.scope", default=None)


def current() -> Scope | None:
    """The stack that is being evaluated now, if one is."""
    return _scope.get()


def declare(resource: Resource) -> None:
    """Register a new resource with the stack that is being evaluated; outside of one it is only an object."""
    scope = _scope.get()
    if scope is not None:
        scope.declare(resource)
    elif discovered() is not None:
        raise ConfigurationError(
            f"{resource.key} is constructed outside a stack, so it would never be deployed",
            hint="construct it inside a function decorated with @fleet.stack(…)",
            source=resource.source,
        )


@contextmanager
def opened(scope: Scope) -> Iterator[None]:
    """Collect everything that is declared inside the block."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)
