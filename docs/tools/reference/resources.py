"""Custom resources, field by field, from the definitions in crds/."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import yaml

from docs.tools.reference.text import ROOT, cell


def custom_resources() -> str:
    parts = [
        "# Custom resources",
        "",
        "What a fleet app is in a cluster. `fleet crds` prints the definitions; a sync installs what is missing.",
        "In a cluster, `kubectl explain etcd.spec` says the same.",
        "",
    ]
    for file in sorted((ROOT / "crds").glob("*.yaml")):
        definition = yaml.safe_load(file.read_text(encoding="utf-8"))
        spec = definition["spec"]
        short = ", ".join(spec["names"].get("shortNames", ())) or "none"
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            parts += [f"## {spec['names']['kind']} ({spec['group']}/{version['name']})", ""]
            parts += [schema.get("description", ""), "", f"Short names: {short}.", ""]
            for part in ("spec", "status"):
                parts += [f"### {part}", "", "| field | type | default | |", "|---|---|---|---|"]
                parts += [*_schema_rows(schema["properties"][part], ""), ""]
    return "\n".join(parts)


def _schema_rows(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if field.get("description", "").startswith("Refused: "):
            continue  # it is there for its rule alone
        path = f"{prefix}{name}"
        kind = field.get("type", "any")
        if "enum" in field:
            kind = " \\| ".join(f'"{one}"' for one in field["enum"])
        inner = field.get("items") if kind == "array" else field
        default = f"`{_json(field['default'])}`" if "default" in field else ""
        required = "required" if name in schema.get("required", ()) else default
        text = cell(" ".join(field.get("description", "").split()))
        rules = [rule["message"] for rule in field.get("x-kubernetes-validations", ()) if "message" in rule]
        text += f" ({'; '.join(cell(rule) for rule in rules)})" if rules else ""
        yield f"| `{path}` | {kind} | {required} | {text} |"
        if isinstance(inner, dict):
            yield from _schema_rows(inner, f"{path}[]." if kind == "array" else f"{path}.")


def _json(value: object) -> str:
    return cell(orjson.dumps(value).decode())
