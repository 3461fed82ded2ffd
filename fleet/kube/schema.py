"""Mistakes that a server's own schema finds in a plan, before its first object is written.

A dry run cannot try objects of a namespace that the same plan creates, and a sync would stop half-way there with an
error of the server's decoder. The schema that the server publishes (OpenAPI v3) shows the same beforehand: fields that
a kind does not have, values of another type, texts that are no quantity or no base64, numbers that are too large, and
entries of a list that have one key; and for an object that is to be created, whose content is then complete, missing
fields and values that are not among those allowed. The server judges everything else. Nothing is refused that the
schema leaves open, nor what Kubernetes takes though its schema says otherwise.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NoBase64Error
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fleet.errors import ConfigurationError
from fleet.kube.client.client import Client
from fleet.kube.concurrency import gather
from fleet.kube.openapi import Document, GroupVersion, openapi_document
from fleet.objects import fields as paths
from fleet.objects.compare import parse_quantity
from fleet.objects.desired import Key
from fleet.objects.shape import mapping, mappings
from fleet.plan import Plan, Step, Verb
from fleet.suggestion import list_words, suggestion
from fleet.text import count_noun

GroupKind = tuple[str, str]
DEEPEST = 64  # levels of a manifest that are checked
MOST = 20  # mistakes of one manifest
_LONGEST_QUANTITY = 40  # characters of one that another is suggested for
_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}
# Kubernetes calls more fields of its own kinds required than it enforces (`roleRef.apiGroup`, `podSelector` of a
# NetworkPolicy): these are the ones whose absence it refuses. Of a definition, all required fields are enforced.
_POD_MAKERS = ("selector", "template")
_INSISTED = {
    "io.k8s.api.apps.v1.DaemonSetSpec": _POD_MAKERS,
    "io.k8s.api.apps.v1.DeploymentSpec": _POD_MAKERS,
    "io.k8s.api.apps.v1.ReplicaSetSpec": ("selector",),
    "io.k8s.api.apps.v1.StatefulSetSpec": _POD_MAKERS,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": ("scaleTargetRef", "maxReplicas"),
    "io.k8s.api.batch.v1.CronJobSpec": ("schedule", "jobTemplate"),
    "io.k8s.api.batch.v1.JobSpec": ("template",),
    "io.k8s.api.core.v1.Container": ("name",),
    "io.k8s.api.core.v1.ContainerPort": ("containerPort",),
    "io.k8s.api.core.v1.EnvVar": ("name",),
    "io.k8s.api.core.v1.PodSpec": ("containers",),
    "io.k8s.api.core.v1.ServicePort": ("port",),
    "io.k8s.api.core.v1.Volume": ("name",),
    "io.k8s.api.core.v1.VolumeMount": ("name", "mountPath"),
    "io.k8s.api.networking.v1.HTTPIngressPath": ("pathType", "backend"),
    "io.k8s.api.rbac.v1.ClusterRoleBinding": ("roleRef",),
    "io.k8s.api.rbac.v1.PolicyRule": ("verbs",),
    "io.k8s.api.rbac.v1.RoleBinding": ("roleRef",),
    "io.k8s.api.rbac.v1.RoleRef": ("kind", "name"),
    "io.k8s.api.storage.v1.StorageClass": ("provisioner",),
}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_SPACE = re.compile(r"\s+")


class Mistake(NamedTuple):
    """A mistake in a field of a manifest."""

    field: str
    message: str
    hint: str | None


class _CheckOptions(NamedTuple):
    """Options of the check of one object."""

    schemas: Mapping[str, Any]  # by name
    created: bool  # so all of its fields come from the manifest
    defined: bool  # by a CustomResourceDefinition, which the server enforces to the letter


async def schema_error(client: Client, plan: Plan, changing: Iterable[GroupKind] = ()) -> ConfigurationError | None:
    """Return the error for the first object of a plan that its kind's schema does not allow; None if there is none.

    A kind that the plan itself defines has the schema of that definition. Other kinds that are `changing`, because
    another stack of the run writes their definition, are not judged: which of the two comes first is open.
    """
    own = definitions(plan)
    open_kinds = frozenset(changing) - own.keys()
    steps = [step for step in plan.steps if step.manifest and step.verb.writes and _kind_of(step) not in open_kinds]
    versions = {_version_of(step) for step in steps if _kind_of(step) not in own}
    published = dict(
        zip(versions, await gather([openapi_document(client, version) for version in versions]), strict=True)
    )
    schemas = {step.key: own.get(_kind_of(step)) or published.get(_version_of(step)) for step in steps}
    refused = [(step, mistakes) for step in steps if (mistakes := _find_step_mistakes(step, schemas[step.key]))]
    if not refused:
        return None
    step, mistakes = refused[0]
    count = sum(len(errors) for _, errors in refused) - 1
    more = f" (and {count_noun(count, 'more mistake')})" if count else ""
    return ConfigurationError(
        f"{step.key.kind} {step.key.name} {mistakes[0].message}{more}",
        hint=mistakes[0].hint,
        source=step.source if step.source.file else None,
        field=mistakes[0].field,
    )


def _kind_of(step: Step) -> GroupKind:
    return step.key.group, step.key.kind


def definitions(plan: Plan) -> dict[GroupKind, Document]:
    """Return the schemas of the kinds whose definitions the plan writes."""
    manifests = [
        step.manifest
        for step in plan.steps
        if step.manifest and step.verb.writes and step.key.kind == "CustomResourceDefinition"
    ]
    return {(str(crd["spec"]["group"]), str(crd["spec"]["names"]["kind"])): defined_by(crd) for crd in manifests}


def defined_by(definition: Mapping[str, Any]) -> Document:
    """Return the schemas of a definition, by version, in the form in which a server publishes them. Pure."""
    spec = definition["spec"]
    schemas = {}
    for version in mappings(spec.get("versions")):
        name, schema = str(version.get("name")), mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
        which = {"group": spec["group"], "version": name, "kind": spec["names"]["kind"]}
        schemas[name] = {**_with_object_fields(schema), "x-kubernetes-group-version-kind": [which]}
    return {"components": {"schemas": schemas}}


def _with_object_fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema with the fields that every object has, which a definition need not name."""
    fields = schema.get("properties")
    if not isinstance(fields, dict):
        return schema
    text = {"type": "string"}
    return {**schema, "properties": {**fields, "apiVersion": text, "kind": text, "metadata": {"type": "object"}}}


def _version_of(step: Step) -> GroupVersion:
    assert step.manifest is not None  # noqa: S101 - only such steps are looked at
    return step.key.group, str(step.manifest["apiVersion"]).rpartition("/")[2]


def _find_step_mistakes(step: Step, document: Document | None) -> list[Mistake]:
    created = step.verb is Verb.CREATE
    return find_mistakes(step.key, step.manifest or {}, document, created=created) if document is not None else []


def find_mistakes(key: Key, manifest: Mapping[str, Any], document: Document, *, created: bool = False) -> list[Mistake]:
    """Return the mistakes in a manifest; none for a kind that the document does not have. Pure."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    version = str(manifest["apiVersion"]).rpartition("/")[2]
    group_version_kind = {"group": key.group, "version": version, "kind": key.kind}
    name = next(
        (
            name
            for name, schema in schemas.items()
            if group_version_kind in (schema.get("x-kubernetes-group-version-kind") or ())
        ),
        "",
    )
    if not name:
        return []
    by_definition = ".".join((*reversed(key.group.split(".")), version, key.kind))
    options = _CheckOptions(schemas, created, defined=name in (by_definition, version))
    mistakes = []
    for mistake in _walk_value(dict(manifest), {"$ref": name}, options, "", shown=key.kind != "Secret", depth=0):
        mistakes.append(mistake)
        if len(mistakes) == MOST:
            break
    return mistakes


def _walk_value(
    value: Any, schema: Mapping[str, Any], options: _CheckOptions, path: str, *, shown: bool, depth: int
) -> Iterator[Mistake]:
    schema, name = _resolve(schema, options.schemas)
    if schema.get("x-kubernetes-embedded-resource"):
        schema = _with_object_fields(schema)
    shown = shown and schema.get("format") != "password"
    if value is None or depth > DEEPEST or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    types = _allowed_types(schema)
    if types and not any(_is_of_type(value, item) for item in types):
        expected = " or ".join(_TYPES.get(item, item) for item in types)
        yield _type_mistake(value, path, expected, is_text="string" in types, shown=shown)
    elif isinstance(value, dict):
        yield from _walk_object(value, schema, options, path, name=name, shown=shown, depth=depth + 1)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for position, item in enumerate(value):
            yield from _walk_value(item, schema["items"], options, f"{path}[{position}]", shown=shown, depth=depth + 1)
        yield from _find_repeated(value, schema, options, path)
    elif reason := _why_undecodable(value, schema, name):
        detail = f" ({str(value)[:40]!r})" if shown and isinstance(value, str) else ""
        yield Mistake(path, reason[0] + detail, reason[1])
    elif isinstance(value, str) and options.created and not _is_allowed(value, schema, options):
        allowed = [item for item in schema["enum"] if isinstance(item, str)]
        detail = f", and has {value[:40]!r}" if shown else ""
        hint = suggestion(value, allowed) if shown else None
        yield Mistake(path, f"needs one of {list_words(allowed)} there{detail}", hint)


def _why_undecodable(value: Any, schema: Mapping[str, Any], name: str) -> tuple[str, str | None] | None:
    """Return why the server cannot decode a value of the right type, with a hint; None if it can. Its number would
    become another one in the end, where it is too large.
    """
    if isinstance(value, str) and name == _QUANTITY and parse_quantity(value) is None:
        shorter = _SPACE.sub("", value).removesuffix("B").removesuffix("b")
        meant = f"did you mean {shorter!r}?" if parse_quantity(shorter) is not None else "as 500m, 2, 512Mi or 10Gi"
        return "needs a quantity there, and has another text", meant if len(value) <= _LONGEST_QUANTITY else None
    if isinstance(value, str) and schema.get("format") == "byte":
        try:
            b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except (NoBase64Error, ValueError):
            return (
                "needs base64 there, and has another text",
                "a text as it is goes into stringData of a Secret, or data of a ConfigMap",
            )
    if schema.get("format") == "int32" and isinstance(value, int | float) and not -(1 << 31) <= value < 1 << 31:
        return f"needs a number below {1 << 31} there, and has a larger one", None
    return None


def _find_repeated(items: list[Any], schema: Mapping[str, Any], options: _CheckOptions, path: str) -> Iterator[Mistake]:
    """Yield the entries of a list whose key an earlier one has, where the server knows entries by keys."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(keys, list):
        return
    fields = mapping(_resolve(schema["items"], options.schemas)[0].get("properties"))
    defaults = {key: mapping(fields.get(key)).get("default") for key in keys}
    first: dict[str, int] = {}
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        values = {key: item.get(key, defaults[key]) for key in keys}
        earlier = first.setdefault(repr(values), position)
        if earlier != position:
            values_text = ", ".join(f"{key} {str(value)[:40]!r}" for key, value in values.items() if key in item)
            yield Mistake(
                f"{path}[{position}]", f"has the {values_text} of the entry {path}[{earlier}]", "leave one of both out"
            )


def _walk_object(
    value: Mapping[str, Any],
    schema: Mapping[str, Any],
    options: _CheckOptions,
    path: str,
    *,
    name: str,
    shown: bool,
    depth: int,
) -> Iterator[Mistake]:
    """Yield the mistakes in an object. `name` is that of the schema, "" if it has none."""
    fields, additional = schema.get("properties"), schema.get("additionalProperties")
    for field, member in value.items():
        if isinstance(fields, dict) and field in fields:
            yield from _walk_value(
                member, fields[field], options, paths.child_path(path, field), shown=shown, depth=depth
            )
        elif isinstance(additional, dict):
            yield from _walk_value(member, additional, options, paths.child_path(path, field), shown=shown, depth=depth)
        elif isinstance(fields, dict) and fields and not additional:
            yield Mistake(paths.child_path(path, field), f"has no field {field!r} there", suggestion(field, fields))
    for field in _required_fields(schema, name, options):
        if field not in value and (path or field != "status"):  # a status is written by its controller
            yield Mistake(paths.child_path(path, field), f"needs a field {field!r} there, and has none", None)


def _required_fields(schema: Mapping[str, Any], name: str, options: _CheckOptions) -> list[str]:
    """Return the fields without which the server refuses an object that is created; none of any other object."""
    required = schema.get("required")
    if not options.created or not isinstance(required, list):
        return []
    # Some defaults of Kubernetes' own kinds are empty objects, which the server refuses.
    if not options.defined or name.startswith("io.k8s."):
        return [field for field in required if field in _INSISTED.get(name, ())]
    fields = mapping(schema.get("properties"))
    return [field for field in required if isinstance(field, str) and "default" not in mapping(fields.get(field))]


def _is_allowed(value: str, schema: Mapping[str, Any], options: _CheckOptions) -> bool:
    """Return whether a value is one of those that the schema lists.

    For Kubernetes' own kinds an empty text counts as none, and any name with a domain is allowed.
    """
    allowed = schema.get("enum")
    if not isinstance(allowed, list) or value in allowed:
        return True
    return not options.defined and (not value or "/" in value)


def _type_mistake(value: Any, path: str, expected: str, *, is_text: bool, shown: bool) -> Mistake:
    scalar = shown and isinstance(value, bool | int | float | str)
    text = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
    actual = f"{_NAMES.get(type(value), 'something else')}" + (f" ({str(text)[:40]})" if scalar else "")
    quoted = is_text and isinstance(value, bool | int | float)
    hint = (f'in quotes it is text: "{str(text)[:40]}"' if shown else "in quotes it is text") if quoted else None
    return Mistake(path, f"needs {expected} there, and has {actual}", hint)


def _allowed_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a value may have; an empty tuple allows any."""
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return ("integer", "string")
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    choices = schema.get("oneOf")
    if (
        isinstance(choices, list)
        and choices
        and all(isinstance(mapping(choice).get("type"), str) for choice in choices)
    ):
        return tuple(choice["type"] for choice in choices)
    return ("object",) if schema.get("properties") else ()


def _is_of_type(value: Any, name: str) -> bool:
    match name:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (isinstance(value, int) or _is_whole(value))
        case "number":
            return not isinstance(value, bool) and isinstance(value, int | float)
        case _:
            return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the schema that a reference, or the only part of an `allOf`, stands for, with its name ("": none).

    Return `{}`, which allows anything, if it stands for nothing.
    """
    name = ""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}, ""
        whole = schema.get("allOf")
        if isinstance(schema.get("$ref"), str):
            name = schema["$ref"].rpartition("/")[2]
            schema = schemas.get(name) or {}
        elif isinstance(whole, list) and len(whole) == 1 and "$ref" in mapping(whole[0]):  # not a mere condition
            schema = whole[0]
        else:
            return schema, name
    return {}, ""
