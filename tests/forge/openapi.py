"""Requests and answers against an OpenAPI description, as far as the ones that we send need it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


@dataclass(frozen=True, slots=True)
class Api:
    document: dict[str, Any]

    def check(self, method: str, target: str, body: Any) -> dict[str, Any]:
        """The operation that a request means, after a check of its path, query and body."""
        place = urlsplit(target)
        operation = self._operation(method, place.path)
        known = {one["name"]: one for one in map(self._meant, operation.get("parameters", ())) if one["in"] == "query"}
        for name, value in parse_qsl(place.query):
            assert name in known, f"{method} {place.path} has no parameter {name}"
            schema = self._meant(known[name]["schema"])
            self.agree(int(value) if schema.get("type") == "integer" else value, schema, name)
        wanted = operation.get("requestBody")
        assert (body is None) == (wanted is None), f"{method} {place.path}: {body!r}"
        if wanted:
            schema = self._meant(wanted)["content"]["application/json"]["schema"]
            self.agree(body, schema, "body")
            assert set(body) <= set(self._meant(schema)["properties"]), f"{body} has more than is described"
        return operation

    def answer(self, operation: dict[str, Any]) -> tuple[int, Any]:
        """The published example of the answer when it went well, which must agree with its own schema."""
        status = min(code for code in operation["responses"] if code.startswith("2"))
        content = self._meant(operation["responses"][status]).get("content", {}).get("application/json")
        if content is None:
            return int(status), None
        example = self._meant(next(iter(content["examples"].values())))["value"]
        self.agree(example, content["schema"], "answer")
        return int(status), example

    def answered(self, operation: dict[str, Any], body: Any) -> None:
        """An answer of our own when it went well, against the description."""
        self.agree(body, operation["responses"]["200"]["content"]["application/json"]["schema"], "answer")

    def agree(self, value: Any, schema: dict[str, Any], where: str) -> None:
        schema = self._meant(schema)
        if value is None:
            # GitHub's own examples leave out `nullable` here and there, and types of Go do not say it; that is theirs.
            return
        for one in schema.get("allOf", ()):
            self.agree(value, one, where)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                assert any(self._agrees(value, one, where) for one in schema[name]), f"{where}: none of {name}"
        kind = schema.get("type")
        if kind:
            assert isinstance(value, _TYPES[kind]), f"{where}: {value!r} is no {kind}"
        assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r} is none of {schema['enum']}"
        if isinstance(value, dict):
            missing = set(schema.get("required", ())) - set(value) if where == "body" else set()
            assert not missing, f"{where}: without {missing}"
            more = set(value) - set(schema.get("properties", ())) if schema.get("additionalProperties") is False else ()
            assert not more, f"{where} has more than is described: {more}"
            for name, one in schema.get("properties", {}).items():
                if name in value:
                    self.agree(value[name], one, f"{where}.{name}")
        if isinstance(value, list) and "items" in schema:
            for one in value:
                self.agree(one, schema["items"], f"{where}[]")

    def _agrees(self, value: Any, schema: dict[str, Any], where: str) -> bool:
        try:
            self.agree(value, schema, where)
        except AssertionError:
            return False
        return True

    def _operation(self, method: str, path: str) -> dict[str, Any]:
        for template, operations in self.document["paths"].items():
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path) and method.lower() in operations:
                found: dict[str, Any] = operations[method.lower()]
                return found
        raise AssertionError(f"there is no {method} {path}")

    def _meant(self, one: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in one:
            found: Any = self.document
            for name in one["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            one = found
        return one
