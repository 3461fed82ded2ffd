"""Quantities as Kubernetes reads them: "1000m" and "1" are the same amount, and the server writes back the shorter."""

from __future__ import annotations

import re
from decimal import Decimal

SUFFIXES = {
    **{suffix: Decimal(1).scaleb(3 * power) for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
FORM = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)$")


def amount(text: str) -> Decimal | None:
    """The number that a quantity stands for; None if it is not one."""
    match = FORM.match(text)
    if not match:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * SUFFIXES[suffix or ""]


def same_amount(one: object, two: object) -> bool:
    if isinstance(one, bool) or isinstance(two, bool):
        return False
    first, second = amount(str(one)), amount(str(two))
    return first is not None and first == second
