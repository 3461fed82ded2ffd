"""Load user files; what they may import.

What a stack may import: the standard library, fleet's public modules, the repository, and what its lockfile names.

Not what happens to be installed where fleet runs: a stack that uses it would mean another thing on the next machine.
So a zygote takes the places of installed packages out of the search, and out of sight what fleet has loaded from there
for itself. What fleet brings for stacks stays: pydantic, which the model is made of.

Like the audit hook this is a help and no wall: walls are the sandbox' business.

Import files of a user's repository by their path, from their text alone.

Nothing is written beside them and no compiled file is believed: what runs is what stands in the file. Sibling modules
can be imported from the repository's root and from the directory of the stacks; packages of the lockfile come last, so
that they replace neither those nor the standard library.
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

_OF_FLEET = re.compile(r"fleet(\.errors|\.apps(\.[a-z0-9_]+)?)?")
_SHARED = frozenset(
    {"fleet", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "__main__"}
)
_STANDARD = (BuiltinImporter, FrozenImporter, PathFinder)
_beside: list[str] = []  # where packages are installed that are not for stacks


class RefusedImportError(ModuleNotFoundError):
    """One that code which merely tries, and can do without, may catch."""

    def __init__(self, name: str, message: str, hint: str) -> None:
        super().__init__(message, name=name)
        self.message = message
        self.hint = hint


def narrow() -> None:
    """In a zygote, when all that fleet needs is loaded: from here on imports find the standard library alone."""
    own = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    kept = [path for path in sys.path if _is_standard(path, own) or Path(path).name == archive]
    _beside[:] = [path for path in sys.path if path not in kept]
    sys.path[:] = kept
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder in _STANDARD]
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top not in _SHARED and top not in sys.stdlib_module_names and not top.startswith("_"):
            del sys.modules[name]


def _is_standard(path: str, own: tuple[str, ...]) -> bool:
    parts = Path(path).parts
    return path.startswith(own) and not {"site-packages", "dist-packages"} & set(parts)


def module_is_beside(name: str) -> bool:
    """Whether it is installed where fleet is, and so there for fleet and not for stacks."""
    top = name.partition(".")[0]
    return bool(_beside) and PathFinder.find_spec(top, _beside) is not None


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002
    """As the statement does it, in modules of the repository: of fleet itself only what is meant for stacks."""
    if level == 0 and name.partition(".")[0] == "fleet":
        asked = [name, *(f"{name}.{one}" for one in fromlist or () if f"{name}.{one}" in sys.modules)]
        for one in asked:
            if not _OF_FLEET.fullmatch(one):
                raise RefusedImportError(
                    one,
                    f"{one} is not for stacks",
                    "import from fleet and fleet.apps: what is there stays as it is when fleet changes inside",
                )
    return builtins.__import__(name, globals, locals, fromlist, level)


FOR_USERS: dict[str, Any] = {**vars(builtins), "__import__": _import}


class TextLoader(SourceFileLoader):
    """As Python's own, but blind to __pycache__: without a time stamp it neither reads nor writes there."""

    def path_stats(self, path: str) -> dict[str, int]:
        raise OSError(f"{path} is always compiled from its text")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = FOR_USERS
        super().exec_module(module)


def make_importable(root: Path, *directories: str, packages: str = "") -> None:
    """Let user code import modules of the repository, and packages."""
    sys.path_hooks.insert(0, _finder_for(root))
    entries = [str(root), *(str(root / directory) for directory in directories)]
    for entry in entries:
        sys.path_importer_cache.pop(entry, None)
    sys.path[:0] = entries
    sys.path += [packages] if packages else []


def _finder_for(root: Path) -> Callable[[str], FileFinder]:
    def finder(path: str) -> FileFinder:
        inside = Path(path)
        if not inside.is_relative_to(root) or "site-packages" in inside.relative_to(root).parts:
            raise ImportError(path=path)
        return FileFinder(path, (TextLoader, [".py"]))

    return finder


def load(root: Path, file: str) -> ModuleType:
    """The module in `file`, relative to the root: under the name by which a sibling would import it."""
    name = file.removesuffix(".py").replace("/", ".")
    if name in sys.modules:  # a sibling did
        return sys.modules[name]
    path = str(root / file)
    spec = spec_from_file_location(name, path, loader=TextLoader(name, path))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded", path=path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
