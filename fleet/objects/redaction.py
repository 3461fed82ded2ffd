"""The fields that are secret, and redaction of them in objects and in text. Pure.

This is the one place that decides which fields of which kinds are secret. A Secret is secret by its kind; of custom
kinds, the fields that their definition marks with `format: password`, as the server (or the definition in git) has it.
What a field is called does not matter: guessing would show the one secret that is called otherwise.

Fields are hidden by `Secrecy`; but a refusal may quote the value that it refuses. So text from servers and pods is
searched for the secret values that were sent or read (`SecretValues`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import orjson

from fleet.errors import FleetError
from fleet.objects.desired import Key
from fleet.objects.shape import mapping, mappings
from fleet.text import count_noun, quote_output

REDACTED = "(redacted)"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # holds a copy of the whole object
MARK = "password"  # the `format` of a string that is not to be shown, as OpenAPI has it
DEEPEST = 40

Trail = tuple[str, ...]  # keys of maps from the top of an object; lists are gone through, "*" is any key
Kind = tuple[str, str]  # group and kind

SECRET_FIELDS: tuple[Trail, ...] = (("data",), ("stringData",), ("metadata", "annotations"))
EVERYTHING: tuple[Trail, ...] = ((),)


def is_secret(key: Key) -> bool:
    """Return whether an object is a Secret by its kind, also where that is not written as the server wants it: such an
    object is refused, and not shown.
    """
    return _is_secret_kind(key.group, key.kind)


@lru_cache(maxsize=1024)  # it is asked about each object of each sync, and they are of a few kinds
def _is_secret_kind(group: str, kind: str) -> bool:
    return group in ("", "core") and kind.lower() in ("secret", "secrets")


@dataclass(frozen=True, slots=True)
class Secrecy:
    """The secret fields of kinds besides Secrets."""

    fields: Mapping[Kind, tuple[Trail, ...]] = field(default_factory=dict)

    def of(self, key: Key) -> tuple[Trail, ...]:
        """Return the secret fields of one object's kind."""
        if is_secret(key):
            return SECRET_FIELDS
        marked = self.fields.get((key.group, key.kind), ())
        return (*marked, ("metadata", "annotations", LAST_APPLIED)) if marked else ()

    def __or__(self, other: Secrecy) -> Secrecy:
        both = {kind: (*self.fields.get(kind, ()), *other.fields.get(kind, ())) for kind in other.fields}
        return Secrecy({**self.fields, **both}) if both else self


BUILT_IN = Secrecy()


def is_secret_field(trail: Trail, secret: Iterable[Trail]) -> bool:
    """Return whether a place in an object is, or lies inside, a secret field."""
    return any(len(trail) >= len(pattern) and _matches(trail[: len(pattern)], pattern) for pattern in secret)


def redact_value(value: Any, trail: Trail, secret: tuple[Trail, ...]) -> Any:
    """Return a value at a place in an object, without what is secret in it. Names of entries stay."""
    if value is None or not secret:
        return value
    if is_secret_field(trail, secret):
        return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED
    if not any(_matches(trail, pattern[: len(trail)]) for pattern in secret if len(pattern) > len(trail)):
        return value
    if isinstance(value, dict):
        return {name: redact_value(below, (*trail, name), secret) for name, below in value.items()}
    return [redact_value(below, trail, secret) for below in value] if isinstance(value, list) else value


def redact_manifest(manifest: Mapping[str, Any], secrecy: Secrecy = BUILT_IN) -> dict[str, Any]:
    """Return an object to be shown. One with a secret in it cannot be applied by accident: a Secret's text is shown as
    data, and the redaction mark is no base64.
    """
    items = manifest.get("items")
    if isinstance(items, list) and str(manifest.get("kind", "")).endswith("List"):
        return {
            **manifest,
            "items": [redact_manifest(item, secrecy) if isinstance(item, dict) else item for item in items],
        }
    secret = secrecy.of(_key_of(manifest))
    if not secret:
        return dict(manifest)
    redacted: dict[str, Any] = redact_value(dict(manifest), (), secret)
    if isinstance(redacted_text := redacted.pop("stringData", None), dict):
        redacted["data"] = {**mapping(redacted.get("data")), **redacted_text}
    return redacted


def secret_texts(manifest: Mapping[str, Any], secrecy: Secrecy = BUILT_IN) -> Iterator[tuple[Trail, str]]:
    """Yield every secret value of an object as text, with its place; annotations are not among them."""
    items = manifest.get("items")
    if isinstance(items, list) and str(manifest.get("kind", "")).endswith("List"):
        for item in items:
            yield from secret_texts(item, secrecy) if isinstance(item, dict) else ()
        return
    fields = tuple(item for item in secrecy.of(_key_of(manifest)) if item[:1] != ("metadata",))
    if fields:
        yield from _find_texts(manifest, (), fields)


def definition_secrecy(definition: Mapping[str, Any]) -> Secrecy:
    """Return what a CustomResourceDefinition says about its kind, in any of its versions."""
    spec = mapping(definition.get("spec"))
    kind = (str(spec.get("group", "")), str(mapping(spec.get("names")).get("kind", "")))
    schemas = [mapping(version.get("schema")).get("openAPIV3Schema") for version in mappings(spec.get("versions"))]
    marked = tuple(dict.fromkeys(trail for schema in schemas for trail in marked_fields(schema)))
    return Secrecy({kind: marked}) if marked else BUILT_IN


def declared_secrecy(manifests: Iterable[Mapping[str, Any]]) -> Secrecy:
    """Return what the definitions among these objects say."""
    secrecy = BUILT_IN
    for manifest in manifests:
        if manifest.get("kind") == "CustomResourceDefinition":
            secrecy = secrecy | definition_secrecy(manifest)
    return secrecy


def marked_fields(schema: Any) -> tuple[Trail, ...]:
    """Return the fields that an OpenAPI schema marks as secret."""
    return tuple(_find_marked_fields(schema, (), 0))


def _find_marked_fields(schema: Any, trail: Trail, depth: int) -> Iterator[Trail]:
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return
    if schema.get("format") == MARK:
        yield trail
        return
    for name, below in mapping(schema.get("properties")).items():
        yield from _find_marked_fields(below, (*trail, name), depth + 1)
    yield from _find_marked_fields(schema.get("additionalProperties"), (*trail, "*"), depth + 1)
    yield from _find_marked_fields(schema.get("items"), trail, depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for below in mappings(schema.get(keyword)):
            yield from _find_marked_fields(below, trail, depth + 1)


def _find_texts(
    value: Any, trail: Trail, secret: tuple[Trail, ...], *, inside: bool = False
) -> Iterator[tuple[Trail, str]]:
    inside = inside or is_secret_field(trail, secret)
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _find_texts(below, (*trail, str(name)), secret, inside=inside)
    elif isinstance(value, list):
        for below in value:
            yield from _find_texts(below, trail, secret, inside=inside)
    elif inside and value is not None:
        yield trail, str(value)


def _matches(trail: Trail, pattern: Trail) -> bool:
    return all(want in ("*", name) for name, want in zip(trail, pattern, strict=True))


def _key_of(manifest: Mapping[str, Any]) -> Key:
    """Return the kind of a manifest as a key; what is shown may be malformed."""
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    return Key(group, str(manifest.get("kind", "")), "", "")


SHORTEST_UNQUOTED = (
    4  # letters; a shorter value is taken out only where it stands in quotes: it is a part of too many words
)
LONG_PREFIX = 8  # letters by which a value of at least so many is looked up; a shorter one is by SHORTEST_UNQUOTED
SHORTEST_LINE = 8  # letters of a line of a longer value that are enough to know it by
COMMON = frozenset({"true", "false", "null", "none"})
# Of quotes; Go prints what it did not expect as Value:5432 or (5432).
OPENING, CLOSING = frozenset("\"'`:("), frozenset("\"'`,})]")
MOST_TRIES, TRIES = 50_000, 4  # comparisons with a value: for any text, and for each letter of it
MOST_SEARCHED = 1 << 28  # bytes of data, for all values together


class _TooLongError(Exception):
    pass


class SecretValues:
    """Secret values that no text may show. Empty, it costs nothing."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(filter(None, values))
        self._quoted = frozenset(
            value for value in self._values if len(value) < SHORTEST_UNQUOTED or value.lower() in COMMON
        )
        self._lengths = sorted({len(value) for value in self._quoted}, reverse=True)
        self._by_beginning: dict[str, list[str]] = {}  # the longest first
        for value in sorted(self._values - self._quoted, key=lambda text: (-len(text), text)):
            self._by_beginning.setdefault(
                value[: LONG_PREFIX if len(value) >= LONG_PREFIX else SHORTEST_UNQUOTED], []
            ).append(value)

    @classmethod
    def of(
        cls, manifests: Iterable[Mapping[str, Any]], secrecy: Secrecy = BUILT_IN, *, public: Collection[str] = ()
    ) -> SecretValues:
        """Return the secret values of these objects, in every form in which a message may have them.

        `public` are words that every user sees anyway (names of stacks, clusters, objects): a user name in a Secret is
        often one of them, and taking it out would leave no message readable.
        """
        values = {value for manifest in manifests for value in _secret_values_of(manifest, secrecy)}
        return cls(form for value in values.difference(public) for form in _written_forms(value))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __or__(self, other: SecretValues) -> SecretValues:
        return SecretValues(self._values | other._values) if other else self

    def __repr__(self) -> str:
        return f"SecretValues({count_noun(len(self._values), 'value')})"

    def redact(self, text: str) -> str:
        """Return the text without the values; of one that takes too long to search, nothing."""
        if not self or not text:
            return text
        parts: list[str] = []
        last_end = 0
        try:
            for begin, end in self._spans(text):
                parts += [text[last_end:begin], REDACTED]
                last_end = end
        except _TooLongError:
            return REDACTED
        return "".join([*parts, text[last_end:]])

    def find(self, text: str) -> int:
        """Return where the first value begins in a text, -1 if none does. One that takes too long to search has one."""
        try:
            return next((begin for begin, _ in self._spans(text)), -1)
        except _TooLongError:
            return 0

    def is_in_data(self, text: bytes) -> bool:
        """Tell whether JSON has one of the values in it. Of data that takes too long to search, it is taken for so."""
        if len(self._values) * len(text) > MOST_SEARCHED:
            return True
        values = (f'"{value}"' if value in self._quoted else value for value in self._values)
        return any(value.encode(errors="replace") in text for value in values)

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where values begin and end: of those that begin at one place, the longest.

        Both the values and the text may come from an attacker: how many are compared is bounded. Raises _TooLongError.
        """
        last_end, tries, most_tries = 0, 0, MOST_TRIES + TRIES * len(text)
        for place in self._places(text):
            if place < last_end:
                continue
            for value in self._beginning_at(text, place):
                tries += 1 + len(value) // 256
                if text.startswith(value, place):
                    last_end = place + len(value)
                    yield place, last_end
                    break
            else:
                if end := self._end_of_quoted(text, place):
                    last_end = end
                    yield place + 1, end - 1
            if tries > most_tries:
                raise _TooLongError

    def _places(self, text: str) -> Iterator[int]:
        """Yield where a value may begin: of most letters of a text, one look in a table tells that none does."""
        beginnings, opening_marks = self._by_beginning, OPENING if self._quoted else frozenset[str]()
        for place in range(len(text)):
            if (
                text[place : place + LONG_PREFIX] in beginnings
                or text[place : place + SHORTEST_UNQUOTED] in beginnings
                or (opening_marks and text[place] in opening_marks)
            ):
                yield place

    def _beginning_at(self, text: str, place: int) -> Iterator[str]:
        yield from self._by_beginning.get(text[place : place + LONG_PREFIX], ())
        yield from self._by_beginning.get(text[place : place + SHORTEST_UNQUOTED], ())

    def _end_of_quoted(self, text: str, place: int) -> int:
        """Return the place after a value that stands in quotes at this place; 0 if none does."""
        if text[place] not in OPENING:
            return 0
        for length in self._lengths:
            end = place + 1 + length
            if text[end : end + 1] in CLOSING and text[place + 1 : end] in self._quoted:
                return end + 1
        return 0

    def redact_error(self, error: FleetError) -> None:
        """Redact every text of an error in place."""
        error.message = self.redact(error.message)
        error.hint = self.redact(error.hint) if error.hint else error.hint
        error.field = self.redact(error.field) if error.field else error.field
        error.args = (error.message,)


def _secret_values_of(manifest: Mapping[str, Any], secrecy: Secrecy) -> Iterator[str]:
    for trail, text in secret_texts(manifest, secrecy):
        plain = _decode_base64(text) if trail[:1] == ("data",) else ""
        yield plain or text
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    last_applied = annotations.get(LAST_APPLIED) if isinstance(annotations, Mapping) else None
    if isinstance(last_applied, str) and next(secret_texts(manifest, secrecy), None) is not None:
        try:
            former = orjson.loads(last_applied)
        except orjson.JSONDecodeError:
            return
        if isinstance(former, dict):
            yield from _secret_values_of({**former, "metadata": {}}, secrecy)


def _written_forms(text: str) -> Iterator[str]:
    """Yield a value as it is, as base64, and as programs quote it; of several lines, each by itself too."""
    stripped = text.strip()
    for form in dict.fromkeys((text, stripped)):
        if form:
            yield form
            yield base64.b64encode(form.encode(errors="surrogateescape")).decode()
            yield orjson.dumps(form.encode(errors="replace").decode()).decode()[1:-1]
            yield quote(form, safe="", errors="replace")
            yield repr(form)[1:-1]
    lines = stripped.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= SHORTEST_LINE)


def _decode_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def waiting_message(waiting: dict[str, Any]) -> str:
    """Return kubelet's message about a waiting container, with the output of its hooks marked as output; "" if none.

    If a hook failed, kubelet repeats the command and what it printed: both may contain secrets.
    """
    message = str(waiting.get("message") or "")
    is_of_hook = str(waiting.get("reason", "")).endswith("HookError")
    return quote_output(message) if message and is_of_hook else message
