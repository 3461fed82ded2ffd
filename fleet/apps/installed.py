"""App types of installed packages: the entry points of the group `fleet.app_types`.

`nats = "fleet_nats:TYPE"` announces the kind whose name in lower case is "nats", in fleet's own API group;
`"nats.messaging.example.com"` announces it in a group of the package's own. So it is known which package has a kind
before any code of a package runs.

The metadata of installed packages is read as files. `importlib.metadata` would find the same, and takes longer to
import than all commands may take to start.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fleet.errors import ConfigurationError, Source
from fleet.names import GROUP

ENTRY_POINTS = "fleet.app_types"


@dataclass(frozen=True, slots=True, order=True)
class InstalledType:
    """An app type that an installed package announces."""

    group: str  # of the API
    name: str  # the kind in lower case
    package: str  # as its author calls it: "fleet-nats"
    version: str
    module: str  # that has the type: "fleet_nats"
    attribute: str  # of the module: "TYPE"

    @property
    def origin(self) -> str:
        """Return the package with its version, for people."""
        return f"{self.package} {self.version}"


@cache
def installed_types() -> tuple[InstalledType, ...]:
    """Return the types that installed packages announce, in a certain order. No package is imported."""
    announced: dict[tuple[str, str, str], InstalledType] = {}
    for metadata in _metadata_directories():
        for installed in _read_types(metadata):
            # Of a package that is on the search path twice Python imports the first.
            announced.setdefault((installed.group, installed.name, _normal(installed.package)), installed)
    return tuple(sorted(announced.values()))


@cache
def installed_version(package: str) -> str | None:
    """Return the version of an installed package, whatever it has; None if it is not installed."""
    for metadata in _metadata_directories():
        if _normal(metadata.name.rpartition(".")[0].partition("-")[0]) == _normal(package):
            return _name_and_version(metadata)[1]
    return None


def check_required(requirements: Sequence[str]) -> None:
    """Raise ConfigurationError if a package that a repository requires is not installed in such a version."""
    from fleet.repository.requirement import parse_requirement  # noqa: PLC0415 - for repositories that require some

    for text in requirements:
        requirement = parse_requirement(text)
        if requirement is None:  # settings were read with the same grammar
            continue
        version = installed_version(requirement.name)
        if version is None or not requirement.accepts(version):
            there = "which is not installed" if version is None else f"and {requirement.name} {version} is installed"
            raise ConfigurationError(
                f"this repository needs the app types of {requirement.text}, {there}",
                hint=f'where fleet runs: pip install "{requirement.text}"',
                source=Source("fleet.toml"),
                field="apps.require",
            )


def forget_installed() -> None:
    """Forget what was read: packages may have come since."""
    installed_types.cache_clear()
    installed_version.cache_clear()


def _metadata_directories() -> Iterator[Path]:
    for entry in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError), os.scandir(entry or ".") as items:
            names = sorted(item.name for item in items if item.name.endswith((".dist-info", ".egg-info")))
            yield from (Path(entry or ".", name) for name in names)


def _read_types(metadata: Path) -> Iterator[InstalledType]:
    try:
        text = (metadata / "entry_points.txt").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    if ENTRY_POINTS not in text:
        return
    package, version = _name_and_version(metadata)
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == ENTRY_POINTS and "=" in line and not line.startswith(("#", ";")):
            name, _, value = (part.strip() for part in line.partition("="))
            kind, _, group = name.lower().partition(".")
            module, _, attribute = value.partition(":")
            yield InstalledType(group or GROUP, kind, package, version, module.strip(), attribute.strip())


def _name_and_version(metadata: Path) -> tuple[str, str]:
    """Return what the metadata say, or what the directory is called where they say nothing."""
    name, _, version = metadata.name.rpartition(".")[0].partition("-")
    with contextlib.suppress(OSError, ValueError):
        file = metadata / ("METADATA" if metadata.suffix == ".dist-info" else "PKG-INFO")
        for line in file.read_text(encoding="utf-8").partition("\n\n")[0].splitlines():
            field, _, value = line.partition(":")
            if field == "Name":
                name = value.strip()
            elif field == "Version":
                version = value.strip()
    return name, version


def _normal(package: str) -> str:
    """Return a package's name as it is compared: "Fleet_Nats" is "fleet-nats"."""
    return package.lower().replace("_", "-").replace(".", "-")
