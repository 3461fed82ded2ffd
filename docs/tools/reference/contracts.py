"""What programs rely on: exit codes and the files of the status branch, from the docstrings that define them."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from types import ModuleType

from docs.tools.reference.text import shown
from fleet import errors
from fleet.git import status, status_records


def exit_codes() -> str:
    tree = (errors.__doc__ or "").split("\n\n")[1]
    rows = []
    for line in tree.splitlines():
        match = re.match(r"[ │├└─]*(\w+) +(\d) +(.*)", line)
        if match:
            rows.append(f"| {match[2]} | {match[3]} | `fleet.errors.{match[1]}` |")
    parts = ["# Exit codes", "", "| code | when | in Python |", "|---|---|---|", "| 0 | all is well | |", *rows, ""]
    parts += [
        "When several clusters fail for different reasons the code is 4. Errors are printed on standard error:",
        "",
    ]
    parts += ["```text", "error: FILE:LINE: FIELD: what is wrong", "  hint: what would be right", "```"]
    return "\n".join(parts)


def status_file() -> str:
    text = inspect.cleandoc(status_records.__doc__ or "")
    _, form, *rest = text.split("\n\n")
    parts = ["# The status branch", "", form, "", *rest]
    body = "\n\n".join(part for part in parts if part)
    return f"{shown(body)}\n\n## Notes\n\n{shown(_constant_docstring(status, 'NOTES_REF'))}\n"


def _constant_docstring(module: ModuleType, name: str) -> str:
    """Return the string below a constant of a module; ValueError when there is none."""
    for assignment, below in pairwise(ast.parse(inspect.getsource(module)).body):
        match assignment, below:
            case ast.Assign(targets=[ast.Name(id=target)]), ast.Expr(value=ast.Constant(value=str(text))):
                if target == name:
                    return text
    raise ValueError(f"{module.__name__}.{name} has no docstring")
