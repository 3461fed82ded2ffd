"""Which app types there are, and the driver of each. Packages are found on disk and loaded one by one, when needed."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.kit.driver import Driver


@cache
def packages() -> dict[str, str]:
    """The module of each app type, by the type's name in lower case."""
    import fleet.apps  # noqa: PLC0415 - the package that this module is part of

    found = pkgutil.iter_modules(fleet.apps.__path__)
    return {module.name.replace("_", ""): f"fleet.apps.{module.name}" for module in found if module.ispkg}


def driver(kind: str) -> Driver[Any] | None:
    """The driver of a kind ("Etcd"); None for a kind that is not one of ours."""
    package = packages().get(kind.lower())
    found: Driver[Any] | None = import_module(package).DRIVER if package else None
    return found if found is not None and found.app.kind() == kind else None


def drivers() -> list[Driver[Any]]:
    """All of them, by kind."""
    found: list[Driver[Any]] = [import_module(package).DRIVER for package in packages().values()]
    return sorted(found, key=lambda one: one.app.kind())


def kinds() -> list[str]:
    return [one.app.kind() for one in drivers()]
