"""A rule that is said once and holds twice: in Python, for a stack's author, and in CEL, for the API server.

A rule stands in a field's `Annotated`, about that field's value, or in a model's `rules`, about the whole model. With
`allows` it is about a change: from the old value to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fleet.model.invalid import wrong

STORED = "stored"  # in a validation's context: the spec is a cluster's, and may be older than a rule of ours
VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """`cel` and `holds` (or `allows`) say the same; `message` continues the field's name in an error."""

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    allows: Callable[[Any, Any], bool] | None = None
    hint: Callable[[Any], str] | str | None = None
    field: str = ""  # of a model's rule: the field to point at
    at: str = ""  # where that is in the custom resource, if it has another name there
    # False: asked of what stands in git, and not of what a cluster has, which may be older than the rule. The server
    # asks it of new objects and of changed ones.
    stored: bool = True

    def check(self, value: Any) -> None:
        if self.holds is not None and not self.holds(value):
            shown = "" if isinstance(value, BaseModel) else f", not {value!r}"
            raise wrong(f"{self.message}{shown}", self.remedy(value), self.field)

    def remedy(self, value: Any) -> str | None:
        return self.hint(value) if callable(self.hint) else self.hint

    def validation(self) -> dict[str, str]:
        """As the CRD has it."""
        path = {"fieldPath": f".{self.at or to_camel(self.field)}"} if self.field else {}
        return {"rule": self.cel, "message": self.message, **path}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        if self.holds is None:
            return schema

        def checked(value: Any) -> Any:
            self.check(value)
            return value

        return core_schema.no_info_after_validator_function(checked, schema)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema[VALIDATIONS] = [*json_schema.get(VALIDATIONS, ()), self.validation()]
        return json_schema


IMMUTABLE = Rule(
    cel="self == oldSelf",
    message="cannot be changed once the app exists",
    allows=lambda old, new: bool(old == new),
    hint="make a new app with the new value and move the data with a backup and restore_from",
)


def forbidden(old: BaseModel, new: BaseModel, path: str = "") -> Iterator[tuple[str, str, str | None]]:
    """Every change from `old` to `new` that a rule forbids: the field, what is wrong, what would be right."""
    for name, field in type(new).model_fields.items():
        before, after = getattr(old, name, None), getattr(new, name)
        where = f"{path}.{name}" if path else name
        for rule in field.metadata:
            if isinstance(rule, Rule) and rule.allows is not None and not rule.allows(before, after):
                yield where, rule.message, rule.remedy(after)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel) and type(before) is type(after):
            yield from forbidden(before, after, where)
    rules: tuple[Rule, ...] = getattr(type(new), "rules", ())
    for rule in rules:
        if rule.allows is not None and not rule.allows(old, new):
            yield ".".join(part for part in (path, rule.field) if part), rule.message, rule.remedy(new)
