"""The base of everything a user constructs: strict, immutable, and with errors that point at the user's line.

A field with `Field(kw_only=False)` may be given by position, as type checkers understand it too: `Etcd("main", …)`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from fleet.errors import ConfigurationError
from fleet.model.docs import field_docs
from fleet.model.invalid import configuration_error
from fleet.model.rule import Rule
from fleet.model.source import locate
from fleet.printable import count_noun


@cache
def _positional(cls: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name, field in cls.model_fields.items() if field.kw_only is False)


def _model_at(model: type[BaseModel], location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model inside `model` that has the field at a location, if it can be told."""
    for part in location:
        found = next((field for name, field in model.model_fields.items() if part in (name, field.alias)), None)
        inner = (found.annotation, *get_args(found.annotation)) if found else ()
        models = [one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)]
        if len(models) != 1:
            return None
        model = models[0]
    return model


class Model(BaseModel, frozen=True):
    """Field names are Python's here and camelCase in Kubernetes; unknown fields and loose types are errors."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=False,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()  # about several fields at once

    if not TYPE_CHECKING:  # the type checker's signature is made from the fields

        def __init__(self, *positional, **fields):
            cls = type(self)
            given = {**cls._named(positional), **fields}
            if len(given) < len(positional) + len(fields):
                twice = sorted(cls._named(positional).keys() & fields.keys())
                raise ConfigurationError("is given twice", source=locate(), field=twice[0])
            try:
                self.__pydantic_validator__.validate_python(given, self_instance=self)
            except ValidationError as error:
                raise cls._refused(error) from None

        __init__.__pydantic_base_init__ = True  # reading data (model_validate) does not come through here

    @classmethod
    def _named(cls, positional: tuple[Any, ...]) -> dict[str, Any]:
        names = _positional(cls)
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
    def _refused(cls, error: ValidationError, *, by_alias: bool = False) -> ConfigurationError:
        def fields(location: tuple[str | int, ...]) -> dict[str, str]:
            model = _model_at(cls, location)
            docs = field_docs(model) if model else {}
            known = model.model_fields.items() if model else ()
            return {(field.alias or name) if by_alias else name: docs.get(name, "") for name, field in known}

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
        """From the form that Kubernetes has (camelCase), as `dump` writes it."""
        return cls.model_validate(data, by_alias=True, by_name=False)

    def dump(self) -> dict[str, Any]:
        """In the form that Kubernetes has, with only what was said: defaults are the API server's to fill in."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
