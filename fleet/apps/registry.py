"""Which app types there are, and the driver of each: packages below `fleet.apps`, and those of installed packages.

A type has a key: its API group and its kind. Packages are loaded one by one, when needed, and the metadata of
installed packages are read only for a kind that `fleet.apps` does not have. What is wrong with an installed package is
an error that names the package; it reaches those who ask for that kind, and those who need all types.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.apps.installed import InstalledType, forget_installed, installed_types
from fleet.errors import ConfigurationError, FleetError
from fleet.names import GROUP
from fleet.version import __version__

if TYPE_CHECKING:
    from fleet.kit.driver import Driver


@cache
def packages() -> dict[str, str]:
    """Return the module of each app type that comes with fleet, by the type's name in lower case."""
    import fleet.apps  # noqa: PLC0415 - the package that this module is part of

    modules = pkgutil.iter_modules(fleet.apps.__path__)
    return {module.name.replace("_", ""): f"fleet.apps.{module.name}" for module in modules if module.ispkg}


def driver(kind: str, group: str = GROUP) -> Driver[Any] | None:
    """Return the driver of a kind ("Etcd"); None for a kind that is no app type.

    Raise ConfigurationError if the installed package that has it cannot be used, or if two packages have it.
    """
    own = _own_driver(kind.lower(), group)
    if own is None and not _is_of_kubernetes(group):
        own = _installed_driver(kind.lower(), group)
    return own if own is not None and own.app.kind() == kind else None


def is_app(group: str, kind: str) -> bool:
    """Return whether a kind is an app type, of fleet or of an installed package, even of one that cannot be loaded."""
    try:
        return driver(kind, group) is not None
    except FleetError:
        return True


def is_announced(group: str, kind: str) -> bool:
    """Return whether an app type has the name of a kind, in any case of letters. No driver is loaded: that takes a
    process that has nothing else to do with apps a tenth of a second.
    """
    name = kind.lower()
    if group == GROUP and name in packages():
        return True
    return not _is_of_kubernetes(group) and any((each.group, each.name) == (group, name) for each in installed_types())


def load_drivers() -> tuple[list[Driver[Any]], list[FleetError]]:
    """Return all drivers that can be used, by kind, and what is wrong with the others."""
    usable: list[Driver[Any]] = []
    errors: list[FleetError] = []
    for name in packages():
        own = _own_driver(name, GROUP)
        usable += [own] if own is not None else []
    for group, name in sorted({(installed.group, installed.name) for installed in installed_types()}):
        try:
            external = _installed_driver(name, group)
        except FleetError as error:
            errors.append(error)
        else:
            usable += [external] if external is not None else []
    return sorted(usable, key=lambda each: (each.app.kind(), each.app.api_group)), errors


def drivers() -> list[Driver[Any]]:
    """Return all drivers, by kind; raise the error of an installed package that cannot be used.

    For what has to name every type, such as the definitions and rights that are installed.
    """
    usable, errors = load_drivers()
    if errors:
        raise errors[0]
    return usable


def usable_drivers() -> list[Driver[Any]]:
    """Return the drivers that can be used, by kind: a broken package of others is not there."""
    return load_drivers()[0]


def kinds() -> list[str]:
    """Return the kinds of the types that can be used."""
    return [each.app.kind() for each in usable_drivers()]


def find_class(name: str) -> object:
    """Return what `from fleet.apps import NAME` means: the class of an app type.

    Raise AttributeError if no type has the name, ConfigurationError if its package cannot be used.
    """
    if name[:1].isupper():
        if package := packages().get(name.lower()):
            value: object = getattr(import_module(package), name)
            return value
        announced = [installed for installed in installed_types() if installed.name == name.lower()]
        groups = sorted({installed.group for installed in announced})
        if len(groups) > 1:
            modules = " or ".join(sorted({installed.module for installed in announced}))
            raise ConfigurationError(
                f"fleet.apps has several {name}: of {' and '.join(groups)}", hint=f"import it from {modules}"
            )
        app_driver = driver(name, groups[0]) if groups else None
        if app_driver is not None:
            return app_driver.app
    raise AttributeError(f"module 'fleet.apps' has no attribute {name!r}")


def describe_types() -> dict[str, str]:
    """Return the version of each type that can be used, by "Kind.group": what an operator says that it knows."""
    versions = {(installed.group, installed.name): installed.version for installed in installed_types()}
    return {
        f"{app.kind()}.{app.api_group}": versions.get((app.api_group, app.kind().lower()), __version__)
        for app in (each.app for each in usable_drivers())
    }


def find_module(driver: Driver[Any]) -> str:
    """Return the module from which users import a driver's app, and the classes that belong to it."""
    app = driver.app
    if app.api_group == GROUP and (own := packages().get(app.kind().lower())):
        return own
    key = (app.api_group, app.kind().lower())
    return next(each.module for each in installed_types() if (each.group, each.name) == key)


def installed_modules() -> frozenset[str]:
    """Return the modules that installed types are in, as stacks may import them."""
    return frozenset(installed.module for installed in installed_types())


def find_type_error(module: str) -> FleetError | None:
    """Return why the type in a module of an installed package cannot be used; None if it can."""
    for installed in installed_types():
        if installed.module == module:
            try:
                _installed_driver(installed.name, installed.group)
            except FleetError as error:
                return error
    return None


def installed_directories() -> Iterator[Path]:
    """Yield the directories (of single modules: the files) of the packages with installed types. Nothing is loaded."""
    for top in sorted({module.partition(".")[0] for module in installed_modules()}):
        try:
            spec = find_spec(top)
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.submodule_search_locations:
            yield from map(Path, spec.submodule_search_locations)
        elif spec is not None and spec.origin:
            yield Path(spec.origin)


def forget_types() -> None:
    """Forget which packages are installed; for tests, where they come and go."""
    forget_installed()
    _load.cache_clear()


def _own_driver(name: str, group: str) -> Driver[Any] | None:
    package = packages().get(name) if group == GROUP else None
    own: Driver[Any] | None = import_module(package).DRIVER if package else None
    return own


def _installed_driver(name: str, group: str) -> Driver[Any] | None:
    """Return the driver of an installed package; None if no package has the kind."""
    announced = [installed for installed in installed_types() if (installed.group, installed.name) == (group, name)]
    if not announced:
        return None
    origins = [installed.origin for installed in announced]
    if group == GROUP and name in packages():
        origins.insert(0, f"fleet {__version__}")
    if len(origins) > 1:
        raise ConfigurationError(
            f"the app type {name} of {group} is defined by {' and by '.join(origins)}",
            hint="uninstall one of them, or give the type an API group of its own",
        )
    loaded = _load(announced[0])
    if isinstance(loaded, FleetError):
        raise loaded
    return loaded


@cache
def _load(installed: InstalledType) -> Driver[Any] | FleetError:
    """Return the driver of an installed package, or what is wrong with the package: it is the same every time."""
    from fleet.kit.driver import CONTRACT, Driver  # noqa: PLC0415 - needed only where there are installed types

    what = f"the app type {installed.name} of {installed.origin}"
    try:
        loaded = getattr(import_module(installed.module), installed.attribute)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ConfigurationError(
            f"{what} cannot be loaded: {reason}", hint=f"repair {installed.package}, or uninstall it"
        )
    if not isinstance(loaded, Driver):
        return ConfigurationError(
            f"{what} is no app type: {installed.module}:{installed.attribute} is a {type(loaded).__name__}",
            hint=f"its author writes an entry point of {installed.package} that names an instance of its Driver",
        )
    contract = _find_contract(type(loaded))
    if contract != CONTRACT:
        written = f"was written for contract {contract}" if contract else "does not say for which contract it is"
        return ConfigurationError(
            f"{what} {written}; this fleet has contract {CONTRACT}",
            hint=f"install a release of {installed.package} with `contract = {CONTRACT}`, or the fleet that it is for",
        )
    app = getattr(loaded, "app", None)
    named = (app.api_group, app.kind().lower()) if app else None
    if app is None or named != (installed.group, installed.name):
        entry = (
            ".".join(filter(None, (app.kind().lower(), "" if app.api_group == GROUP else app.api_group))) if app else ""
        )
        return ConfigurationError(
            f"{what} is of another kind: {f'{app.kind()} of {app.api_group}' if app else 'it names no app'}",
            hint=f"its author calls the entry point {entry!r}" if app else None,
        )
    return loaded


def _find_contract(type_: type) -> int:
    """Return the contract that a type of others names itself; 0 if it names none.

    What it inherits from the kit is no answer: that would always be the contract of the fleet that loads it.
    """
    for base in type_.__mro__:
        if not base.__module__.startswith("fleet.") and "contract" in vars(base):
            return int(vars(base)["contract"])
    return 0


def _is_of_kubernetes(group: str) -> bool:
    """Return whether an API group is of Kubernetes itself; no app type can be in one of those."""
    return "." not in group or group.endswith(".k8s.io")
