"""Acts on requests, as data: what a proxy can do to a request and its response.

    the request      Delay  Answer  Break           before the server gets it
    the client       Kill                           before the server gets it, or once the server has carried it out
    the response     Lose  Cut  Freeze              the server has carried the request out
    a watch          Cut  Freeze  DropEvents  DelayEvents  Expire
    a list           EmptyList
    Leases           SkewLeases

A response is cut or frozen after so many whole events of a watch and so many bytes more, its head not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fleet.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_STRICT = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Delay:
    """A request that is passed on so many seconds later."""

    __pydantic_config__ = _STRICT

    seconds: float
    kind: Literal["delay"] = "delay"


@dataclass(frozen=True, slots=True)
class Answer:
    """An error in place of the server's response; the server does not get the request."""

    __pydantic_config__ = _STRICT

    status: int
    message: str = ""
    retry_after: int | None = None  # seconds
    kind: Literal["answer"] = "answer"

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigurationError(f"{self.status} is not the status of an error", hint="400 to 599")


@dataclass(frozen=True, slots=True)
class Break:
    """A connection that breaks before the server gets the request."""

    __pydantic_config__ = _STRICT

    kind: Literal["break"] = "break"


@dataclass(frozen=True, slots=True)
class Lose:
    """A lost response: the server carries the request out, and the connection breaks before any of it is through."""

    __pydantic_config__ = _STRICT

    kind: Literal["lose"] = "lose"


@dataclass(frozen=True, slots=True)
class Kill:
    """A SIGKILL for the client's process, `before` the server gets the request, or once it is carried out."""

    __pydantic_config__ = _STRICT

    before: bool = False
    kind: Literal["kill"] = "kill"


@dataclass(frozen=True, slots=True)
class Cut:
    """A connection that breaks in the middle of the response."""

    __pydantic_config__ = _STRICT

    after_bytes: int = 0
    after_events: int = 0
    kind: Literal["cut"] = "cut"


@dataclass(frozen=True, slots=True)
class Freeze:
    """A response that stops while the connection stays open. It goes on when the proxy gets another plan."""

    __pydantic_config__ = _STRICT

    after_bytes: int = 0
    after_events: int = 0
    kind: Literal["freeze"] = "freeze"


@dataclass(frozen=True, slots=True)
class DropEvents:
    """Lost events of a watch: the `nth`, or each `every`-th, or all."""

    __pydantic_config__ = _STRICT

    nth: int = 0
    every: int = 1
    kind: Literal["drop-events"] = "drop-events"

    def drops(self, number: int) -> bool:
        """Return whether the event of this number, counted from 1, is lost."""
        return number == self.nth if self.nth else number % self.every == 0


@dataclass(frozen=True, slots=True)
class DelayEvents:
    """Late events of a watch: each comes so many seconds later, and so do those behind it."""

    __pydantic_config__ = _STRICT

    seconds: float
    kind: Literal["delay-events"] = "delay-events"


@dataclass(frozen=True, slots=True)
class Expire:
    """A watch that ends after so many events with 410 in its stream, as of a server that has forgotten the past."""

    __pydantic_config__ = _STRICT

    after_events: int = 0
    kind: Literal["expire"] = "expire"


@dataclass(frozen=True, slots=True)
class SkewLeases:
    """Shifted times in Leases. A time that a client sends back as it saw it is stored as it was."""

    __pydantic_config__ = _STRICT

    seconds: float
    kind: Literal["skew-leases"] = "skew-leases"


@dataclass(frozen=True, slots=True)
class EmptyList:
    """A list without items, as from a cache that has not been filled yet."""

    __pydantic_config__ = _STRICT

    kind: Literal["empty-list"] = "empty-list"


class _ByKind:
    """A pydantic discriminator: in JSON, `kind` says which act it is.

    Pydantic is slow to load, and plans written in Python do without it.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic import Discriminator  # noqa: PLC0415

        return Discriminator("kind").__get_pydantic_core_schema__(source, handler)


OnAnswer = Cut | Freeze | DropEvents | DelayEvents | Expire
Act = Annotated[Delay | Answer | Break | Lose | Kill | OnAnswer | SkewLeases | EmptyList, _ByKind()]
