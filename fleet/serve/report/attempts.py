"""Attempts at previews that have not finished, in a file beside the mirror.

A preview that exceeds its limits is not tried again for the same commit. What ends the whole service, or what the
service is ended for, must not be the first thing that the next process does: so an attempt is written down before it
begins. A file that cannot be read or written remembers nothing, and then a restart costs one attempt more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Set
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

MOST = 2  # attempts during which the service may end
ENDED = "the service ended {} times while it was made"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt at a preview of one commit."""

    head: str
    live: bool
    begun: int = 0
    reason: str = ""  # why it is not tried again


@dataclass(slots=True)
class Attempts:
    """Attempts of one repository, by the number of the pull request."""

    file: Path | None = None
    _known: dict[int, Attempt] = field(default_factory=dict)

    @classmethod
    def beside(cls, mirror: Path) -> Attempts:
        """Read the attempts from the file beside a mirror."""
        attempts = cls(mirror.with_suffix(".previews.json"))
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            assert attempts.file  # noqa: S101 - it was just given
            data = orjson.loads(attempts.file.read_bytes())
            attempts._known = {int(number): Attempt(**fields) for number, fields in data.items()}
        return attempts

    def reason(self, number: int, head: str, *, live: bool) -> str:
        """Return why a preview of this commit, as deep as this, must not be tried; "" if it may."""
        attempt = self._known.get(number)
        if attempt is None or (attempt.head, attempt.live) != (head, live):
            return ""
        return attempt.reason or (ENDED.format(attempt.begun) if attempt.begun >= MOST else "")

    def begin(self, number: int, head: str, *, live: bool) -> None:
        """Record that a preview begins."""
        attempt = self._known.get(number)
        same = attempt is not None and (attempt.head, attempt.live) == (head, live)
        self._put(number, Attempt(head, live, attempt.begun + 1 if attempt and same else 1))

    def give_up(self, number: int, head: str, reason: str, *, live: bool) -> None:
        """Record that a preview did not finish, and would not another time."""
        self._put(number, Attempt(head, live, reason=reason))

    def forget(self, number: int) -> None:
        """Forget a preview that finished, or whose pull request is closed."""
        if self._known.pop(number, None) is not None:
            self._write()

    def only(self, numbers: Set[int]) -> None:
        """Forget all other pull requests: they are closed."""
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
            draft.write_bytes(orjson.dumps({str(number): asdict(attempt) for number, attempt in self._known.items()}))
            draft.replace(self.file)
