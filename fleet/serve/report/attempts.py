"""Which previews were begun and never came to their end, in a file beside the mirror.

A preview that needs more than it may is not tried again for the same commit. What ends the whole service, or what the
service is ended for, must not be the first thing that the next one does: so an attempt is written down before it
begins. A file that cannot be read or written remembers nothing, and then a restart costs one attempt more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Set
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

MOST = 2  # attempts that may end with the service
ENDED = "the service ended {} times while it was made"


@dataclass(frozen=True, slots=True)
class Attempt:
    head: str
    live: bool
    begun: int = 0
    reason: str = ""  # why it is not tried again


@dataclass(slots=True)
class Attempts:
    """Of one repository, by the number of the pull request."""

    file: Path | None = None
    _known: dict[int, Attempt] = field(default_factory=dict)

    @classmethod
    def beside(cls, mirror: Path) -> Attempts:
        """Return what the file beside a mirror says."""
        made = cls(mirror.with_suffix(".previews.json"))
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            assert made.file  # noqa: S101 - it was just given
            data = orjson.loads(made.file.read_bytes())
            made._known = {int(number): Attempt(**one) for number, one in data.items()}
        return made

    def reason(self, number: int, head: str, *, live: bool) -> str:
        """Return why a preview of this commit, as deep as this, is not to be tried; "" if it is."""
        known = self._known.get(number)
        if known is None or (known.head, known.live) != (head, live):
            return ""
        return known.reason or (ENDED.format(known.begun) if known.begun >= MOST else "")

    def begin(self, number: int, head: str, *, live: bool) -> None:
        known = self._known.get(number)
        same = known is not None and (known.head, known.live) == (head, live)
        self._put(number, Attempt(head, live, known.begun + 1 if known and same else 1))

    def give_up(self, number: int, head: str, reason: str, *, live: bool) -> None:
        """It came to no end, and would not another time."""
        self._put(number, Attempt(head, live, reason=reason))

    def forget(self, number: int) -> None:
        """It came to its end, or the pull request is closed."""
        if self._known.pop(number, None) is not None:
            self._write()

    def only(self, numbers: Set[int]) -> None:
        """The others are closed."""
        gone = self._known.keys() - numbers
        for number in gone:
            del self._known[number]
        if gone:
            self._write()

    def _put(self, number: int, attempt: Attempt) -> None:
        self._known[number] = attempt
        self._write()

    def _write(self) -> None:
        if self.file is None:
            return
        draft = self.file.with_suffix(".draft")
        with contextlib.suppress(OSError):
            draft.write_bytes(orjson.dumps({str(number): asdict(one) for number, one in self._known.items()}))
            draft.replace(self.file)
