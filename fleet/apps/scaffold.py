"""A new app type as a package, from the template beside this file: it works and passes its test as it is written.

A directory of the template is a level: what the package answers, and so what the operator can do for its apps. It has
what differs from the level before it. In names and texts `@name@` stands for what the user calls the engine, `@Kind@`
for the class and kind, `@package@` and `@module@` for the package, `@entry@` for its entry point, `@function@` for a
stack, and `@version@` for this release.
"""

from __future__ import annotations

import re
from pathlib import Path

from fleet.apps.registry import is_app
from fleet.errors import ConfigurationError
from fleet.names import GROUP
from fleet.version import __version__

TEMPLATE = Path(__file__).parent / "template"
LEVELS = ("pods", "probed", "clustered")  # each with all that those before it have, unless it has its own
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
LONGEST = 40


def write_app_type(name: str, directory: Path, level: str) -> tuple[str, ...]:
    """Write the package and return the names of its files.

    Raise ConfigurationError, and write nothing, for a name that cannot be one or is taken, or if a file exists already.
    """
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise ConfigurationError(
            f"{name[:80]!r} cannot be the name of an app type", hint="lower-case letters, digits and dashes: my-queue"
        )
    words = _words(name)
    if is_app(GROUP, words["Kind"]):
        raise ConfigurationError(f"there is an app type {words['Kind']} already", hint="choose another name")
    files = {
        _fill(name.removesuffix(".in"), words): _fill(path.read_text("utf-8"), words)
        for name, path in _list_files(level).items()
    }
    if existing := [file for file in files if (directory / file).exists() or (directory / file).is_symlink()]:
        raise ConfigurationError(
            f"{directory} has {existing[0]} already, and nothing is overwritten",
            hint=f"name a new directory: fleet new app-type {name} DIR",
        )
    for file, text in files.items():
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tuple(sorted(files))


def _list_files(level: str) -> dict[str, Path]:
    """Return the files of the template for a level, by their names in a package."""
    roots = [TEMPLATE / known for known in LEVELS[: LEVELS.index(level) + 1]]
    return {path.relative_to(root).as_posix(): path for root in roots for path in root.rglob("*") if path.is_file()}


def package_of(name: str) -> str:
    """Return what the package of an app type is called."""
    return f"fleet-{name}"


def _words(name: str) -> dict[str, str]:
    kind = "".join(part.capitalize() for part in name.split("-"))
    return {
        "name": name,
        "Kind": kind,
        "entry": kind.lower(),
        "package": package_of(name),
        "module": package_of(name).replace("-", "_"),
        "function": name.replace("-", "_"),
        "version": __version__,
    }


def _fill(text: str, words: dict[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda match: words.get(match[1], match[0]), text)
