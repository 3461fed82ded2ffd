"""Labels of a cluster: a mapping that cannot change, and that says which labels there are when one is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from fleet.errors import ConfigurationError
from fleet.model.frozen import FrozenMap
from fleet.model.invalid import wrong
from fleet.model.source import locate
from fleet.suggestion import suggestion

_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class UnknownLabelError(ConfigurationError, KeyError):
    """A KeyError too, so that `labels.get(…)`, `in` and `except KeyError` work as for any mapping."""

    __str__ = ConfigurationError.__str__


class Labels(FrozenMap):
    """Keys and values as Kubernetes takes them."""

    __slots__ = ("_owner",)

    def __init__(self, labels: Mapping[str, str] | None = None, owner: str = "") -> None:
        super().__init__(labels)
        self._owner = owner  # the cluster's name, for errors

    def __getitem__(self, key: str) -> str:
        if key in self:
            return super().__getitem__(key)
        owner = f"cluster {self._owner!r}" if self._owner else "the cluster"
        hint = suggestion(key, self) or f"{owner} has no labels at all: give it some in clusters/"
        raise UnknownLabelError(f"{owner} has no label {key!r}", hint=hint, source=locate(), field=f"labels[{key!r}]")


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        check_label_key(key)
        if value and (len(value) > 63 or not _PART.fullmatch(value)):
            raise wrong(f"{value!r} is not a value for the label {key!r}", "letters, digits and -_. (63 at most)")
    return dict(labels)


def check_label_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if len(name) > 63 or not _PART.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise wrong(f"{key!r} is not a name for a label", "letters, digits and -_. with a DNS prefix if need be")
    return key


def _labels(value: object) -> Labels:
    if isinstance(value, Labels):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise wrong("must be a dict of label names and values, both strings", 'such as {"env": "prod", "region": "eu"}')
    return Labels(check_labels(value))


LabelField = Annotated[Mapping[str, str], PlainValidator(_labels), PlainSerializer(dict, return_type=dict[str, str])]
