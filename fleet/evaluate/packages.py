"""Packages for stacks: what the lockfile names, fetched once, into a directory that is named by all that decides on it.

uv or pip fetches, whichever there is, and takes wheels only, each with a hash of the lock: so no line of a package runs
before a stack imports it, in the sandbox. What they are told is written here from the parsed lock; no text of a
repository reaches them. The directory is a plain place to import from and never one for Python's `site`, so that files
that it would run at start (`.pth`, sitecustomize) are just files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fleet import cache
from fleet.errors import AccessError, ConfigurationError, FleetError, Source
from fleet.repository.lockfile import Lock, PinnedPackage
from fleet.text import printable
from fleet.version import __version__

# What fleet itself brings for stacks: the model is made of it, so there cannot be another version beside it.
PROVIDED = ("fleet-gitops", "pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection")
_LONGEST = 600.0  # seconds for a fetch
_MOST, _KEPT_FOR = 16, 86_400.0  # sets that stay; and a younger one is perhaps in use
_NAME = "site-packages"  # what is below one is never taken for code of the repository, should the cache lie in it
_ALIKE = ("--require-hashes", "--only-binary", ":all:", "--no-deps")


def prepare_packages(lock: Lock) -> str:
    """The directory with what the lock names; "" when that is nothing. It is fetched if it is not there yet."""
    wanted = [one for one in lock.pinned if not _is_provided(lock, one)]
    if not wanted:
        return ""
    text = "".join(f"{line}\n" for line in sorted(map(str, wanted)))
    try:
        directory = cache.cache_directory("packages")
        place = directory / _key(text)
        if not place.is_dir():
            _fetch(lock, text, place)
            _forget(directory, place)
        os.utime(place)  # what is used stays
    except OSError as error:
        raise FleetError(
            f"there is no place for the packages of {lock.file}: {error}",
            hint="FLEET_CACHE_DIR names a directory of your own for it",
        ) from None
    return str(place / _NAME)


def _is_provided(lock: Lock, one: PinnedPackage) -> bool:
    if one.name not in PROVIDED:
        return False
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - for locks that name one of them

    try:
        ours = version(one.name)
    except PackageNotFoundError:  # fleet itself, run from its sources
        ours = __version__
    if one.version != ours:
        raise ConfigurationError(
            f"stacks use the {one.name} that fleet uses, which is {ours} here and not {one.version}",
            hint=f"leave {one.name} out: it is there without being named; or pin {one.name}=={ours}",
            source=Source(lock.file, one.line),
        )
    return True


def _key(text: str) -> str:
    """The same lock may mean other wheels for another Python or machine."""
    python = (sys.implementation.cache_tag, sysconfig.get_platform(), sysconfig.get_config_var("SOABI"))
    return hashlib.sha256("\n".join((*map(str, python), text)).encode()).hexdigest()


def _fetch(lock: Lock, text: str, place: Path) -> None:
    """Beside its place, and moved there when it is whole; whoever is first wins."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as scratch:
        requirements, draft = Path(scratch, "requirements.txt"), Path(scratch, "draft")
        requirements.write_text(text)
        (draft / _NAME).mkdir(parents=True)
        _run(lock, [*_tool(lock), *_ALIKE, "--target", str(draft / _NAME), "-r", str(requirements)])
        with contextlib.suppress(FileExistsError):
            draft.rename(place)


def _tool(lock: Lock) -> list[str]:
    if uv := shutil.which("uv"):
        how = ["--python", sys.executable, "--link-mode", "copy", "--compile-bytecode", "--color", "never"]
        return [uv, "pip", "install", "--quiet", *how]
    how = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-color"]
    if find_spec("pip"):
        return [sys.executable, "-I", "-m", "pip", *how]
    if pip := shutil.which("pip"):
        return [pip, "--python", sys.executable, *how]
    raise ConfigurationError(
        f"{lock.file} names packages, and there is neither uv nor pip here to fetch them",
        hint="install uv (or pip) where fleet runs",
        source=Source(lock.file),
    )


def _run(lock: Lock, command: Sequence[str]) -> None:
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _LONGEST}
    try:
        # Not where files of a repository could be taken for settings of uv: it looks upwards from where it is.
        done = subprocess.run(command, cwd="/", check=False, **how)
    except subprocess.TimeoutExpired:
        raise _failed(lock, f"it took longer than {_LONGEST:g} s") from None
    if done.returncode:
        raise _failed(lock, _told(done.stderr or done.stdout) or f"exit code {done.returncode}")


def _failed(lock: Lock, why: str) -> AccessError:
    return AccessError(
        f"the packages of {lock.file} could not be fetched: {why}",
        hint="nothing was changed. Is the index reachable from here (UV_DEFAULT_INDEX, PIP_INDEX_URL), and does it have"
        " wheels with these hashes for this Python?",
        source=Source(lock.file),
    )


def _told(said: bytes) -> str:
    """What uv or pip complained about, as one line."""
    lines = [line.strip(" ×╰─▶├│·") for line in printable(said.decode(errors="replace")).splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith(("WARNING", "hint:")))
    return text if len(text) <= 600 else f"{text[:599]}…"


def _forget(directory: Path, but: Path) -> None:
    """Sets that nobody used for long, when there are many."""
    known = sorted(((one.stat().st_mtime, one) for one in directory.iterdir()), reverse=True)
    for used, path in known[_MOST:]:
        if path != but and time.time() - used > _KEPT_FOR:
            shutil.rmtree(path, ignore_errors=True)
