"""Text from code: docstrings, comments behind fields, signatures and types as people read them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def comments(module: types.ModuleType) -> dict[tuple[str, str], str]:
    """The comment behind each field of the module's classes, by class and field."""
    text = inspect.getsource(module)
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            target: ast.expr | None = item.target if isinstance(item, ast.AnnAssign) else None
            target = item.targets[0] if isinstance(item, ast.Assign) else target
            if isinstance(node, ast.ClassDef) and isinstance(target, ast.Name):
                found[node.name, target.id] = lines[item.lineno - 1].partition("  # ")[2]
    return found


def prose(thing: Any) -> str:
    """The docstring, unless it is the one that dataclasses make up."""
    text = inspect.getdoc(thing) or ""
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else shown(text)


def shown(text: str) -> str:
    """Markdown, with what is indented or typed at a prompt as a block."""
    text = inspect.cleandoc(text) + "\n"
    block = r"(?m)^((?:    .*\n|>>> .*\n(?:.+\n)*)+)"
    return re.sub(block, lambda match: f"```text\n{textwrap.dedent(match[1])}```\n", text).strip()


def first(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").replace("\n", " ")


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def signature(function: Any, *, own: bool = False) -> str:
    text = str(inspect.signature(function))
    text = re.sub(r"(: |-> |= |\[|\| )'([^']*)'", r"\1\2", text)
    text = re.sub(r"\((self|cls)(, )?", "(", text) if own else text
    text = re.sub(r"<class '(\w+)'>", r"\1", text)
    text = re.sub(r", \*, source: Source = Source\([^)]*\)", "", text)
    text = re.sub(r"fleet\.model\.\w+(\.\w+)*\.|typing\.|collections\.abc\.|pathlib\.", "", text)
    return text.replace("(function: None = None, /, *, ", "(*, ").replace(", /)", ")").replace(", /,", ",")


def annotation(value: Any) -> str:
    if isinstance(value, str):
        return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", value)
    origin = typing.get_origin(value)
    arguments = typing.get_args(value)
    if origin is typing.Annotated:
        return annotation(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return " | ".join(annotation(one) for one in arguments)
    if origin is typing.Literal:
        return " | ".join(f'"{one}"' for one in arguments)
    if origin is not None:
        inner = ", ".join("..." if one is ... else annotation(one) for one in arguments)
        return f"{getattr(origin, '__name__', str(origin))}[{inner}]"
    if value is type(None):
        return "None"
    return getattr(value, "__name__", str(value))
