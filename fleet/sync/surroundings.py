"""Everything besides its files that an evaluation may depend on, as one short text: it is part of a memory's name."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator

from fleet import ROOT
from fleet.version import __version__

CODE = ("apps", "evaluate", "model", "plan", "render", "repository", "sync")  # which also say how it is written down


def surroundings() -> str:
    """Of this Python, fleet, and what is installed beside it."""
    python = (sys.version, sys.executable, os.environ.get("PYTHONPATH", ""))
    return hashlib.sha256("\n".join((__version__, *python, *_code(), *_packages())).encode()).hexdigest()


def _code() -> Iterator[str]:
    """The part of fleet that makes the result; its files change without its version while somebody works on it."""
    for part in CODE:
        yield from sorted(_files(f"{ROOT}/{part}"))


def _files(directory: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                about = entry.stat()
                yield f"{entry.path} {about.st_size} {about.st_mtime_ns}"
            elif entry.is_dir() and not entry.name.startswith((".", "__")):
                yield from _files(entry.path)


def _packages() -> Iterator[str]:
    """What is installed, each with its version: stacks may import it."""
    for directory in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            yield from sorted(one.path for one in entries if one.name.endswith((".dist-info", ".egg-info")))
