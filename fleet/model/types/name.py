"""Names as Kubernetes takes them: lower-case letters, digits and dashes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from fleet.model.invalid import wrong
from fleet.printable import count_noun

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_EXPORT = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]*")
LONGEST = 63  # of a DNS label
LONGEST_OBJECT = 253  # of a DNS subdomain
LONGEST_APP = 40  # leaves room for what is made of it: pods, services, secrets, and the hash in a pod's label


def check_name(text: str) -> str:
    """A DNS label."""
    return _check(text, LONGEST)


def check_app_name(text: str) -> str:
    """A DNS label that starts with a letter, as names of Services must, and leaves room for suffixes."""
    _check(text, LONGEST_APP)
    if not text[0].isalpha():
        raise wrong(f"{text!r} must start with a letter: it becomes the name of a Service", _proposal(f"app-{text}"))
    return text


def check_object_name(text: str) -> str:
    """A name of an object that need not be a DNS label: a Secret, a StorageClass."""
    if text and _SUBDOMAIN.fullmatch(text) and ".." not in text and len(text) <= LONGEST_OBJECT:
        return text
    allowed = "lower-case letters, digits, dashes and dots, starting and ending with a letter or digit"
    raise wrong(f"{text!r} is not the name of an object: {allowed}", _proposal(text))


def check_export_name(text: str) -> str:
    if _EXPORT.fullmatch(text):
        return text
    raise wrong(f"{text!r} is not a name: letters, digits, dashes, dots and underscores, starting with a letter")


def _check(text: str, longest: int) -> str:
    if not text:
        raise wrong("a name is missing", "give one such as 'orders-db'")
    if not _LABEL.fullmatch(text):
        allowed = "lower-case letters, digits and dashes, starting and ending with a letter or digit"
        raise wrong(f"{text!r} is not a name: {allowed}", _proposal(text))
    if len(text) > longest:
        raise wrong(f"{text!r} has {count_noun(len(text), 'character')}, {longest} is the most")
    return text


def _proposal(text: str) -> str | None:
    """A name that is near to what was written and would be right."""
    kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text)
    plain = re.sub(r"[^a-z0-9]+", "-", kebab.lower()).strip("-")
    return f"{plain!r} would be right" if plain else None


def _schema(longest: int, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": longest})


Name = Annotated[str, AfterValidator(check_name), _schema(LONGEST, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
AppName = Annotated[str, AfterValidator(check_app_name), _schema(LONGEST_APP, "^[a-z]([-a-z0-9]*[a-z0-9])?$")]
OBJECT_NAME = _schema(LONGEST_OBJECT, "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
ObjectName = Annotated[str, AfterValidator(check_object_name), OBJECT_NAME]
ExportName = Annotated[str, AfterValidator(check_export_name)]
