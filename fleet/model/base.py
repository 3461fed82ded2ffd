"""The base of everything that a user constructs: strict, immutable, and with errors that point at the user's line.

A field with `Field(kw_only=False)` may be given by position, as type checkers understand it too: `Etcd("main", …)`. The
docstring under a field is its description, as editors show it: read from the source when it is asked for, since
start-up is not the time for it.

A rule is written once and holds twice: in Python, for a stack's author, and in CEL, for the API server. It is in a
field's `Annotated`, about that field's value, or in a model's `rules`, about the whole model. With `allows` it is about
a change: from the old value to the new one.

Other marks on a field are for the schema of a custom resource; Python does not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fleet.docstrings import read_field_docs
from fleet.errors import ConfigurationError
from fleet.model.source import locate
from fleet.model.validation import configuration_error, invalid_value
from fleet.text import count_noun


@cache
def field_docs(cls: type[BaseModel]) -> dict[str, str]:
    """Return what each field of a model is for, inherited ones included; nothing where there is no source to read."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docs |= read_field_docs(base)
    return docs


STORED = "stored"  # in a validation's context: the spec is a cluster's, and may be older than a rule of ours
VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about a value or a change. `cel` and `holds` (or `allows`) mean the same; `message` continues the field's
    name in an error.
    """

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
            actual = "" if isinstance(value, BaseModel) else f", not {value!r}"
            raise invalid_value(f"{self.message}{actual}", self.remedy(value), self.field)

    def remedy(self, value: Any) -> str | None:
        return self.hint(value) if callable(self.hint) else self.hint

    def validation(self) -> dict[str, str]:
        """Return the rule as the CRD has it."""
        path = {"fieldPath": f".{self.at or to_camel(self.field)}"} if self.field else {}
        return {"rule": self.cel, "message": self.message, **path}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        if self.holds is None:
            return schema

        def check(value: Any) -> Any:
            self.check(value)
            return value

        return core_schema.no_info_after_validator_function(check, schema)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema[VALIDATIONS] = [*json_schema.get(VALIDATIONS, ()), self.validation()]
        return json_schema


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A field that Kubernetes has and a model refuses by name, as the API server does by the model's definition."""

    type: str  # as a schema says it
    message: str
    hint: str = "leave it out"
    items: str = "object"  # of an array

    def schema(self) -> dict[str, Any]:
        """Return what the field may hold, so that a rule and not its type refuses it."""
        content: dict[str, Any] = {}
        if self.type == "array":
            more = {"x-kubernetes-preserve-unknown-fields": True} if self.items == "object" else {}
            content = {"items": {"type": self.items, **more}, "x-kubernetes-list-type": "atomic"}
        elif self.type == "object":
            content = {"x-kubernetes-preserve-unknown-fields": True}
        return {"type": self.type, "description": f"Refused: it {self.message}.", **content}


IMMUTABLE = Rule(
    cel="self == oldSelf",
    message="cannot be changed once the app exists",
    allows=lambda old, new: bool(old == new),
    hint="make a new app with the new value and move the data with a backup and restore_from",
)


def forbidden_changes(old: BaseModel, new: BaseModel, path: str = "") -> Iterator[tuple[str, str, str | None]]:
    """Yield every change from `old` to `new` that a rule forbids: the field, what is wrong, what would be right."""
    for name, field in type(new).model_fields.items():
        before, after = getattr(old, name, None), getattr(new, name)
        where = f"{path}.{name}" if path else name
        for rule in field.metadata:
            if isinstance(rule, Rule) and rule.allows is not None and not rule.allows(before, after):
                yield where, rule.message, rule.remedy(after)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel) and type(before) is type(after):
            yield from forbidden_changes(before, after, where)
    rules: tuple[Rule, ...] = getattr(type(new), "rules", ())
    for rule in rules:
        if rule.allows is not None and not rule.allows(old, new):
            yield ".".join(part for part in (path, rule.field) if part), rule.message, rule.remedy(new)


@cache
def _positional_fields(cls: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name, field in cls.model_fields.items() if field.kw_only is False)


def _model_at(model: type[BaseModel], location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """Return the model inside `model` that has the field at a location, if it can be told."""
    for part in location:
        field = next((field for name, field in model.model_fields.items() if part in (name, field.alias)), None)
        inner = (field.annotation, *get_args(field.annotation)) if field else ()
        models = [candidate for candidate in inner if isinstance(candidate, type) and issubclass(candidate, BaseModel)]
        if len(models) != 1:
            return None
        model = models[0]
    return model


class Model(BaseModel, frozen=True):
    """The base model. Names are Python's, and camelCase in Kubernetes; unknown fields and loose types are errors."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=False,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()  # about several fields at once, beside those of the classes it derives from
    # What Kubernetes has at this place, and nobody may say here: with the reason, instead of "no such field".
    forbidden: ClassVar[Mapping[str, Forbidden]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Add the rules of every class that this one derives from: those of a mixin cannot be forgotten."""
        inherited = (rule for base in reversed(cls.__mro__[1:]) for rule in vars(base).get("rules", ()))
        cls.rules = tuple(dict.fromkeys((*inherited, *vars(cls).get("rules", ()))))

    @model_validator(mode="before")
    @classmethod
    def _refuses_what_is_forbidden(cls, data: Any) -> Any:
        for name in data if cls.forbidden and isinstance(data, Mapping) else ():
            if (known := cls.forbidden.get(to_camel(str(name)))) is not None:
                raise invalid_value(known.message, known.hint, to_camel(str(name)))
        return data

    if not TYPE_CHECKING:  # the type checker's signature is made from the fields

        def __init__(self, *positional, **fields):
            cls = type(self)
            values = {**cls._name_positional(positional), **fields}
            if len(values) < len(positional) + len(fields):
                twice = sorted(cls._name_positional(positional).keys() & fields.keys())
                raise ConfigurationError("is given twice", source=locate(), field=twice[0])
            try:
                self.__pydantic_validator__.validate_python(values, self_instance=self)
            except ValidationError as error:
                raise cls._make_error(error) from None

        __init__.__pydantic_base_init__ = True  # reading data (model_validate) does not come through here

    @classmethod
    def _name_positional(cls, positional: tuple[Any, ...]) -> dict[str, Any]:
        names = _positional_fields(cls)
        if len(positional) > len(names):
            takes = f"only {', '.join(names)} by position" if names else "no value by position"
            raise ConfigurationError(
                f"takes {takes}, not {count_noun(len(positional), 'value')}",
                hint=f"name the others: {cls.__name__}(…, field=value)",
                source=locate(),
                field=cls.__name__,
            )
        return dict(zip(names, positional, strict=False))

    @classmethod
    def _make_error(cls, error: ValidationError, *, by_alias: bool = False) -> ConfigurationError:
        def fields(location: tuple[str | int, ...]) -> dict[str, str]:
            model = _model_at(cls, location)
            docs = field_docs(model) if model else {}
            fields_of_model = model.model_fields.items() if model else ()
            return {(field.alias or name) if by_alias else name: docs.get(name, "") for name, field in fields_of_model}

        return configuration_error(error, title=cls.__name__, source=locate(), fields=fields)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise ConfigurationError(
            f"{type(self).__name__} cannot be changed once it is made",
            hint="pass the value when you construct it",
            source=locate(),
            field=name,
        )

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        for rule in self.rules:
            if rule.stored:
                rule.check(self)
        return self

    @classmethod
    def read(cls, data: dict[str, Any]) -> Self:
        """Return the model of data in the form that Kubernetes has (camelCase), as `dump` writes it."""
        return cls.model_validate(data, by_alias=True, by_name=False)

    def dump(self) -> dict[str, Any]:
        """Return the model in the form that Kubernetes has, with only what was set: defaults are the API server's to
        fill in.
        """
        return self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)


class FrozenMap(Mapping[str, str]):
    """A mapping of strings that cannot change, in the place of dicts inside objects that cannot change. Ordered by key,
    hashable, and equal to a dict with the same content.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items = dict(sorted((items or {}).items()))

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True)
class OneOf:
    """A mark: the field is a union, which Kubernetes has as an object with exactly one of these fields."""

    models: Mapping[str, type[BaseModel]]


@dataclass(frozen=True)
class KeyedBy:
    """A mark: the field is a list whose items are told apart by this field, so that several writers can share it."""

    key: str


@dataclass(frozen=True)
class OfNewApps:
    """A mark: the default is that of an app that is made anew. The schema has none: of members that a user set up
    without fleet, a custom resource would say what they do not have.
    """


OF_NEW_APPS = OfNewApps()
