"""Table from git's stderr to errors that a user can act on. Pure; the table is the whole knowledge."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleet import errors
from fleet.errors import FleetError
from fleet.text import without_credentials

_ACCESS_HINT = "check the credentials: `git ls-remote` with the same url must work without a question"

# (pattern, error, message or "" for git's own words, hint)
_TABLE: tuple[tuple[str, type[FleetError], str, str], ...] = (
    (
        r"detected dubious ownership in repository at '?(?P<path>[^'\n]+)",
        errors.AccessError,
        "the repository {path} belongs to another user, and git refuses to work in it",
        "if you trust it: git config --global --add safe.directory {path}",
    ),
    (
        r"promisor remote",
        errors.ResourceError,
        "this is a partial clone, and objects that are needed were never fetched",
        "fetch all of it: `git fetch --refetch --no-filter`",
    ),
    (
        r"transport '(?P<path>[^']+)' not allowed",
        errors.PolicyError,
        "the remote uses {path!r}, which is not allowed here",
        "use https or ssh",
    ),
    (
        r"not a git repository",
        errors.ConfigurationError,
        "this is not a git repository",
        "run it inside a clone, or make one with `git init`",
    ),
    (
        r"could not read (Username|Password)|Authentication failed|terminal prompts disabled|Permission denied"
        r"|Host key verification failed|error: 40[13]|access denied|Invalid username or"
        r"|not authorized|permission to .* denied",
        errors.AccessError,
        "",
        _ACCESS_HINT,
    ),
    (
        r"does not appear to be a git repository|[Rr]epository not found|repository '.*' (not found|does not exist)"
        r"|error: 404",
        errors.NotFoundError,
        "",
        "check the url, and that these credentials may see the repository",
    ),
    (
        r"returned error: 30[1-8]",
        errors.PolicyError,
        "the server sends us to another address, and that is not followed",
        "set the remote to the address that it has now",
    ),
    (
        r"[Oo]ut of memory|memory exhausted|[Mm]alloc failed|mmap failed",
        errors.ResourceError,
        "git needed more memory than it may have",
        "is this the right repository? Configuration repositories are small",
    ),
    (
        r"Could not resolve host|unable to access|Connection (refused|timed out|reset)|Could not connect|early EOF"
        r"|unexpected disconnect|Could not read from remote repository|Operation too slow",
        errors.ResourceError,
        "",
        "is the remote reachable from here?",
    ),
    (
        r"fsck error|invalid object|hasDot|badTree|fullPathname|gitmodules|bad object|corrupt"
        r"|missing (blob|tree|commit)",
        errors.ResourceError,
        "",
        "objects are damaged or not all there: run `git fsck`; in a shallow or partial clone, fetch all of it",
    ),
    (r"No space left on device", errors.ResourceError, "", "make room on this machine's disk"),
)


def error_from_stderr(what: str, stderr: str, *, unused: Sequence[str] = ()) -> FleetError:
    """Return the error for a failed command; `what` says what was being done ("fetch from origin").

    `unused` are settings of the clone that were not used to reach a remote: they may be the reason.
    """
    error = _error(what, stderr)
    if unused and not isinstance(error, errors.PolicyError):
        note = f"this clone's own {', '.join(unused)} is not used; if it is yours, set it with `git config --global`"
        error.hint = f"{error.hint}; {note}" if error.hint else note
    return error


def _error(what: str, stderr: str) -> FleetError:
    reason = _reason(stderr)
    for pattern, kind, message, hint in _TABLE:
        match = re.search(pattern, stderr)
        if match:
            groups = {key: value or "" for key, value in match.groupdict().items()}
            text = message.format(**groups) if message else reason
            return kind(f"cannot {what}: {text}", hint=hint.format(**groups))
    return FleetError(f"cannot {what}: {reason}")


def _reason(stderr: str) -> str:
    """Return git's lines that say something: no prefixes, credentials or control characters, at most 600 letters."""
    lines = [re.sub(r"^(fatal|error|warning|remote): ?", "", line.strip()) for line in stderr.splitlines()]
    text = "; ".join(
        line
        for line in lines
        if line and not line.startswith(("hint:", "Please make sure", "and the repository exists"))
    )
    return (
        without_credentials("".join(letter if letter.isprintable() else " " for letter in text))[:600]
        or "git gave no reason"
    )
