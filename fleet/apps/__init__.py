"""The app types: one package each, with a typed spec and the pure half of its driver.

A new app type is a package here (class in `spec.py`, `DRIVER` in its `__init__.py`) and one line below, which tells
editors and type checkers; at run time the packages are found by name and loaded when they are used. Types of installed
packages are found by their entry points; editors know those by the names of their own packages.
"""

from __future__ import annotations

TYPE_CHECKING: bool = False  # as in fleet/__init__.py
if TYPE_CHECKING:
    from fleet.apps.etcd import Etcd as Etcd


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from fleet.apps.registry import find_class  # noqa: PLC0415 - only when a type is asked for

        value = find_class(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    from fleet.apps.registry import kinds  # noqa: PLC0415

    names = kinds()
    return [name for name in names if names.count(name) == 1]
