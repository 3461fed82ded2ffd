"""Declarations of user code while it runs: stacks and clusters of files, resources of a stack's function, exports.

What a user's files declare while they are imported is recorded in the order it is written, and only inside a discovery,
so tests and scripts construct what they like. What a stack's function declares while it runs for one cluster is in its
scope: constructing a resource registers it there.

Exports are values that a stack gives to other stacks: `export` in the one, `output` in the other, which then depends on
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic_core import PydanticCustomError

from fleet.errors import ConfigurationError, Source
from fleet.model.resource import Resource
from fleet.model.source import NOWHERE, locate
from fleet.model.types import check_export_name
from fleet.model.validation import check_plain
from fleet.suggestion import suggestion

if TYPE_CHECKING:
    from fleet.model.cluster import Cluster
    from fleet.model.stack import Stack
    from fleet.objects.desired import Key


@dataclass(slots=True)
class Declarations:
    stacks: list[Stack] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)


_discovery: ContextVar[Declarations | None] = ContextVar("fleet.found", default=None)


def current_discovery() -> Declarations | None:
    """Return the discovery that records what is declared now, None if there is none."""
    return _discovery.get()


@contextmanager
def open_discovery() -> Iterator[Declarations]:
    """Record every Stack and Cluster that is made inside the block; constructing an app there is an error."""
    discovery = Declarations()
    token = _discovery.set(discovery)
    try:
        yield discovery
    finally:
        _discovery.reset(token)


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """A read of another stack's export with `fleet.output`: an edge of the graph of stacks."""

    stack: str
    name: str
    source: Source = field(default=NOWHERE, compare=False)


@dataclass(slots=True)
class StackScope:
    """The declarations of a stack's function while it runs; `Collected` is what is left of it."""

    stack: str
    namespace: str
    cluster: str
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of other stacks, by stack and name
    resources: dict[Key, Resource] = field(default_factory=dict)
    exports: dict[str, Any] = field(default_factory=dict)
    asked: dict[OutputRequest, None] = field(default_factory=dict)
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


_scope: ContextVar[StackScope | None] = ContextVar("fleet.scope", default=None)


def current_scope() -> StackScope | None:
    """Return the scope of the stack that is being evaluated now, None if there is none."""
    return _scope.get()


def declare(resource: Resource) -> None:
    """Register a new resource with the stack that is being evaluated; outside of one it is only an object."""
    scope = _scope.get()
    if scope is not None:
        scope.declare(resource)
    elif current_discovery() is not None:
        raise ConfigurationError(
            f"{resource.key} is constructed outside a stack, so it would never be deployed",
            hint="construct it inside a function decorated with @fleet.stack(…)",
            source=resource.source,
        )


@contextmanager
def open_scope(scope: StackScope) -> Iterator[None]:
    """Collect everything that is declared inside the block."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


T = TypeVar("T")


class MissingOutputError(ConfigurationError):
    """An export that a stack asked for and that is not known (yet). `asked` says which, for that stack to be evaluated
    first.
    """

    def __init__(self, asked: OutputRequest, *, hint: str | None) -> None:
        super().__init__(
            f"stack {asked.stack!r} has no export {asked.name!r}", hint=hint, source=asked.source, field="output"
        )
        self.asked = asked


def export(name: str, value: Any) -> None:
    """Give a plain value to other stacks (`fleet.output`). Never a secret: it is in plans and files."""
    source = locate()
    scope = _require_scope("export", source)
    try:
        check_export_name(name)
        check_plain(value)
    except PydanticCustomError as error:
        context = error.context or {}
        raise ConfigurationError(
            str(context["message"]), hint=context.get("hint"), source=source, field=f"export({name!r})"
        ) from None
    if name in scope.exports:
        raise ConfigurationError(f"{name!r} is exported twice", source=source, field="export")
    scope.exports[name] = value


@overload
def output(stack: str | Stack, name: str, /) -> str: ...
@overload
def output(stack: str | Stack, name: str, kind: type[T], /) -> T: ...
def output(stack: str | Stack, name: str, kind: type[Any] = str, /) -> Any:
    """Return the value that another stack exports on this cluster. This stack is then applied after that one.

    The value is a string unless another type is asked for: `fleet.output("network", "port", int)`.
    """
    source = locate()
    scope = _require_scope("output", source)
    request = OutputRequest(stack if isinstance(stack, str) else stack.name, name, source)
    scope.asked.setdefault(request)
    if request.stack == scope.stack:
        raise ConfigurationError(f"stack {request.stack!r} reads an export of itself", source=source, field="output")
    exports = scope.outputs.get(request.stack)
    if exports is None or name not in exports:
        raise MissingOutputError(request, hint=suggestion(name, exports or ()))
    value = exports[name]
    if not isinstance(value, kind):
        raise ConfigurationError(
            f"export {name!r} of stack {request.stack!r} is {type(value).__name__}, not {kind.__name__}",
            hint=f"fleet.output({request.stack!r}, {name!r}, {type(value).__name__})",
            source=source,
            field="output",
        )
    return value


def _require_scope(verb: str, source: Source) -> StackScope:
    scope = current_scope()
    if scope is None:
        raise ConfigurationError(
            f"fleet.{verb} is called outside a stack",
            hint="call it inside a function decorated with @fleet.stack(…)",
            source=source,
        )
    return scope
