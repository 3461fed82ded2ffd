"""What can be done to a request, as data.

    the request      Delay  Answer  Break           before the server hears of it
    the client       Kill                           before the server hears of it, or once it has done it
    the answer       Lose  Cut  Freeze              the server has done it
    a watch          Cut  Freeze  DropEvents  DelayEvents  Expire
    a list           EmptyList
    Leases           SkewLeases

An answer is cut or frozen after so many whole events of a watch and so many bytes more, its head not counted.
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
    """Passed on so many seconds later."""

    __pydantic_config__ = _STRICT

    seconds: float
    kind: Literal["delay"] = "delay"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answered in place of the server, which does not hear of it."""

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
    """The connection breaks before the server hears of the request."""

    __pydantic_config__ = _STRICT

    kind: Literal["break"] = "break"


@dataclass(frozen=True, slots=True)
class Lose:
    """The server does what was asked, and the connection breaks before any of its answer is through."""

    __pydantic_config__ = _STRICT

    kind: Literal["lose"] = "lose"


@dataclass(frozen=True, slots=True)
class Kill:
    """The client's process gets SIGKILL: `before` the server hears of it, or once it is done and nobody knows."""

    __pydantic_config__ = _STRICT

    before: bool = False
    kind: Literal["kill"] = "kill"


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks in the middle of the answer."""

    __pydantic_config__ = _STRICT

    after_bytes: int = 0
    after_events: int = 0
    kind: Literal["cut"] = "cut"


@dataclass(frozen=True, slots=True)
class Freeze:
    """The answer stops there, and the connection stays open. It goes on when the proxy gets another plan."""

    __pydantic_config__ = _STRICT

    after_bytes: int = 0
    after_events: int = 0
    kind: Literal["freeze"] = "freeze"


@dataclass(frozen=True, slots=True)
class DropEvents:
    """Events of a watch do not come through: the `nth`, or each `every`-th, or all."""

    __pydantic_config__ = _STRICT

    nth: int = 0
    every: int = 1
    kind: Literal["drop-events"] = "drop-events"

    def drops(self, number: int) -> bool:
        return number == self.nth if self.nth else number % self.every == 0


@dataclass(frozen=True, slots=True)
class DelayEvents:
    """Each event of a watch comes so many seconds late, those behind it too."""

    __pydantic_config__ = _STRICT

    seconds: float
    kind: Literal["delay-events"] = "delay-events"


@dataclass(frozen=True, slots=True)
class Expire:
    """After so many events, a watch says 410 in its stream, as a server does that has forgotten the past; and ends."""

    __pydantic_config__ = _STRICT

    after_events: int = 0
    kind: Literal["expire"] = "expire"


@dataclass(frozen=True, slots=True)
class SkewLeases:
    """Times in Leases are seen shifted. What a client sends back as it saw it is stored as it was."""

    __pydantic_config__ = _STRICT

    seconds: float
    kind: Literal["skew-leases"] = "skew-leases"


@dataclass(frozen=True, slots=True)
class EmptyList:
    """A list comes with nothing in it, as from a cache that has not been filled yet."""

    __pydantic_config__ = _STRICT

    kind: Literal["empty-list"] = "empty-list"


class _ByKind:
    """In JSON, `kind` says which act it is. Pydantic is slow to load, and plans written in Python do without it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic import Discriminator  # noqa: PLC0415

        return Discriminator("kind").__get_pydantic_core_schema__(source, handler)


OnAnswer = Cut | Freeze | DropEvents | DelayEvents | Expire
Act = Annotated[Delay | Answer | Break | Lose | Kill | OnAnswer | SkewLeases | EmptyList, _ByKind()]
