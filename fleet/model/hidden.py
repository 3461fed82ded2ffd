"""Secret values, to be taken out of text that others wrote: what a server says about a request, a pod's last words.

Fields are hidden by `secrecy`; but a refusal may quote the value that it refuses. So whatever text comes back is
searched for the values that were sent or read. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from fleet.errors import FleetError
from fleet.model.secrecy import BUILT_IN, LAST_APPLIED, REDACTED, Secrecy, secret_texts
from fleet.printable import count_noun

FEWEST = 4  # letters; a shorter value is taken out only where it stands in quotes: it is a part of too many words
LONG = 8  # letters by which a value of at least so many is looked up; a shorter one is by FEWEST
LINE = 8  # letters of a line of a longer value that are enough to know it by
COMMON = frozenset({"true", "false", "null", "none"})
# Of quotes; Go prints what it did not expect as Value:5432 or (5432).
OPENING, CLOSING = frozenset("\"'`:("), frozenset("\"'`,})]")
MOST_TRIES, TRIES = 50_000, 4  # comparisons with a value: for any text, and for each letter of it


class _TooLongError(Exception):
    pass


class Hidden:
    """Values that no text may show. Empty, it costs nothing."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(filter(None, values))
        self._quoted = frozenset(one for one in self._values if len(one) < FEWEST or one.lower() in COMMON)
        self._lengths = sorted({len(one) for one in self._quoted}, reverse=True)
        self._by_beginning: dict[str, list[str]] = {}  # the longest first
        for value in sorted(self._values - self._quoted, key=lambda one: (-len(one), one)):
            self._by_beginning.setdefault(value[: LONG if len(value) >= LONG else FEWEST], []).append(value)

    @classmethod
    def of(
        cls, manifests: Iterable[Mapping[str, Any]], secrecy: Secrecy = BUILT_IN, *, public: Collection[str] = ()
    ) -> Hidden:
        """The secret values of these objects, in every form in which a message may have them.

        `public` are words that everybody sees anyway (names of stacks, clusters, objects): a user name in a Secret is
        often one of them, and taking it out would leave no message readable.
        """
        values = {value for manifest in manifests for value in _of(manifest, secrecy)}
        return cls(form for value in values.difference(public) for form in _forms(value))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __or__(self, other: Hidden) -> Hidden:
        return Hidden(self._values | other._values) if other else self

    def __repr__(self) -> str:
        return f"Hidden({count_noun(len(self._values), 'value')})"

    def clean(self, text: str) -> str:
        """Return the text without the values; of one that takes too long to search, nothing."""
        if not self or not text:
            return text
        parts: list[str] = []
        kept = 0
        try:
            for begin, end in self._spans(text):
                parts += [text[kept:begin], REDACTED]
                kept = end
        except _TooLongError:
            return REDACTED
        return "".join([*parts, text[kept:]])

    def first(self, text: str) -> int:
        """Return where the first value begins in a text, -1 if none does. One that takes too long to search has one."""
        try:
            return next((begin for begin, _ in self._spans(text)), -1)
        except _TooLongError:
            return 0

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where values begin and end: of those that begin at one place, the longest.

        Others may have written both the values and the text: how many are compared is bounded. Raises _TooLongError.
        """
        kept, tries, enough = 0, 0, MOST_TRIES + TRIES * len(text)
        for place in self._places(text):
            if place < kept:
                continue
            for value in self._beginning_at(text, place):
                tries += 1 + len(value) // 256
                if text.startswith(value, place):
                    kept = place + len(value)
                    yield place, kept
                    break
            else:
                if end := self._end_of_quoted(text, place):
                    kept = end
                    yield place + 1, end - 1
            if tries > enough:
                raise _TooLongError

    def _places(self, text: str) -> Iterator[int]:
        """Yield where a value may begin: of most letters of a text, one look in a table tells that none does."""
        known, opening = self._by_beginning, OPENING if self._quoted else frozenset[str]()
        for place in range(len(text)):
            if (
                text[place : place + LONG] in known
                or text[place : place + FEWEST] in known
                or (opening and text[place] in opening)
            ):
                yield place

    def _beginning_at(self, text: str, place: int) -> Iterator[str]:
        yield from self._by_beginning.get(text[place : place + LONG], ())
        yield from self._by_beginning.get(text[place : place + FEWEST], ())

    def _end_of_quoted(self, text: str, place: int) -> int:
        """Return the place after a value that stands in quotes here; 0 if none does."""
        if text[place] not in OPENING:
            return 0
        for length in self._lengths:
            end = place + 1 + length
            if text[end : end + 1] in CLOSING and text[place + 1 : end] in self._quoted:
                return end + 1
        return 0

    def clean_error(self, problem: FleetError) -> None:
        """Every text of an error, where it stands."""
        problem.message = self.clean(problem.message)
        problem.hint = self.clean(problem.hint) if problem.hint else problem.hint
        problem.field = self.clean(problem.field) if problem.field else problem.field
        problem.args = (problem.message,)


def _of(manifest: Mapping[str, Any], secrecy: Secrecy) -> Iterator[str]:
    for trail, text in secret_texts(manifest, secrecy):
        plain = _decoded(text) if trail[:1] == ("data",) else ""
        yield plain or text
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    copy = annotations.get(LAST_APPLIED) if isinstance(annotations, Mapping) else None
    if isinstance(copy, str) and next(secret_texts(manifest, secrecy), None) is not None:
        try:
            former = orjson.loads(copy)
        except orjson.JSONDecodeError:
            return
        if isinstance(former, dict):
            yield from _of({**former, "metadata": {}}, secrecy)


def _forms(text: str) -> Iterator[str]:
    """As it is, as base64, and as programs quote it; of several lines, each by itself too."""
    stripped = text.strip()
    for one in dict.fromkeys((text, stripped)):
        if one:
            yield one
            yield base64.b64encode(one.encode(errors="surrogateescape")).decode()
            yield orjson.dumps(one.encode(errors="replace").decode()).decode()[1:-1]
            yield quote(one, safe="", errors="replace")
            yield repr(one)[1:-1]
    lines = stripped.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= LINE)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
