"""Values that a stack gives to others: `export` in the one, `output` in the other, which then depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic_core import PydanticCustomError

from fleet.errors import ConfigurationError, Source
from fleet.model.plain import check_plain
from fleet.model.scope import Asked, Scope, current
from fleet.model.source import locate
from fleet.model.types.name import check_export_name
from fleet.suggestion import suggestion

if TYPE_CHECKING:
    from fleet.model.stack import Stack

T = TypeVar("T")


class MissingOutputError(ConfigurationError):
    """A stack asked for an export that is not known (yet). `asked` says which, for that stack to be evaluated first."""

    def __init__(self, asked: Asked, *, hint: str | None) -> None:
        super().__init__(
            f"stack {asked.stack!r} has no export {asked.name!r}", hint=hint, source=asked.source, field="output"
        )
        self.asked = asked


def export(name: str, value: Any) -> None:
    """Give a plain value to other stacks (`fleet.output`). Never a secret: it is in plans and files."""
    source = locate()
    scope = _open("export", source)
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
    """The value that another stack exports on this cluster. This stack is then applied after that one.

    The value is a string unless another type is asked for: `fleet.output("network", "port", int)`.
    """
    source = locate()
    scope = _open("output", source)
    asked = Asked(stack if isinstance(stack, str) else stack.name, name, source)
    scope.asked.setdefault(asked)
    if asked.stack == scope.stack:
        raise ConfigurationError(f"stack {asked.stack!r} reads an export of itself", source=source, field="output")
    exports = scope.outputs.get(asked.stack)
    if exports is None or name not in exports:
        raise MissingOutputError(asked, hint=suggestion(name, exports or ()))
    value = exports[name]
    if not isinstance(value, kind):
        raise ConfigurationError(
            f"export {name!r} of stack {asked.stack!r} is {type(value).__name__}, not {kind.__name__}",
            hint=f"fleet.output({asked.stack!r}, {name!r}, {type(value).__name__})",
            source=source,
            field="output",
        )
    return value


def _open(verb: str, source: Source) -> Scope:
    scope = current()
    if scope is None:
        raise ConfigurationError(
            f"fleet.{verb} is called outside a stack",
            hint="call it inside a function decorated with @fleet.stack(…)",
            source=source,
        )
    return scope
