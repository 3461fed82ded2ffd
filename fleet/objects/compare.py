"""Comparison of a desired object with the live one, field by field, looking only at fields that are ours or are to
become ours. Pure.

The list types (set, keyed, atomic) are read from our own entry in managedFields, so no schema is needed. Two questions
have two answers: does the object differ from the file (`lenient`: what the server added inside values that we own as a
whole is its own default), and, where the file has changed since it was last applied, could something have been taken
out of such a value (`strict`)?

Two values may be the same to the API server although not to the letter. Built-in types go through typed structs:
quantities come back in their shortest form ("1000m" is written back as "1") and fields with a zero value do not come
back at all. Custom resources come back as they were sent, so there only their metadata is treated so.

No value of a secret field leaves this module: a change is redacted where it is noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from fleet.objects import fields
from fleet.objects.desired import Key
from fleet.objects.fields import Fields, owned_field, parse_item_keys, parse_set_value
from fleet.objects.redaction import REDACTED, Trail, is_secret_field, redact_value


class Change(NamedTuple):
    """One field that differs; None stands for a field that does not exist. Secret values are redacted already."""

    path: str
    before: Any
    after: Any


SUFFIXES = {
    **{suffix: Decimal(1).scaleb(3 * power) for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
QUANTITY_FORM = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)$")


def parse_quantity(text: str) -> Decimal | None:
    """Return the number that a quantity stands for; None if the text is no quantity."""
    match = QUANTITY_FORM.match(text)
    if not match:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * SUFFIXES[suffix or ""]


def is_same_amount(left: object, right: object) -> bool:
    """Return whether two values are quantities of the same amount, whatever their form."""
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    left_amount, right_amount = parse_quantity(str(left)), parse_quantity(str(right))
    return left_amount is not None and left_amount == right_amount


ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT", "__bool__": lambda self: False})()

# Maps whose values are the user's words: every letter counts, the empty string included.
VERBATIM = frozenset({"annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector", "parameters"})
QUANTITY_MAPS = frozenset({"capacity", "hard", "limits", "podFixed", "requests"})
QUANTITIES = frozenset({"averageValue", "divisor", "sizeLimit"})
LIMIT_RANGE_MAPS = frozenset({"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"})
INT_OR_STRING = frozenset({"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"})


def is_builtin(key: Key) -> bool:
    """Return whether the API server has a Go type for the object. A wrong yes costs leniency about zeros, never an
    endless update.
    """
    return "." not in key.group or key.group.endswith(".k8s.io")


def is_same_value(want: Any, have: Any, trail: tuple[str, ...], key: Key) -> bool:
    """Return whether two scalars at the end of `trail` (keys of maps only) are the same to the API server."""
    if want == have and isinstance(want, bool) == isinstance(have, bool):
        return True
    if not _is_typed(trail, key) or _is_verbatim(trail):
        return False
    name = trail[-1] if trail else ""
    if name in INT_OR_STRING and {type(want), type(have)} == {int, str}:
        return str(want) == str(have)
    return _is_quantity(trail, key) and is_same_amount(want, have)


def is_same_as_absent(want: Any, trail: tuple[str, ...], key: Key) -> bool:
    """Return whether the API server leaves this value out: the zero of a typed field."""
    if not _is_typed(trail, key) or (_is_verbatim(trail) and not isinstance(want, dict)):
        return False
    if isinstance(want, dict | list):
        return not want
    return want in ("", 0) or want is False


def _is_typed(trail: tuple[str, ...], key: Key) -> bool:
    return is_builtin(key) or trail[:1] == ("metadata",)


def _is_verbatim(trail: tuple[str, ...]) -> bool:
    return len(trail) > 1 and trail[-2] in VERBATIM


def _is_quantity(trail: tuple[str, ...], key: Key) -> bool:
    if trail[-1] in QUANTITIES or (len(trail) > 1 and trail[-2] in QUANTITY_MAPS):
        return True
    if key.kind == "LimitRange":
        return len(trail) > 1 and trail[-2] in LIMIT_RANGE_MAPS
    return key.kind == "HorizontalPodAutoscaler" and trail[-1] == "value"


IDENTITY = frozenset({"apiVersion", "kind"})
SCALARS = frozenset({str, int, bool})
IDENTITY_METADATA = frozenset({"name", "namespace"})


def compare(
    desired: dict[str, Any],
    live: dict[str, Any],
    owned: Fields | None,
    *,
    key: Key,
    strict: bool = False,
    secret: tuple[Trail, ...] = (),
) -> tuple[Change, ...]:
    """Return the fields whose live value is not the desired one, or that fleet put there and git no longer wants."""
    comparison = _Comparison(key, strict, secret)
    for name, value in desired.items():
        if name != "metadata" and name not in IDENTITY:
            comparison.compare_value(value, live.get(name, ABSENT), owned_field(owned, name), (name,), name)
    metadata = {name: value for name, value in desired["metadata"].items() if name not in IDENTITY_METADATA}
    comparison.compare_map(
        metadata, live.get("metadata", {}), owned_field(owned, "metadata"), ("metadata",), "metadata"
    )
    for token, below in (owned or {}).items():
        name = token[2:]
        if token.startswith("f:") and name not in desired and name in live and name not in IDENTITY:
            comparison.note_removed(live[name], below, (name,), name)
    return tuple(sorted(comparison.changes, key=lambda change: change.path))


@dataclass(slots=True)
class _Comparison:
    """Changes found so far between one desired object and the live one."""

    key: Key
    strict: bool
    secret: tuple[Trail, ...] = ()
    changes: list[Change] = field(default_factory=list)

    def note(self, trail: Trail, path: str, before: Any, after: Any) -> None:
        """Add a change. Nothing else does, so no change holds a secret value."""
        secret = self.secret
        self.changes.append(Change(path, redact_value(before, trail, secret), redact_value(after, trail, secret)))

    def compare_value(
        self, want: Any, have: Any, owned: Fields | None, trail: tuple[str, ...], path: str, *, whole: bool = False
    ) -> None:
        """Compare two values. `whole`: inside a value that is owned as one, where managedFields says nothing more."""
        if isinstance(want, dict) and (isinstance(have, dict) or have is ABSENT):
            atomic = whole or (owned == {} and bool(want))
            before = len(self.changes)
            self.compare_map(want, {} if have is ABSENT else have, None if atomic else owned, trail, path, whole=atomic)
            if have is ABSENT and (
                len(self.changes) > before or not (want or is_same_as_absent(want, trail, self.key))
            ):
                del self.changes[before:]
                self.note(trail, path, None, want)
        elif have is ABSENT:
            if not is_same_as_absent(want, trail, self.key):
                self.note(trail, path, None, want)
        elif isinstance(want, list) and isinstance(have, list):
            self.compare_list(want, have, None if whole else owned, trail, path, whole=whole)
        elif not is_same_value(want, have, trail, self.key):
            self.note(trail, path, have, want)

    def compare_map(
        self,
        want: dict[str, Any],
        have: dict[str, Any],
        owned: Fields | None,
        trail: tuple[str, ...],
        path: str,
        *,
        whole: bool = False,
    ) -> None:
        for name, value in want.items():
            other = have.get(name, ABSENT)
            if type(value) in SCALARS and type(other) is type(value) and other == value:
                continue  # most fields of most objects, in every sync
            below = owned_field(owned, name)
            self.compare_value(value, other, below, (*trail, name), fields.child_path(path, name), whole=whole)
        if whole and self.strict:
            for name in have.keys() - want.keys():
                self.note((*trail, name), fields.child_path(path, name), have[name], None)
        if not owned:
            return
        for token, below in owned.items():
            name = token[2:]
            if name not in want and name in have and token.startswith("f:"):
                self.note_removed(have[name], below, (*trail, name), fields.child_path(path, name))

    def compare_list(
        self,
        want: list[Any],
        have: list[Any],
        owned: Fields | None,
        trail: tuple[str, ...],
        path: str,
        *,
        whole: bool = False,
    ) -> None:
        tokens = tuple(owned or ())
        if any(token.startswith("k:") for token in tokens):
            self.compare_keyed(want, have, owned or {}, trail, path)
        elif any(token.startswith("v:") for token in tokens):
            self.compare_set(want, have, owned or {}, trail, path)
        elif len(want) != len(have):
            self.note(trail, path, have, want)
        else:
            # A list that is not ours yet may be of any type: compared by position, and ours after the first update.
            atomic = whole or owned == {}
            for position, (item, live_item) in enumerate(zip(want, have, strict=True)):
                self.compare_value(item, live_item, None, trail, f"{path}[{position}]", whole=atomic)

    def compare_set(self, want: list[Any], have: list[Any], owned: Fields, trail: tuple[str, ...], path: str) -> None:
        for value in want:
            if not any(is_same_value(value, other, trail, self.key) for other in have):
                self.note(trail, f"{path}[{redact_value(value, trail, self.secret)}]", None, value)
        for value in (parse_set_value(token) for token in owned if token.startswith("v:")):
            if value in have and not any(is_same_value(value, other, trail, self.key) for other in want):
                self.note(trail, f"{path}[{redact_value(value, trail, self.secret)}]", value, None)

    def compare_keyed(self, want: list[Any], have: list[Any], owned: Fields, trail: tuple[str, ...], path: str) -> None:
        ours = [(parse_item_keys(token), below) for token, below in owned.items() if token.startswith("k:")]
        names = tuple(ours[0][0])
        positions: list[int] = []
        for item in want:
            position = _find_item(item, have, names, [keys for keys, _ in ours], positions)
            if position is None:
                self.note(trail, self.item(trail, path, _select_keys(item, names)), None, item)
                continue
            positions.append(position)
            keys = _select_keys(have[position], names)
            below = next((owned_item for item_keys, owned_item in ours if item_keys == keys), None)
            self.compare_value(item, have[position], below, trail, self.item(trail, path, keys))
        if positions != sorted(positions):
            before = [_select_keys(have[position], names) for position in sorted(positions)]
            self.note(trail, path, before, [_select_keys(have[position], names) for position in positions])
        for keys, below in ours:
            position_of_removed = next(
                (index for index, item in enumerate(have) if _select_keys(item, names) == keys), None
            )
            if position_of_removed is not None and position_of_removed not in positions:
                self.note_removed(
                    have[position_of_removed], below, trail, self.item(trail, path, keys), skip=frozenset(names)
                )

    def item(self, trail: Trail, path: str, keys: dict[str, Any]) -> str:
        """Return the path of an item of a list; the values of its keys may be secret themselves."""
        shown_keys = {
            name: REDACTED if is_secret_field((*trail, name), self.secret) else value for name, value in keys.items()
        }
        return fields.item_path(path, shown_keys)

    def note_removed(
        self, have: Any, owned: Fields, trail: Trail, path: str, *, skip: frozenset[str] = frozenset()
    ) -> None:
        """Note that a field of ours is no longer wanted: as one change if all of it was ours, else by what was."""
        children = {token[2:]: below for token, below in owned.items() if token.startswith("f:")}
        if not isinstance(have, dict) or not children or have.keys() <= children.keys():
            self.note(trail, path, have, None)
            return
        if "." in owned and skip:
            self.note(trail, path, have, None)
            return
        for name, below in children.items():
            if name in have and name not in skip:
                self.note_removed(have[name], below, (*trail, name), fields.child_path(path, name))


def _select_keys(item: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item} if isinstance(item, dict) else {}


def _find_item(
    item: Any, have: list[Any], names: tuple[str, ...], ours: list[dict[str, Any]], matched_positions: list[int]
) -> int | None:
    """Return the position of the live item that a desired one means, None if there is none. Where a key was left to the
    server's default, it is the item of ours.
    """
    keys = _select_keys(item, names)
    candidates = [
        index
        for index, other in enumerate(have)
        if index not in matched_positions
        and isinstance(other, dict)
        and all(other.get(name) == keys[name] for name in keys)
    ]
    return next(
        (index for index in candidates if _select_keys(have[index], names) in ours),
        candidates[0] if candidates else None,
    )
