"""The methods that fixtures and builders have for each fault, as type checkers and editors read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from docs.tools.reference.text import ROOT, annotation
from fleet.lab.faults.methods import ApiFixtureMethods, FaultMethods, FixtureMethods
from fleet.lab.faults.registry import list_verbs, load_verb
from fleet.lab.faults.verb import FaultVerb

STUB_FILE = ROOT / "fleet" / "lab" / "faults" / "methods.pyi"
_HEAD = """# Written from the verbs in fleet/lab/faults: edit those, then run `make docs`.
from collections.abc import Sequence
from typing import Generic, TypeVar

from fleet.lab.faults.fault import Fault
from fleet.lab.proxy.plan import Match

Injected = TypeVar("Injected")
"""
_SECONDS = inspect.Parameter("seconds", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=float | None)


def stub_text() -> str:
    """The text of `methods.pyi`: a class for each one of `methods.py`, with a method for each verb."""
    parts = [_HEAD]
    for cls, bases, returned in (
        (FaultMethods, "", "Fault"),
        (FixtureMethods, "(Generic[Injected])", "Injected"),
        (ApiFixtureMethods, "(Generic[Injected])", "Injected"),
    ):
        methods = [_stub_method(method, returned) for method in derived_methods(cls)]
        parts.append(f'class {cls.__name__}{bases}:\n    """{inspect.getdoc(cls)}"""\n\n' + "\n".join(methods))
    return "\n".join(parts)


def derived_methods(cls: type) -> Iterator[Callable[..., Any]]:
    """Functions with the signature and the docstring of each method that a class has for a verb."""
    if not issubclass(cls, FaultMethods | FixtureMethods | ApiFixtureMethods):
        return
    group = "api" if issubclass(cls, ApiFixtureMethods) else ""
    for name in list_verbs(group):
        yield _method(load_verb(name, group), () if issubclass(cls, FaultMethods) else (_SECONDS,))


def _method(verb: FaultVerb, more: tuple[inspect.Parameter, ...]) -> Callable[..., Any]:
    def method() -> None: ...

    parameters = [
        inspect.Parameter(
            parameter.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if parameter.is_positional else inspect.Parameter.KEYWORD_ONLY,
            default=parameter.default,
            annotation=annotation(parameter.type),
        )
        for parameter in verb.parameters()
    ]
    returned = "Broken" if more else "Fault"
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__name__, method.__doc__ = verb.name, verb.summary
    shown = inspect.Signature([this, *parameters, *more], return_annotation=returned)
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method


def _stub_method(method: Callable[..., Any], returned: str) -> str:
    lines, is_keyword = ["self"], False
    for parameter in [*inspect.signature(method).parameters.values()][1:]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not is_keyword:
            lines, is_keyword = [*lines, "*"], True
        has_default = parameter.default is not inspect.Parameter.empty
        default = f" = {_default(parameter.default)}" if has_default else ""
        lines.append(f"{parameter.name}: {annotation(parameter.annotation)}{default}")
    arguments = "".join(f"        {line},\n" for line in lines)
    paragraphs = (method.__doc__ or "").replace("\n", "\n        ").replace("\n        \n", "\n\n")
    end = "\n        " if "\n" in paragraphs else ""
    return f'    def {method.__name__}(\n{arguments}    ) -> {returned}:\n        """{paragraphs}{end}"""\n'


def _default(value: Any) -> str:
    is_plain = isinstance(value, str | int | float | tuple | None)
    return repr(value).replace("'", '"') if is_plain else "..."
