"""Secret values, to be taken out of text that others wrote: what a server says about a request, a pod's last words.

Fields are hidden by `secrecy`; but a refusal may quote the value that it refuses. So whatever text comes back is
searched for the values that were sent or read. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from fleet.errors import FleetError
from fleet.model.secrecy import BUILT_IN, LAST_APPLIED, REDACTED, Secrecy, secret_texts
from fleet.printable import count_noun

FEWEST = 4  # letters; a shorter value is taken out only where it stands in quotes: it is a part of too many words
LINE = 8  # letters of a line of a longer value that are enough to know it by
COMMON = frozenset({"true", "false", "null", "none"})


class Hidden:
    """Values that no text may show. Empty, it costs nothing."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(values)
        self._pattern = _pattern(self._values) if self._values else None

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
        return self._pattern is not None

    def __or__(self, other: Hidden) -> Hidden:
        return Hidden(self._values | other._values) if other else self

    def __repr__(self) -> str:
        return f"Hidden({count_noun(len(self._values), 'value')})"

    def clean(self, text: str) -> str:
        return self._pattern.sub(_replaced, text) if self._pattern and text else text

    def clean_error(self, problem: FleetError) -> None:
        """Every text of an error, where it stands."""
        problem.message = self.clean(problem.message)
        problem.hint = self.clean(problem.hint) if problem.hint else problem.hint
        problem.field = self.clean(problem.field) if problem.field else problem.field
        problem.args = (problem.message,)


def _replaced(match: re.Match[str]) -> str:
    quoted = match["quoted"]
    return f"{quoted[0]}{REDACTED}{quoted[-1]}" if quoted else REDACTED


def _pattern(values: frozenset[str]) -> re.Pattern[str] | None:
    known = [value for value in sorted(values, key=lambda one: (-len(one), one)) if value]
    anywhere = [re.escape(value) for value in known if len(value) >= FEWEST and value.lower() not in COMMON]
    quoted = [re.escape(value) for value in known if len(value) < FEWEST or value.lower() in COMMON]
    # Go prints what it did not expect as Value:5432 or (5432).
    short = rf"""(?P<quoted>["'`:(](?:{"|".join(quoted) or "(?!)"})["'`,}})\]])"""
    return re.compile("|".join([*anywhere, short]))


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
