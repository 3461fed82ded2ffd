"""The public Python names: functions and classes with their fields, from signatures, types and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from itertools import pairwise
from typing import Any

import pydantic
from pydantic.fields import FieldInfo

import fleet
from docs.tools.reference.faults import derived_methods
from docs.tools.reference.text import annotation, cell, comments, first, prose, shown, signature
from fleet import testing as fleet_testing
from fleet.apps.registry import find_module, packages, usable_drivers
from fleet.kit import driver as drivers
from fleet.kit.driver import Driver
from fleet.model.base import Model
from fleet.testing import plugin
from fleet.testing import proxy as fleet_testing_proxy


def stacks() -> str:
    names = [name for name in fleet.__all__ if not name.startswith("__")]
    values = {name: getattr(fleet, name) for name in names}
    functions = sorted(name for name, value in values.items() if not inspect.isclass(value))
    classes = sorted(name for name, value in values.items() if inspect.isclass(value))
    parts = [
        "# Python: fleet",
        "",
        "Everything that a stack needs, beside the [apps](apps.md). Classes are immutable and take keyword arguments,",
        "except where a field says that it is positional.",
        "",
        "## Functions",
        "",
    ]
    for name in functions:
        parts += _function(values[name], f"fleet.{name}", "###")
    parts += ["## Classes", ""]
    for name in classes:
        parts += _class(values[name], f"fleet.{name}", "###")
    return "\n".join(parts)


def apps() -> str:
    parts = ["# Python: fleet.apps", "", "The typed apps, each with its settings.", ""]
    own = {*packages().values()}
    for found in usable_drivers():
        if find_module(found) in own:  # what else is installed here is none of fleet's
            parts += describe_app(found)
    return "\n".join(parts)


def describe_app(found: Driver[Any]) -> list[str]:
    """The part of a page that is about one app type, of fleet or of an installed package."""
    kind, module, meta = found.app.kind(), find_module(found), found.meta
    parts = [f"## {kind}", "", meta.words, ""]
    parts += [f"Versions: {', '.join(meta.versions)}. Members: {meta.fewest} to {meta.most}.", ""]
    parts += _engine(found)
    parts += _class(found.app, f"fleet.apps.{kind}", "###")
    package = importlib.import_module(module)
    for name in getattr(package, "__all__", ()):
        value = getattr(package, name)
        if inspect.isclass(value) and value is not found.app:
            parts += _class(value, f"{module}.{name}", "###")
    parts += ["### What a change costs", "", "| field | costs |", "|---|---|"]
    costs = {field: text for (name, field), text in comments(drivers).items() if name == "Impact"}
    parts += [f"| `{field}` | {impact.value}: {costs[impact.name]} |" for field, impact in found.impacts.items()]
    parts.append("")
    return parts


QUORUM = {
    "majority": "a majority of the members",
    "external": "whatever the engine asks outside of itself",
    "none": "nobody: every member stands alone",
}


def _engine(found: Driver[Any]) -> list[str]:
    """What its driver says of it, and what it can do."""
    meta, caps = found.meta, asdict(found.caps)
    ports = ", ".join(f"{name} {number}" for name, number in meta.ports.items())
    able, unable = ([name for name, can in caps.items() if can is one] for one in (True, False))
    words = [
        f"Members are {', '.join(meta.roles)}; writes are decided by {QUORUM[meta.quorum]}. Ports: {ports}.",
        f"The operator can: {', '.join(able)}." + (f" It cannot: {', '.join(unable)}." if unable else ""),
    ]
    return [" ".join(words), ""]


def testing() -> str:
    parts = ["# Python: fleet.testing", "", shown(fleet_testing.__doc__ or ""), "", "## Fixtures", ""]
    parts += ["| fixture | gives | |", "|---|---|---|"]
    for name, value in vars(plugin).items():
        definition = getattr(value, "_fixture_function", None)
        if definition is not None and not name.startswith("fleet_"):
            gives = annotation(definition.__annotations__.get("return", ""))
            gives = re.sub(r"^Iterator\[(.*)\]$", r"\1", gives)
            parts.append(f"| `{name}` | `{gives}` | {inspect.getdoc(definition)} |")
    parts += ["", "## Classes and functions", ""]
    for name in fleet_testing.__all__:
        parts += _described(getattr(fleet_testing, name), f"fleet.testing.{name}")
    parts += ["## fleet.testing.proxy", "", shown(fleet_testing_proxy.__doc__ or ""), ""]
    for name in fleet_testing_proxy.__all__:
        parts += _described(getattr(fleet_testing_proxy, name), f"fleet.testing.proxy.{name}")
    return "\n".join(parts)


def _described(value: Any, name: str) -> list[str]:
    if inspect.isclass(value):
        return _class(value, name, "###")
    return _function(value, name, "###") if inspect.isfunction(value) else []


def _function(function: Any, name: str, level: str) -> list[str]:
    return [f"{level} {name}", "", "```text", f"{name}{signature(function)}", "```", "", prose(function), ""]


def _class(cls: type, name: str, level: str) -> list[str]:
    parts = [f"{level} {name}", "", prose(cls), ""]
    if issubclass(cls, pydantic.BaseModel):
        parts += _model_fields(cls)
    elif is_dataclass(cls):
        parts += ["| attribute | type |", "|---|---|"]
        parts += [f"| `{one.name}` | `{cell(annotation(one.type))}` |" for one in fields(cls)]
        parts.append("")
    rows = [*list_methods(cls)]
    if rows:
        parts += ["| also | |", "|---|---|", *rows, ""]
    return parts


def _model_fields(cls: type[pydantic.BaseModel]) -> list[str]:
    said = _field_texts(cls)
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for name, field in cls.model_fields.items():
        positional = " (positional)" if field.kw_only is False else ""
        text = said.get(name, "").replace("\n", " ")
        rows.append(
            f"| `{name}`{positional} | `{cell(annotation(field.annotation))}` | {_default(field)} | {cell(text)} |"
        )
    return [*rows, ""]


def _field_texts(cls: type) -> dict[str, str]:
    """The string below each field, of the class and those it is made from."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Model) or base is Model:
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for item, below in pairwise(body):
            if (
                isinstance(item, ast.AnnAssign)
                and isinstance(item.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                found[item.target.id] = inspect.cleandoc(below.value.value)
    return found


def list_methods(cls: type) -> Iterator[str]:
    """Yield a row for each method and property of a class that says what it is for."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property) and value.fget and value.fget.__doc__:
            yield f"| `.{name}` | {cell(first(value.fget))} |"
        elif isinstance(value, classmethod | staticmethod) and value.__func__.__doc__:
            yield f"| `.{name}{cell(signature(value.__func__, own=True))}` | {cell(first(value.__func__))} |"
        elif inspect.isfunction(value) and value.__doc__:
            yield f"| `.{name}{cell(signature(value, own=True))}` | {cell(first(value))} |"
    for method in derived_methods(cls):
        yield f"| `.{method.__name__}{cell(signature(method, own=True))}` | {cell(first(method))} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, pydantic.BaseModel):
        return f"`{type(value).__name__}()`"
    return f"`{value!r}`".replace('"', "'") if not hasattr(value, "items") else "`{}`"
