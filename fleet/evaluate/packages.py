"""Packages for stacks: what the lockfile names, fetched once into a directory whose name is a hash of all that decides.

uv fetches, or pip where there is no uv. They take wheels only, each with a hash of the lockfile, so no line of a
package runs before a stack imports it in the sandbox. Their arguments and requirements are written here from the parsed
lock; no text of a repository reaches them. The directory is a plain entry of the import path and never one of Python's
`site`, so files that `site` would run at start (`.pth`, sitecustomize) are just files.
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
from fleet.apps.installed import installed_types
from fleet.errors import AccessError, ConfigurationError, FleetError, Source
from fleet.repository.lockfile import Lock, PinnedPackage
from fleet.text import printable
from fleet.version import __version__

# Packages that fleet provides to stacks, beside app types that are installed: its model is made of them, so there
# cannot be another version beside them.
PROVIDED = ("fleet-gitops", "pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection")
_LONGEST = 600.0  # seconds for a fetch
_MOST, _KEPT_FOR = 16, 86_400.0  # sets that are kept; seconds for which more are kept, as they may be in use
_NAME = "site-packages"  # files below such a directory never count as the repository's, even if the cache is in it
_ALIKE = ("--require-hashes", "--only-binary", ":all:", "--no-deps")


def prepare_packages(lock: Lock) -> str:
    """Return the directory with the packages of the lock, fetched if they are missing; "" if the lock names none.

    Raise AccessError if they cannot be fetched, ConfigurationError if that is not possible with this lock or machine,
    FleetError if there is no place for them.
    """
    packages = [package for package in lock.pinned if not _is_provided(lock, package)]
    if not packages:
        return ""
    text = "".join(f"{line}\n" for line in sorted(map(str, packages)))
    try:
        directory = cache.cache_directory("packages")
        place = directory / _hash_requirements(text)
        if not place.is_dir():
            _fetch(lock, text, place)
            _remove_unused(directory, place)
        os.utime(place)  # what was used last is kept
    except OSError as error:
        raise FleetError(
            f"there is no place for the packages of {lock.file}: {error}",
            hint="FLEET_CACHE_DIR names a directory of your own for it",
        ) from None
    return str(place / _NAME)


def _is_provided(lock: Lock, package: PinnedPackage) -> bool:
    """Return whether fleet provides the package itself; raise ConfigurationError if the lock pins another version."""
    types = {installed.package.lower().replace("_", "-"): installed.version for installed in installed_types()}
    if package.name in types:
        _check_provided(lock, package, types[package.name])
        return True
    if package.name not in PROVIDED:
        return False
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - for locks that name one of them

    try:
        ours = version(package.name)
    except PackageNotFoundError:  # fleet itself, run from its sources
        ours = __version__
    _check_provided(lock, package, ours)
    return True


def _check_provided(lock: Lock, package: PinnedPackage, ours: str) -> None:
    """Raise ConfigurationError if the lock pins another version than the one that fleet uses itself."""
    if package.version != ours:
        name = package.name
        raise ConfigurationError(
            f"stacks use the {name} that fleet uses, which is {ours} here and not {package.version}",
            hint=f"leave {name} out: it is there without being named; or pin {name}=={ours}",
            source=Source(lock.file, package.line),
        )


def _hash_requirements(text: str) -> str:
    """Return the hash of requirements, Python and platform: a lock may mean other wheels for another platform."""
    python = (sys.implementation.cache_tag, sysconfig.get_platform(), sysconfig.get_config_var("SOABI"))
    return hashlib.sha256("\n".join((*map(str, python), text)).encode()).hexdigest()


def _fetch(lock: Lock, text: str, place: Path) -> None:
    """Fetch into a directory beside the place, and rename it when complete; of several processes the first one wins."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as scratch:
        requirements, draft = Path(scratch, "requirements.txt"), Path(scratch, "draft")
        requirements.write_text(text)
        (draft / _NAME).mkdir(parents=True)
        _run(lock, [*_find_tool(lock), *_ALIKE, "--target", str(draft / _NAME), "-r", str(requirements)])
        with contextlib.suppress(FileExistsError):
            draft.rename(place)


def _find_tool(lock: Lock) -> list[str]:
    """Return the beginning of the command line of uv or pip; raise ConfigurationError if there is neither."""
    if uv := shutil.which("uv"):
        options = ["--python", sys.executable, "--link-mode", "copy", "--compile-bytecode", "--color", "never"]
        return [uv, "pip", "install", "--quiet", *options]
    options = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-color"]
    if find_spec("pip"):
        return [sys.executable, "-I", "-m", "pip", *options]
    if pip := shutil.which("pip"):
        return [pip, "--python", sys.executable, *options]
    raise ConfigurationError(
        f"{lock.file} names packages, and there is neither uv nor pip here to fetch them",
        hint="install uv (or pip) where fleet runs",
        source=Source(lock.file),
    )


def _run(lock: Lock, command: Sequence[str]) -> None:
    """Run the command; raise AccessError with its complaint if it fails or takes too long."""
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _LONGEST}
    try:
        # uv looks for its settings from the working directory upwards: from / it finds none of a repository.
        process = subprocess.run(command, cwd="/", check=False, **options)
    except subprocess.TimeoutExpired:
        raise _fetch_error(lock, f"it took longer than {_LONGEST:g} s") from None
    if process.returncode:
        complaint = _extract_complaint(process.stderr or process.stdout)
        raise _fetch_error(lock, complaint or f"exit code {process.returncode}")


def _fetch_error(lock: Lock, why: str) -> AccessError:
    return AccessError(
        f"the packages of {lock.file} could not be fetched: {why}",
        hint="nothing was changed. Is the index reachable from here (UV_DEFAULT_INDEX, PIP_INDEX_URL), and does it have"
        " wheels with these hashes for this Python?",
        source=Source(lock.file),
    )


def _extract_complaint(output: bytes) -> str:
    """Return the complaint of uv or pip as one line."""
    lines = [line.strip(" ×╰─▶├│·") for line in printable(output.decode(errors="replace")).splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith(("WARNING", "hint:")))
    return text if len(text) <= 600 else f"{text[:599]}…"


def _remove_unused(directory: Path, current: Path) -> None:
    """Remove sets that were not used for long, if there are many; never the current one."""
    sets = sorted(((path.stat().st_mtime, path) for path in directory.iterdir()), reverse=True)
    for used, path in sets[_MOST:]:
        if path != current and time.time() - used > _KEPT_FOR:
            shutil.rmtree(path, ignore_errors=True)
