"""What programs rely on: exit codes and the files of the status branch, from the docstrings that define them."""

from __future__ import annotations

import inspect
import re

from fleet import errors
from fleet.git import status as notes
from fleet.git import status_records


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
    body = re.sub(r"(?m)^((?:    .*\n?)+)", lambda match: f"```text\n{inspect.cleandoc(match[1])}\n```\n", body + "\n")
    said = inspect.cleandoc(notes.__doc__ or "").replace(" Pure.", "").split("\n\n")
    note = "\n".join(line.removeprefix("    ") for line in said[1].splitlines())
    return f"{body}\n## Notes\n\n{said[0]}\n\n```text\n{note}\n```\n\n{' '.join(said[2:])}\n"
