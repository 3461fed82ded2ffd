"""Which fields of which kinds are secret, and objects and values without them: the one place that decides it.

A Secret is secret by its kind; of custom kinds, the fields that their definition marks with `format: password`, as the
server (or the definition in git) has it. What a field is called does not matter: guessing would show the one secret
that is called otherwise. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.model.desired import Key
from fleet.model.form import mapping, mappings

REDACTED = "(redacted)"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # holds a copy of the whole object
MARK = "password"  # the `format` of a string that is not to be shown, as OpenAPI has it
DEEPEST = 40

Trail = tuple[str, ...]  # keys of maps from the top of an object; lists are gone through, "*" is any key
Kind = tuple[str, str]  # group and kind

OF_SECRETS: tuple[Trail, ...] = (("data",), ("stringData",), ("metadata", "annotations"))
EVERYTHING: tuple[Trail, ...] = ((),)


def is_secret(key: Key) -> bool:
    """By its kind, also where that is not written as the server wants it: such an object is refused, and not shown."""
    return key.group in ("", "core") and key.kind.lower() in ("secret", "secrets")


@dataclass(frozen=True, slots=True)
class Secrecy:
    """What is known of kinds besides Secrets."""

    fields: Mapping[Kind, tuple[Trail, ...]] = field(default_factory=dict)

    def of(self, key: Key) -> tuple[Trail, ...]:
        """The secret fields of one object's kind."""
        if is_secret(key):
            return OF_SECRETS
        marked = self.fields.get((key.group, key.kind), ())
        return (*marked, ("metadata", "annotations", LAST_APPLIED)) if marked else ()

    def __or__(self, other: Secrecy) -> Secrecy:
        both = {kind: (*self.fields.get(kind, ()), *other.fields.get(kind, ())) for kind in other.fields}
        return Secrecy({**self.fields, **both}) if both else self


BUILT_IN = Secrecy()


def is_hidden(trail: Trail, secret: Iterable[Trail]) -> bool:
    """Whether it is, or lies inside, a secret field."""
    return any(len(trail) >= len(one) and _fits(trail[: len(one)], one) for one in secret)


def masked(value: Any, trail: Trail, secret: tuple[Trail, ...]) -> Any:
    """A value at a place in an object, without what is secret in it. Names of entries stay."""
    if value is None or not secret:
        return value
    if is_hidden(trail, secret):
        return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED
    if not any(_fits(trail, one[: len(trail)]) for one in secret if len(one) > len(trail)):
        return value
    if isinstance(value, dict):
        return {name: masked(below, (*trail, name), secret) for name, below in value.items()}
    return [masked(below, trail, secret) for below in value] if isinstance(value, list) else value


def masked_manifest(manifest: Mapping[str, Any], secrecy: Secrecy = BUILT_IN) -> dict[str, Any]:
    """An object to be shown. One with something hidden in it cannot be applied by accident: a Secret's text is shown
    as data, and that is no base64."""
    items = manifest.get("items")
    if isinstance(items, list) and str(manifest.get("kind", "")).endswith("List"):
        return {**manifest, "items": [masked_manifest(one, secrecy) if isinstance(one, dict) else one for one in items]}
    secret = secrecy.of(_key(manifest))
    if not secret:
        return dict(manifest)
    shown: dict[str, Any] = masked(dict(manifest), (), secret)
    if isinstance(text := shown.pop("stringData", None), dict):
        shown["data"] = {**mapping(shown.get("data")), **text}
    return shown


def secret_texts(manifest: Mapping[str, Any], secrecy: Secrecy = BUILT_IN) -> Iterator[tuple[Trail, str]]:
    """Every secret value of an object as text, with its place; notes beside it (annotations) are not among them."""
    items = manifest.get("items")
    if isinstance(items, list) and str(manifest.get("kind", "")).endswith("List"):
        for one in items:
            yield from secret_texts(one, secrecy) if isinstance(one, dict) else ()
        return
    fields = tuple(one for one in secrecy.of(_key(manifest)) if one[:1] != ("metadata",))
    if fields:
        yield from _texts(manifest, (), fields)


def definition_secrecy(definition: Mapping[str, Any]) -> Secrecy:
    """What a CustomResourceDefinition says about its kind, in any of its versions."""
    spec = mapping(definition.get("spec"))
    kind = (str(spec.get("group", "")), str(mapping(spec.get("names")).get("kind", "")))
    schemas = [mapping(version.get("schema")).get("openAPIV3Schema") for version in mappings(spec.get("versions"))]
    marked = tuple(dict.fromkeys(trail for schema in schemas for trail in marked_fields(schema)))
    return Secrecy({kind: marked}) if marked else BUILT_IN


def declared_secrecy(manifests: Iterable[Mapping[str, Any]]) -> Secrecy:
    """What the definitions among these objects say."""
    found = BUILT_IN
    for manifest in manifests:
        if manifest.get("kind") == "CustomResourceDefinition":
            found = found | definition_secrecy(manifest)
    return found


def marked_fields(schema: Any) -> tuple[Trail, ...]:
    """The fields that an OpenAPI schema marks as secret."""
    return tuple(_marked(schema, (), 0))


def _marked(schema: Any, trail: Trail, depth: int) -> Iterator[Trail]:
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return
    if schema.get("format") == MARK:
        yield trail
        return
    for name, below in mapping(schema.get("properties")).items():
        yield from _marked(below, (*trail, name), depth + 1)
    yield from _marked(schema.get("additionalProperties"), (*trail, "*"), depth + 1)
    yield from _marked(schema.get("items"), trail, depth + 1)
    for word in ("allOf", "anyOf", "oneOf"):
        for below in mappings(schema.get(word)):
            yield from _marked(below, trail, depth + 1)


def _texts(value: Any, trail: Trail, secret: tuple[Trail, ...], *, inside: bool = False) -> Iterator[tuple[Trail, str]]:
    inside = inside or is_hidden(trail, secret)
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _texts(below, (*trail, str(name)), secret, inside=inside)
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below, trail, secret, inside=inside)
    elif inside and value is not None:
        yield trail, str(value)


def _fits(trail: Trail, pattern: Trail) -> bool:
    return all(want in ("*", name) for name, want in zip(trail, pattern, strict=True))


def _key(manifest: Mapping[str, Any]) -> Key:
    """Of whatever it is: what is shown may be malformed."""
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    return Key(group, str(manifest.get("kind", "")), "", "")
