"""What a stack may import: the standard library, fleet's public modules, the repository, and what its lockfile names.

Not what happens to be installed where fleet runs: a stack that uses it would mean another thing on the next machine.
So a zygote takes the places of installed packages out of the search, and out of sight what fleet has loaded from there
for itself. What fleet brings for stacks stays: pydantic, which the model is made of.

Like the audit hook this is a help and no wall: walls are the sandbox' business.
"""

from __future__ import annotations

import builtins
import re
import sys
import sysconfig
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
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
