"""Settings that every app has: what its members may use, where their data lies, how they are encrypted."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from fleet.model.base import Model
from fleet.model.invalid import wrong
from fleet.model.rule import IMMUTABLE, STORED, Rule
from fleet.model.types import Duration, ObjectName, Quantity
from fleet.model.types.quantity import amount
from fleet.span import seconds

SHORTEST_LIFE, LONGEST_LIFE = 4 * 60, 3650 * 86_400  # seconds; a renewed file takes a minute to reach a pod
_SECONDS = " + ".join(
    f"(self.find('[0-9]+{unit}') == '' ? 0 : int(self.find('[0-9]+{unit}').replace('{unit}', '')) * {length})"
    for unit, length in (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
)
_LIFE = "must be between four minutes and ten years"
LIFE = Rule(
    cel=f"size(self) <= 12 && {_SECONDS} >= {SHORTEST_LIFE} && {_SECONDS} <= {LONGEST_LIFE}",
    message=_LIFE,
)


def _check_life(text: str, info: ValidationInfo) -> str:
    """One that a cluster has already is older than these bounds; the operator keeps to them in any case."""
    if not (info.context or {}).get(STORED) and not SHORTEST_LIFE <= seconds(text) <= LONGEST_LIFE:
        raise wrong(
            f"{_LIFE}, not {text!r}", "90d is the usual choice: certificates are renewed after two thirds of it"
        )
    return text


def _within(limit: str | None, request: str) -> bool:
    return limit is None or amount(limit) >= amount(request)


class Resources(Model, frozen=True):
    """CPU and memory of each member."""

    cpu: Quantity = "250m"
    """CPU that is set aside for each member."""
    memory: Quantity = "512Mi"
    """Memory that is set aside for each member."""
    cpu_limit: Quantity | None = None
    """The most CPU that a member may use; no limit unless given."""
    memory_limit: Quantity | None = None
    """The most memory that a member may use; what is set aside unless given."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.cpuLimit) || quantity(self.cpuLimit).compareTo(quantity(self.cpu)) >= 0",
            message="the limit of CPU is less than what is set aside",
            holds=lambda self: _within(self.cpu_limit, self.cpu),
            field="cpu_limit",
        ),
        Rule(
            cel="!has(self.memoryLimit) || quantity(self.memoryLimit).compareTo(quantity(self.memory)) >= 0",
            message="the limit of memory is less than what is set aside",
            holds=lambda self: _within(self.memory_limit, self.memory),
            field="memory_limit",
        ),
    )


class Volume(Model, frozen=True):
    """How the members' volumes are made and what becomes of them."""

    storage_class: Annotated[ObjectName | None, IMMUTABLE] = None
    """The StorageClass; the cluster's default unless given."""
    on_delete: Literal["keep", "delete"] = "keep"
    """What becomes of the data when the app is removed from git."""
    on_scale_in: Literal["keep", "delete"] = "delete"
    """What becomes of a member's volume when the member has left for good."""


class TLS(Model, frozen=True):
    """Encryption between clients and members and between members."""

    enabled: bool = True
    """Encrypt, and let only clients in that have a certificate of the app's own CA, which the operator makes.
    It cannot be changed once the app exists, but can be turned on for members that were taken over without it."""
    lifetime: Annotated[Duration, AfterValidator(_check_life), LIFE] = "90d"
    """How long certificates are valid; they are renewed after two thirds of it."""
    authority: Annotated[str, Field(max_length=63)] = ""
    """Any word. Another one makes a new CA: members restart once to trust it, then certificates move to it."""
