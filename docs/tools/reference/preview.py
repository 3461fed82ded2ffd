"""The JSON of `fleet preview`: a page for people and a JSON schema, both from fleet.plan.views.json_schema."""

from __future__ import annotations

import inspect
import json
from typing import Any

from docs.tools.reference.text import ROOT
from fleet.plan.views import json_schema

SCHEMA_FILE = ROOT / "docs" / "reference" / "preview.schema.json"


def schema_text() -> str:
    return json.dumps(json_schema.preview_schema(), indent=2, ensure_ascii=False) + "\n"


def preview_json() -> str:
    made = json_schema.preview_schema()
    about = inspect.cleandoc(json_schema.__doc__ or "").split("\n\n")[1]
    parts = ["# The JSON of a preview", ""]
    parts += ["`fleet preview -o json` (and `-o yaml`, and `plan` of `fleet sync -o json`). As a schema for programs:"]
    parts += ["[preview.schema.json](preview.schema.json).", "", about, "", *_table("The document", made)]
    for name, part in made["$defs"].items():
        parts += _table(name, part)
    return "\n".join(parts)


def _table(title: str, part: dict[str, Any]) -> list[str]:
    needed = part.get("required", [])
    rows = [
        f"| `{name}` | {_type(field)} | {'always' if name in needed else 'if there is one'} | {_words(field)} |"
        for name, field in part["properties"].items()
    ]
    return [f"## {title}", "", "| field | type | there | |", "|---|---|---|---|", *rows, ""]


def _words(field: dict[str, Any]) -> str:
    return str(field.get("description", "")).replace("|", "\\|")


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    return str(field.get("type", "anything"))
