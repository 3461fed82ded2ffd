"""Import files of a user's repository by their path, from their text alone.

Nothing is written beside them and no compiled file is believed: what runs is what stands in the file. Sibling modules
can be imported from the repository's root and from the directory of the stacks; packages of the lockfile come last, so
that they replace neither those nor the standard library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from fleet.evaluate.imports import FOR_USERS


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
