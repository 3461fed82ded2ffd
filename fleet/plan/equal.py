"""Whether two values are the same to the API server, although not to the letter.

Built-in types go through typed structs: quantities come back in their shortest form and fields with a zero value do
not come back at all. Custom resources come back as they were sent, so there only their metadata is treated so.
"""

from __future__ import annotations

from typing import Any

from fleet.model.desired import Key
from fleet.plan.quantity import same_amount

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT", "__bool__": lambda self: False})()

# Maps whose values are the user's words: every letter counts, the empty string included.
VERBATIM = frozenset({"annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector", "parameters"})
QUANTITY_MAPS = frozenset({"capacity", "hard", "limits", "podFixed", "requests"})
QUANTITIES = frozenset({"averageValue", "divisor", "sizeLimit"})
OF_LIMIT_RANGE = frozenset({"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"})
INT_OR_STRING = frozenset({"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"})


def is_builtin(key: Key) -> bool:
    """Whether the server has a Go type for it. A wrong yes costs leniency about zeros, never an endless update."""
    return "." not in key.group or key.group.endswith(".k8s.io")


def same(want: Any, have: Any, trail: tuple[str, ...], key: Key) -> bool:
    """Compare two scalars at the end of `trail` (keys of maps only)."""
    if want == have and isinstance(want, bool) == isinstance(have, bool):
        return True
    if not _typed(trail, key) or _verbatim(trail):
        return False
    name = trail[-1] if trail else ""
    if name in INT_OR_STRING and {type(want), type(have)} == {int, str}:
        return str(want) == str(have)
    return _is_quantity(trail, key) and same_amount(want, have)


def same_as_absent(want: Any, trail: tuple[str, ...], key: Key) -> bool:
    """Whether the server leaves this value out: the zero of a typed field."""
    if not _typed(trail, key) or (_verbatim(trail) and not isinstance(want, dict)):
        return False
    if isinstance(want, dict | list):
        return not want
    return want in ("", 0) or want is False


def _typed(trail: tuple[str, ...], key: Key) -> bool:
    return is_builtin(key) or trail[:1] == ("metadata",)


def _verbatim(trail: tuple[str, ...]) -> bool:
    return len(trail) > 1 and trail[-2] in VERBATIM


def _is_quantity(trail: tuple[str, ...], key: Key) -> bool:
    if trail[-1] in QUANTITIES or (len(trail) > 1 and trail[-2] in QUANTITY_MAPS):
        return True
    if key.kind == "LimitRange":
        return len(trail) > 1 and trail[-2] in OF_LIMIT_RANGE
    return key.kind == "HorizontalPodAutoscaler" and trail[-1] == "value"
