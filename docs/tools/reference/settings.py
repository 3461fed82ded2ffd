"""fleet.toml: sections, defaults, and what the file of a new repository says about each setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from docs.tools.reference.text import ROOT, comments, prose
from fleet.repository import settings as module
from fleet.repository.settings import SECTIONS


def settings() -> str:
    said = {**comments(module), **_comments_of_template(SECTIONS)}
    parts = [
        "# fleet.toml",
        "",
        "Settings of a repository, at its root. Everything has a default: an empty file is enough.",
        "",
    ]
    for name, (section, _) in SECTIONS.items():
        parts += [f"## [{name}]", "", prose(section), "", "| setting | default | meaning |", "|---|---|---|"]
        for field in fields(section):
            default = _toml(field.default, field.name)
            parts.append(f"| `{field.name}` | `{default}` | {said.get((section.__name__, field.name), '')} |")
        parts.append("")
    return "\n".join(parts)


def _comments_of_template(sections: Mapping[str, tuple[type, Any]]) -> dict[tuple[str, str], str]:
    """What the fleet.toml of a new repository says behind each setting."""
    text = (ROOT / "fleet" / "repository" / "template" / "fleet.toml").read_text(encoding="utf-8")
    found, section = {}, ""
    for line in text.splitlines():
        if header := re.match(r"\[(\w+)\]", line):
            section = header[1]
        elif setting := re.match(r"#? ?(\w+) = .*?  +# (.+)", line):
            found[sections[section][0].__name__, setting[1]] = setting[2]
    return found


def _toml(value: object, name: str) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and name == "share":
        return f'"{value:.0%}"'
    if isinstance(value, float):
        return f'"{value:g}s"'
    if isinstance(value, int) and name in ("memory", "output", "result"):
        return f'"{value // 1024**2}Mi"'
    return str(value)
