"""Writes docs/reference/ from the code, and the stub of the methods that faults have.

    python -m docs.tools.reference           write the pages
    python -m docs.tools.reference --check   exit with 1 and say which differ

A page says only what the code says: help texts, docstrings, types, defaults. So it is as good as those are.
"""

from __future__ import annotations

import sys

from docs.tools.reference.command_line import command_line
from docs.tools.reference.contracts import exit_codes, status_file
from docs.tools.reference.faults import STUB_FILE, stub_text
from docs.tools.reference.metrics import metrics
from docs.tools.reference.preview import SCHEMA_FILE, preview_json, schema_text
from docs.tools.reference.python import apps, stacks, testing
from docs.tools.reference.resources import custom_resources
from docs.tools.reference.settings import settings
from docs.tools.reference.text import ROOT

TARGET = ROOT / "docs" / "reference"
NOTE = "<!-- Written from the code: edit that, then run `make docs`. -->\n"


def pages() -> dict[str, str]:
    """Every page by its name."""
    made = {
        "command-line.md": command_line(),
        "settings.md": settings(),
        "stacks.md": stacks(),
        "apps.md": apps(),
        "testing.md": testing(),
        "custom-resources.md": custom_resources(),
        "exit-codes.md": exit_codes(),
        "status-file.md": status_file(),
        "preview-json.md": preview_json(),
        "metrics.md": metrics(),
    }
    return {name: f"{NOTE}\n{text.strip()}\n" for name, text in made.items()}


def main(arguments: list[str]) -> int:
    made = pages()
    if "--check" in arguments:
        there = {file.name: file.read_text(encoding="utf-8") for file in TARGET.glob("*.md")}
        wrong = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
        if not SCHEMA_FILE.exists() or SCHEMA_FILE.read_text(encoding="utf-8") != schema_text():
            wrong.append(SCHEMA_FILE.name)
        if not STUB_FILE.exists() or STUB_FILE.read_text(encoding="utf-8") != stub_text():
            print(f"{STUB_FILE.relative_to(ROOT)} differs from the code: run `make docs`", file=sys.stderr)
            return 1
        for name in wrong:
            print(f"docs/reference/{name} differs from the code: run `make docs`", file=sys.stderr)
        return 1 if wrong else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for file in TARGET.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    STUB_FILE.write_text(stub_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
