"""The JSON schema of `fleet.toml`, with which editors check and explain it, written from the settings' declarations.

`fleet init` puts it beside the `fleet.toml` that refers to it: so editors need no network, and have that release's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fleet.docstrings import read_field_docs
from fleet.repository.settings import FILE, SECTIONS
from fleet.repository.values import Value


@dataclass(frozen=True, slots=True)
class SettingDoc:
    """What is declared about one setting."""

    name: str
    default: object  # as fleet.toml has it; "": not set
    description: str
    value: Value[Any]


def describe_sections() -> Iterator[tuple[str, str, tuple[SettingDoc, ...]]]:
    """Yield the name, the description and the settings of each section."""
    for name, section in SECTIONS.items():
        default = section()
        docs = read_field_docs(type(default))
        settings = [
            SettingDoc(field.name, field.metadata["default"], docs.get(field.name, ""), field.metadata["value"])
            for field in fields(default)
        ]
        yield name, " ".join((type(default).__doc__ or "").split()), tuple(settings)


def settings_schema() -> dict[str, Any]:
    """Return the schema. What it refuses, fleet refuses; what only fleet can judge, it lets through."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",  # the latest that Taplo reads
        "title": FILE,
        "description": "Settings of a fleet. Every setting has a default.",
        **_object({name: _section_schema(text, settings) for name, text, settings in describe_sections()}),
    }


def schema_text() -> str:
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"


def _section_schema(description: str, settings: tuple[SettingDoc, ...]) -> dict[str, Any]:
    return {"description": description, **_object({setting.name: _setting_schema(setting) for setting in settings})}


def _setting_schema(setting: SettingDoc) -> dict[str, Any]:
    default = {} if setting.default == "" else {"default": setting.default}
    return {"description": setting.description, **setting.value.schema(), **default}


def _object(properties: Mapping[str, object]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}
