"""Errors that `fleet` raises on purpose, and the exit code each becomes at the command line.

    FleetError                1  something went wrong
    ├── ConfigurationError    2  the user's files or flags are wrong; nothing was changed
    ├── AccessError           3  credentials or rights are missing
    ├── ResourceError         4  a cluster or an object refused, failed or could not be reached
    │   └── ConflictError     4  the object belongs to somebody else
    ├── PolicyError           5  a rule of the repository forbids it
    ├── NotFoundError         6  what was named does not exist
    ├── ChangesError          7  there are changes where none were expected
    ├── CancelledError        8  a person stopped it
    └── TimeoutError          9  it did not happen in time

An error carries data: what went wrong, where (file and line of the user's code, the field), and what would be right. It
formats itself; the command line only prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.text import printable, without_credentials


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a user's file, `file` as the user knows it (relative to the repository)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class FleetError(Exception):
    """The base of all; `hint` says what to do, `source` and `field` where it is."""

    exit_code = 1

    def __init__(
        self, message: str, *, hint: str | None = None, source: Source | None = None, field: str | None = None
    ) -> None:
        super().__init__(without_credentials(message))
        self.message = without_credentials(message)
        self.hint = without_credentials(hint) if hint else hint
        self.source = source
        self.field = field

    def __str__(self) -> str:
        where = ": ".join(str(part) for part in (self.source, self.field) if part)
        text = f"{where}: {self.message}" if where else self.message
        return printable(f"{text}\n  hint: {self.hint}" if self.hint else text)


class ConfigurationError(FleetError):
    """The user's files or flags are wrong; nothing was changed."""

    exit_code = 2


class AccessError(FleetError):
    exit_code = 3


class ResourceError(FleetError):
    exit_code = 4


class ConflictError(ResourceError):
    pass


class PolicyError(FleetError):
    exit_code = 5


class NotFoundError(FleetError):
    exit_code = 6


class ChangesError(FleetError):
    exit_code = 7


class CancelledError(FleetError):
    exit_code = 8


class TimeoutError(FleetError):  # noqa: A001 - the word of the domain; it is used as errors.TimeoutError
    exit_code = 9
