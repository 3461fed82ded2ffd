"""The import of user files by their path, and the rules for what they may import.

A user file is compiled from its text alone. No compiled file is written beside it and none is trusted: what runs is
what the file says. Sibling modules can be imported from the repository's root and from the directory of the stacks;
packages of the lockfile come last in the search, so that they replace neither those nor the standard library.

A stack may import the standard library, fleet's public modules, the repository, and what its lockfile names. It may not
import what happens to be installed where fleet runs, because it would mean another thing on the next machine. So a
zygote removes the directories of installed packages from the search, and the modules that fleet itself has loaded from
them. What fleet provides to stacks stays: pydantic, which the model is made of, and the app types of installed
packages: those are in the key of remembered evaluations, and `[apps] require` in fleet.toml says which a repository
needs.

Like the audit hook this helps the user and is no security boundary; that is the sandbox.
"""

from __future__ import annotations

import builtins
import re
import sys
import sysconfig
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, FileFinder, FrozenImporter, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from fleet.apps.registry import find_type_error, installed_modules

_OF_FLEET = re.compile(r"fleet(\.errors|\.apps(\.[a-z0-9_]+)?)?")
_SHARED = frozenset(
    {"fleet", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "__main__"}
)
_STANDARD = (BuiltinImporter, FrozenImporter, PathFinder)
_beside: list[str] = []  # directories of installed packages that are not for stacks
_types: set[str] = set()  # modules of installed app types, which are for stacks


class RefusedImportError(ModuleNotFoundError):
    """The refusal of an import; a ModuleNotFoundError, which code that can do without the module catches."""

    def __init__(self, name: str, message: str, hint: str) -> None:
        super().__init__(message, name=name)
        self.message = message
        self.hint = hint


def narrow() -> None:
    """Let imports find the standard library alone from now on; for a zygote that has loaded all that fleet needs."""
    standard = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    standard_paths = [path for path in sys.path if _is_standard(path, standard) or Path(path).name == archive]
    _beside[:] = [path for path in sys.path if path not in standard_paths]
    sys.path[:] = standard_paths
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder in _STANDARD]
    _types.update(installed_modules())  # `worker.warm_up` has loaded them
    shared = _SHARED.union(module.partition(".")[0] for module in _types)
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top not in shared and top not in sys.stdlib_module_names and not top.startswith("_"):
            del sys.modules[name]


def _is_standard(path: str, standard: tuple[str, ...]) -> bool:
    """Return whether an entry of the import path is of the standard library."""
    parts = Path(path).parts
    return path.startswith(standard) and not {"site-packages", "dist-packages"} & set(parts)


def module_is_beside(name: str) -> bool:
    """Return whether a module is installed beside fleet, and so available to fleet and not to stacks."""
    top = name.partition(".")[0]
    return bool(_beside) and PathFinder.find_spec(top, _beside) is not None


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002
    """Import as the statement does; raise RefusedImportError for a module of fleet, or of an installed app type, that
    is not for stacks.
    """
    if level == 0 and name.partition(".")[0] == "fleet":
        submodules = [f"{name}.{item}" for item in fromlist or () if f"{name}.{item}" in sys.modules]
        for module in [name, *submodules]:
            if not _OF_FLEET.fullmatch(module):
                raise RefusedImportError(
                    module,
                    f"{module} is not for stacks",
                    "import from fleet and fleet.apps: what is there stays as it is when fleet changes inside",
                )
    elif level == 0 and name not in _types and (public := _find_type_module(name)):
        raise RefusedImportError(
            name, f"{name} is not for stacks", f"import from {public}: what else is in the package is for fleet alone"
        )
    elif level == 0 and name in _types and name not in sys.modules and (error := find_type_error(name)):
        raise RefusedImportError(name, error.message, error.hint or "")
    return builtins.__import__(name, globals, locals, fromlist, level)


def _find_type_module(name: str) -> str:
    """Return the module of the installed app type in whose package a module is; "" if it is in none."""
    top = name.partition(".")[0]
    return min((module for module in _types if module.partition(".")[0] == top), default="")


FOR_USERS: dict[str, Any] = {**vars(builtins), "__import__": _import}


class TextLoader(SourceFileLoader):
    """A source loader that ignores __pycache__: without a file's time stamp, Python neither reads nor writes it."""

    def path_stats(self, path: str) -> dict[str, int]:
        """Raise OSError, so that Python compiles the file from its text."""
        raise OSError(f"{path} is always compiled from its text")

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with the builtins for user code, whose import refuses modules that are not for stacks."""
        module.__dict__["__builtins__"] = FOR_USERS
        super().exec_module(module)


def make_importable(root: Path, *directories: str, packages: str = "") -> None:
    """Let user code import modules of the repository, and the packages of the lockfile."""
    sys.path_hooks.insert(0, _make_finder(root))
    entries = [str(root), *(str(root / directory) for directory in directories)]
    for entry in entries:
        sys.path_importer_cache.pop(entry, None)
    sys.path[:0] = entries
    sys.path += [packages] if packages else []


def _make_finder(root: Path) -> Callable[[str], FileFinder]:
    """Return a path hook for directories of the repository, which loads modules from their text."""

    def finder(path: str) -> FileFinder:
        directory = Path(path)
        if not directory.is_relative_to(root) or "site-packages" in directory.relative_to(root).parts:
            raise ImportError(path=path)
        return FileFinder(path, (TextLoader, [".py"]))

    return finder


def load(root: Path, file: str) -> ModuleType:
    """Return the module in `file`, relative to the root, loaded under the name by which a sibling would import it."""
    name = file.removesuffix(".py").replace("/", ".")
    if name in sys.modules:  # a sibling has imported it
        return sys.modules[name]
    path = str(root / file)
    spec = spec_from_file_location(name, path, loader=TextLoader(name, path))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded", path=path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
