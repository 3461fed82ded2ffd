"""Who is behind a change, for people who look at it later."""

from __future__ import annotations

import getpass
import os
import socket

TOLD_BY = ("FLEET_USER", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")


def person() -> str:
    """In CI whoever started the job, whose name the machine does not know; else who is at this machine."""
    told = (os.environ.get(one, "").strip() for one in TOLD_BY)
    return next(filter(None, told), "") or f"{user()}@{socket.gethostname()}"


def program(name: str) -> str:
    """One that acts by itself, and where."""
    return f"{name}@{socket.gethostname()}"


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        return str(os.getuid())
