"""Methods for the verbs of faults: whoever derives from these classes has one for each verb of `registry.FAULTS`.

What type checkers and editors read is `methods.pyi`, which is written from the same verbs: `make docs` renews it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from fleet.lab.faults.registry import list_verbs, load_verb

Injected = TypeVar("Injected")


class _VerbMethods:
    _group: ClassVar[str] = ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in list_verbs(self._group):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return partial(self._use_verb, load_verb(name, self._group))

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *list_verbs(self._group)]

    def _use_verb(self, verb: Any, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError


class FaultMethods(_VerbMethods):
    """A method for each verb; it returns the fault."""


class FixtureMethods(_VerbMethods, Generic[Injected]):
    """A method for each verb; it takes `seconds` besides, and returns the fault as it was made in a lab."""


class ApiFixtureMethods(_VerbMethods, Generic[Injected]):
    """The same for faults of an API server."""

    _group = "api"
