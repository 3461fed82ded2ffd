"""Writes docs/reference/, the JSON schemas, and the stub of the methods that faults have, from the code.

    python -m docs.tools.reference           write the pages
    python -m docs.tools.reference --check   exit with 1 and say which differ

A page says only what the code says: help texts, docstrings, types, defaults. So it is as good as those are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.tools.reference import preview
from docs.tools.reference.app_type import app_type
from docs.tools.reference.command_line import command_line
from docs.tools.reference.contracts import exit_codes, status_file
from docs.tools.reference.faults import STUB_FILE, stub_text
from docs.tools.reference.metrics import metrics
from docs.tools.reference.python import apps, stacks, testing
from docs.tools.reference.resources import custom_resources
from docs.tools.reference.settings import SCHEMA, settings
from docs.tools.reference.text import ROOT
from fleet.repository import schema

TARGET = ROOT / "docs" / "reference"
NOTE = "<!-- Written from the code: edit that, then run `make docs`. -->\n"


def pages() -> dict[str, str]:
    """Every page by its name."""
    made = {
        "command-line.md": command_line(),
        "settings.md": settings(),
        "stacks.md": stacks(),
        "apps.md": apps(),
        "app-type.md": app_type(),
        "testing.md": testing(),
        "custom-resources.md": custom_resources(),
        "exit-codes.md": exit_codes(),
        "status-file.md": status_file(),
        "preview-json.md": preview.preview_json(),
        "metrics.md": metrics(),
    }
    return {name: f"{NOTE}\n{text.strip()}\n" for name, text in made.items()}


def other_files() -> dict[Path, str]:
    """Every JSON schema, and the stub of the methods that faults have, by its file."""
    return {preview.SCHEMA_FILE: preview.schema_text(), SCHEMA: schema.schema_text(), STUB_FILE: stub_text()}


def main(arguments: list[str]) -> int:
    made = pages()
    if "--check" in arguments:
        there = {file.name: file.read_text(encoding="utf-8") for file in TARGET.glob("*.md")}
        wrong = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
        wrong = [f"docs/reference/{name}" for name in wrong]
        for file, text in other_files().items():
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                wrong.append(file.relative_to(ROOT).as_posix())
        for name in wrong:
            print(f"{name} differs from the code: run `make docs`", file=sys.stderr)
        return 1 if wrong else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for file in TARGET.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    for file, text in other_files().items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
