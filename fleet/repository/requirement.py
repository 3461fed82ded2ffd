"""Requirements of installed packages, such as "fleet-nats==1.2.*", as far as fleet.toml takes them. Pure.

Of the grammar that installers know (PEP 440, 508) this is the part with which a repository says which releases of a
package it was written for: a name, and comparisons with releases. No extras, markers or addresses.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_RELEASE = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}"
_CLAUSE = rf"(?:(?:==|!=) ?{_RELEASE}(?:\.\*)?|(?:>=|<=|>|<) ?{_RELEASE}|~= ?[0-9]{{1,9}}(?:\.[0-9]{{1,9}}){{1,9}})"
PATTERN = rf"{_NAME} ?(?:{_CLAUSE}(?: ?, ?{_CLAUSE}){{0,9}})?"
# Compiled where they are first used: settings are imported by every command, and few repositories require a package.
_REQUIREMENT = rf"({_NAME}) ?({_CLAUSE}(?: ?, ?{_CLAUSE}){{0,9}})?"
_PARTS = rf"(==|!=|>=|<=|>|<|~=) ?({_RELEASE})(\.\*)?"
_VERSION = rf"(?s)v?(?:[0-9]+!)?({_RELEASE})(.*)"
_PRE_RELEASE = r"(?i)[._-]?(?:a|b|c|rc|alpha|beta|pre|preview|dev)[._-]?[0-9]*"
_COMPARISONS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package, and which of its releases will do."""

    text: str  # as it was written, without spaces
    name: str
    clauses: tuple[tuple[str, tuple[int, ...], bool], ...]  # comparison, release, and whether "*" ends it

    def accepts(self, version: str) -> bool:
        """Return whether a version fits. A pre-release comes before its release, which no other comparison tells."""
        if not self.clauses:
            return True
        match = re.fullmatch(_VERSION, version)
        if match is None:
            return False
        release = _numbers(match[1])
        # The last part orders what comes before a release; ten parts are the most that a release has here.
        compared = (*_padded(release), -1 if re.match(_PRE_RELEASE, match[2]) else 0)
        return all(_fits(compared, *clause) for clause in self.clauses)


def parse_requirement(text: str) -> Requirement | None:
    """Return the requirement that a text says; None if it is none."""
    match = re.fullmatch(_REQUIREMENT, text.strip())
    if match is None:
        return None
    clauses = tuple(
        (comparison, _numbers(release), bool(star)) for comparison, release, star in re.findall(_PARTS, match[2] or "")
    )
    return Requirement(match[0].replace(" ", ""), match[1], clauses)


def _fits(version: tuple[int, ...], comparison: str, release: tuple[int, ...], star: bool) -> bool:
    if star:
        return (version[: len(release)] == release) is (comparison == "==")
    wanted = (*_padded(release), 0)
    if comparison == "~=":  # "~=1.4.2" is ">=1.4.2, ==1.4.*"
        return version >= wanted and version[: len(release) - 1] == release[:-1]
    return _COMPARISONS[comparison](version, wanted)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _padded(release: tuple[int, ...]) -> tuple[int, ...]:
    return (*release, *(0 for _ in range(10 - len(release))))
