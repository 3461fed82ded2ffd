"""Settings of engines that come as YAML from people who may be nobody's friend: read within bounds, or refused. Pure.

A few hundred characters with aliases unfold to more than any memory holds, and a few thousand brackets are deeper than
Python recurses. So the parser's events are counted before anything is built: no aliases, no tags, so many values, so
deep. What a word means is as sigs.k8s.io/yaml has it: etcd reads its configuration with that.
"""

from __future__ import annotations

from typing import Any

import yaml

from fleet.yaml_text import NotYamlError, read_documents

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FILE_CHARACTERS = 64 * 1024
FILE_VALUES = 4096
FILE_DEPTH = 8
LIST_VALUES = 256


class SettingsError(ValueError):
    """Text that is not taken as settings; the message continues the name of what was read."""


def read_value(text: str) -> Any:
    """Return the value of one setting: a word, a number, true or false, or a list of them."""
    value = _read(text, values=LIST_VALUES, depth=1)
    if isinstance(value, dict):
        raise SettingsError("is a mapping: no setting has parts; quote it if it is text")
    return value


def read_settings(text: str) -> dict[str, Any]:
    """Return the settings in a file."""
    if len(text) > FILE_CHARACTERS:
        raise SettingsError(f"has more than {FILE_CHARACTERS:,} characters")
    found = _read(text, values=FILE_VALUES, depth=FILE_DEPTH)
    if not isinstance(found, dict):
        raise SettingsError("is no mapping of names to values")
    return found


def _read(text: str, *, values: int, depth: int) -> Any:
    try:
        _count(text, values, depth)
        documents = list(read_documents(text, values))
    except SettingsError:
        raise
    except (yaml.YAMLError, NotYamlError, UnicodeError) as problem:
        raise SettingsError(f"is not YAML: {getattr(problem, 'problem', None) or problem}") from None
    return documents[0].data if documents else None


def _count(text: str, values: int, depth: int) -> None:
    """Refuse before anything is built."""
    level = count = documents = 0
    for event in yaml.parse(text, Loader=_LOADER):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise SettingsError("has an anchor or an alias, which are not taken")
        if isinstance(event, yaml.NodeEvent):
            count += 1
            if (tag := getattr(event, "tag", None)) is not None:
                raise SettingsError(f"has a tag, {tag}, and tags are not taken")
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if level > depth:
            raise SettingsError("is nested too deep")
        if count > values:
            raise SettingsError(f"has more than {values:,} values")
        if documents > 1:
            raise SettingsError("has several documents")
