"""GitLab's own client, in Go, read as a description of its API: in OpenAPI's terms, as far as we need them.

GitLab has a description in OpenAPI too, and publishes it in no package. The client's sources say the same: every
function names a method and a path, with a type for its parameters and one for the answer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\n(.*?)^)?\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t\w+ +(?P<type>\S+) +`(?P<tags>[^`]+)`", re.MULTILINE)
_EMBEDDED = re.compile(r"^\t\*?(\w+)$", re.MULTILINE)
_SAME = re.compile(r"^type (\w+) (\w+)$", re.MULTILINE)
_NAMED = re.compile(r"^type (\w+) (string|int|int64|\[\]string)$", re.MULTILINE)
_CONSTANT = re.compile(r'^\t\w+ +(?P<type>\w+) += +(?:"(?P<text>[^"]*)"|(?P<number>\d+))$', re.MULTILINE)
_FUNCTION = re.compile(
    r"^func \(s \*\w+Service\) \w+\((?P<takes>.*?)\) \(.*?\{\n(?P<does>.*?)^\}", re.MULTILINE | re.DOTALL
)
_TYPES = {
    "string": "string",
    "time.Time": "string",
    "ISOTime": "string",
    "bool": "boolean",
    "int": "integer",
    "int64": "integer",
    "float64": "number",
}
Schema = dict[str, Any]


def document(sources: Mapping[str, str]) -> dict[str, Any]:
    """OpenAPI's document of the paths and types in these sources."""
    text = "\n".join(content for name, content in sources.items() if name.endswith(".go"))
    structs = dict(_STRUCT.findall(text))
    structs |= {name: structs[other] for name, other in _SAME.findall(text) if other in structs}
    schemas = {name: _struct(name, structs, "json") for name in structs} | _named(text)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for function in _FUNCTION.finditer(text):
        does = function["does"]
        path, answer = re.search(r'withPath\("(\w[^"]*)"', does), re.search(r"do\[(\S+)\]\(s\.client", does)
        if not path or not answer:  # files that are sent, and the like
            continue
        said = re.search(r"withMethod\(http\.Method(\w+)\)", does)
        method = said[1].lower() if said else "get"
        options = re.search(r"opt \*(\w+)", function["takes"])
        operation = _operation(method, options[1] if options else "", structs)
        operation["responses"] = {"200": _json({} if answer[1] == "none" else _type(answer[1]))}
        paths["/" + re.sub("%[sd]", "{it}", path[1])].setdefault(method, operation)
    return {"paths": paths, "components": {"schemas": schemas}}


def _operation(method: str, options: str, structs: Mapping[str, str]) -> dict[str, Any]:
    if not options:
        return {}
    if method != "get":
        return {"requestBody": _json({"$ref": f"#/components/schemas/{options}"})}
    properties = _struct(options, structs, "url")["properties"]
    return {"parameters": [{"name": name, "in": "query", "schema": one} for name, one in properties.items()]}


def _struct(name: str, structs: Mapping[str, str], tag: str) -> Schema:
    """What a tag of its fields, `json` or `url`, says. Nothing else is there."""
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for above in _EMBEDDED.findall(structs[name]):
        if above in structs:
            properties |= _struct(above, structs, tag)["properties"]
    for field in _FIELD.finditer(structs[name]):
        tagged = re.search(rf'\b{tag}:"([^",]+)([^"]*)"', field["tags"])
        if tagged:
            properties[tagged[1]] = _type(field["type"])
            if "omitempty" not in tagged[2]:
                required.append(tagged[1])
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _type(name: str) -> Schema:
    name = name.lstrip("*")
    if name.startswith("[]"):
        return {"type": "array", "items": _type(name[2:])}
    if name in _TYPES:
        return {"type": _TYPES[name]}
    return {"$ref": f"#/components/schemas/{name}"} if name.isidentifier() and name != "any" else {}


def _named(text: str) -> dict[str, Schema]:
    """Types that are a text or a number with a name, and of which the values are named too."""
    values: dict[str, list[str | int]] = defaultdict(list)
    for one in _CONSTANT.finditer(text):
        values[one["type"]].append(int(one["number"]) if one["number"] else one["text"])
    return {
        name: _type(kind) | ({"enum": values[name]} if name in values else {}) for name, kind in _NAMED.findall(text)
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}
