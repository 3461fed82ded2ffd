"""CustomResourceDefinitions of app types, generated from their models and their drivers' facts.

A definition has a structural schema. The models are walked rather than pydantic's JSON schema rewritten: no references,
no titles, no nulls, no unions, and the docstring under every field is its description. Leaves are pydantic's own work.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from fleet.apps.registry import drivers
from fleet.kit.app_type import AppType
from fleet.kit.driver import Driver
from fleet.kit.operations.operation import RESOURCE as OPERATIONS
from fleet.kit.operations.operation import OperationSpec, OperationStatus
from fleet.kit.status import Status
from fleet.model.app import ADOPTION, IDENTITY
from fleet.model.base import IMMUTABLE, OF_NEW_APPS, VALIDATIONS, KeyedBy, Model, OneOf, Rule, field_docs
from fleet.model.resource import Adopt
from fleet.model.types import LONGEST_APP
from fleet.names import VERSION
from fleet.objects.resource import Resource

_LEAF = ("type", "format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", VALIDATIONS)

Schema = dict[str, Any]


def model_schema(model: type[BaseModel], *, leave_out: frozenset[str] = frozenset()) -> Schema:
    """Return the schema of a model's fields, with its rules."""
    docs = field_docs(model)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    rules = [rule.validation() for rule in getattr(model, "rules", ())]
    for name, field in model.model_fields.items():
        if name in leave_out:
            continue
        alias = field.alias or name
        field_schema = _field_schema(field)
        description = {"description": docs[name]} if name in docs else {}
        # The description stands first in the text, and before that of the type.
        properties[alias] = {**description, **field_schema, **description}
        if field.is_required():
            required.append(alias)
        if IMMUTABLE in field.metadata and field.default is None:  # its own rule does not see it come or go
            comes_or_goes = f"has(self.{alias}) == has(oldSelf.{alias})"
            rules.append({"rule": comes_or_goes, "message": f"{alias} {IMMUTABLE.message}"})
    for name, forbidden in getattr(model, "forbidden", {}).items():
        properties[name] = forbidden.schema()
        rules.append({"rule": f"!has(self.{name})", "message": forbidden.message, "fieldPath": f".{name}"})
    return {
        "type": "object",
        "description": inspect.cleandoc(model.__doc__ or ""),
        "properties": properties,
        **({"required": required} if required else {}),
        **({VALIDATIONS: rules} if rules else {}),
    }


def _field_schema(field: FieldInfo) -> Schema:
    field_schema = _type_schema(field.annotation, field.metadata)
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is None or OF_NEW_APPS in field.metadata or (isinstance(default, Mapping | tuple) and not default):
        return field_schema
    if isinstance(default, Model):  # whole: the server checks rules on a default before it fills in those inside it
        model_fields = type(default).model_fields
        left_out = {name for name, model_field in model_fields.items() if OF_NEW_APPS in model_field.metadata}
        whole = default.model_dump(by_alias=True, exclude_none=True, exclude=left_out)
        default = {key: value for key, value in whole.items() if value != {}}
    return {**field_schema, "default": default}


def _type_schema(annotation: Any, metadata: Sequence[Any] = ()) -> Schema:
    """Return the schema of a type with what `Annotated` says about it."""
    annotation, metadata = _unwrap_annotation(annotation, metadata)
    for mark in metadata:
        if isinstance(mark, OneOf):
            return _union_schema(mark)
    origin = get_origin(annotation)
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return _add_rules(model_schema(annotation), metadata)
    if origin is not None and inspect.isclass(origin) and issubclass(origin, Mapping):
        return _add_rules(_map_schema(annotation, metadata), metadata)
    if origin is not None and inspect.isclass(origin) and issubclass(origin, Sequence):
        (item,) = get_args(annotation)[:1]
        return _add_rules(_list_schema(item, metadata), metadata)
    leaf = TypeAdapter(Annotated[annotation, *metadata] if metadata else annotation).json_schema()
    return {key: leaf[key] for key in _LEAF if key in leaf}


def _unwrap_annotation(annotation: Any, metadata: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return an annotation without `| None`, which a schema says by not requiring the field, and the marks inside
    it.
    """
    marks = list(metadata)
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *inner = get_args(annotation)
            marks = [*inner, *marks]
        elif origin in (Union, types.UnionType) and type(None) in get_args(annotation):
            present = [part for part in get_args(annotation) if part is not type(None)]
            annotation = present[0] if len(present) == 1 else Union[tuple(present)]  # noqa: UP007 - made at run time
        else:
            return annotation, marks


def _list_schema(item: Any, metadata: Sequence[Any]) -> Schema:
    list_schema: Schema = {"type": "array", "items": _type_schema(item), "x-kubernetes-list-type": "atomic"}
    for mark in metadata:
        if hasattr(mark, "max_length"):
            list_schema["maxItems"] = mark.max_length
        if isinstance(mark, KeyedBy):
            list_schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [mark.key]}
    return list_schema


def _map_schema(annotation: Any, metadata: Sequence[Any]) -> Schema:
    most = next((mark.max_length for mark in metadata if hasattr(mark, "max_length")), None)
    map_schema: Schema = {"type": "object", "additionalProperties": _type_schema(get_args(annotation)[1])}
    return {**map_schema, "maxProperties": most} if most is not None else map_schema


def _union_schema(mark: OneOf) -> Schema:
    names = list(mark.models)
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    rule = {"rule": f"{count} == 1", "message": f"must have exactly one of {', '.join(names[:-1])} and {names[-1]}"}
    properties = {name: model_schema(model) for name, model in mark.models.items()}
    return {"type": "object", "properties": properties, VALIDATIONS: [rule]}


def _add_rules(type_schema: Schema, metadata: Sequence[Any]) -> Schema:
    rules = [mark.validation() for mark in metadata if isinstance(mark, Rule)]
    return {**type_schema, VALIDATIONS: [*type_schema.get(VALIDATIONS, ()), *rules]} if rules else type_schema


HEADER = "# Generated from the models by `fleet crds`: change those, not this.\n"
_COLUMNS = (  # name, type, path, and 1 for what only `-o wide` shows
    ("Version", "string", ".status.version", 0),
    ("Desired", "string", ".spec.version", 1),
    ("Ready", "string", ".status.ready", 0),
    ("Leader", "string", ".status.leader", 0),
    ("Health", "string", ".status.health", 0),
    ("Last Backup", "date", ".status.lastBackup.time", 0),
    ("Endpoint", "string", ".status.endpoint", 1),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)
_OPERATION_COLUMNS = (
    ("Do", "string", ".spec.do", 0),
    ("App", "string", ".spec.app.name", 0),
    ("Phase", "string", ".status.phase", 0),
    ("Message", "string", ".status.message", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)
_NAME_RULE = {
    "rule": f"self.metadata.name.size() <= {LONGEST_APP} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": f"the name must start with a letter, have no dots and at most {LONGEST_APP} characters: "
    "Services and pods are named after it",
}


def definitions() -> dict[str, dict[str, Any]]:
    """Return every definition, by the name of the file that holds it in crds/."""
    apps = {definition_file(driver): definition(driver) for driver in drivers()}
    return {**apps, f"{OPERATIONS.group}_{OPERATIONS.plural}.yaml": operation_definition()}


def definition_file(driver: Driver[Any]) -> str:
    """Return the name of the file in crds/ that holds a driver's definition."""
    return f"{driver.app.api_group}_{driver.resource.plural}.yaml"


def definition(driver: Driver[Any]) -> dict[str, Any]:
    return _definition(driver.resource, driver.meta.short_names, _COLUMNS, _root_schema(driver))


def operation_definition() -> dict[str, Any]:
    """Return the definition of what people ask of apps once."""
    spec, status = model_schema(OperationSpec), model_schema(OperationStatus)
    status["description"] = "How far it is: written by the operator."
    schema = {
        "type": "object",
        "description": "What a person asks of an app once, such as a switchover. The operator does it when nothing "
        "speaks against it, one at a time for each app.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {OPERATIONS.api_version}."},
            "kind": {"type": "string", "description": f"Always {OPERATIONS.kind}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    return _definition(OPERATIONS, (), _OPERATION_COLUMNS, schema)


def _definition(
    resource: Resource, short_names: Sequence[str], columns: Sequence[tuple[str, str, str, int]], schema: Schema
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "labels": {"app.kubernetes.io/part-of": "fleet"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                # Never an empty list: servers do not store one, and to apply the file again would be a conflict.
                **({"shortNames": list(short_names)} if short_names else {}),
                "categories": ["fleet"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_printer_column(*column) for column in columns],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def crd_yaml(definition: dict[str, Any]) -> str:
    """Return a definition as a file of crds/ has it."""
    from fleet.yaml_text import dump  # noqa: PLC0415 - for files only

    return HEADER + dump(definition)


def _root_schema(driver: Driver[Any]) -> dict[str, Any]:
    spec = model_schema(driver.app, leave_out=IDENTITY)
    name = driver.meta.name
    if driver.caps.adopt:
        spec["properties"][ADOPTION] = model_schema(Adopt)
        spec["properties"][ADOPTION]["description"] = "Members that run already and are taken over as they are."
    elif rules := [*_without_adoption(spec.pop(VALIDATIONS, ()), driver.app.kind())]:
        spec[VALIDATIONS] = rules
    spec["description"] = f"What {name} should be: written in git, applied by `fleet sync`."
    status = model_schema(Status)
    status["description"] = f"What {name} is: written by the operator."
    return {
        "type": "object",
        "description": driver.meta.words,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {driver.app.api_group}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {driver.app.kind()}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        VALIDATIONS: [_NAME_RULE, *_container_rules(driver), *_exposure_rules(driver), *_metrics_rules(driver)],
    }


def _exposure_rules(driver: Driver[Any]) -> Iterator[dict[str, str]]:
    """Yield what an app may say of its Service that depends on its type: its ports, and names for certificates."""
    if not isinstance(driver, AppType) or "expose" not in driver.app.model_fields:
        return
    expose, ports = "self.spec.expose", list(driver.client_ports)
    yield {
        "rule": f"!has({expose}) || !has({expose}.nodePorts) || {expose}.nodePorts.all(one, one.port in {ports})",
        "message": f"the ports for clients are {', '.join(ports)}",
        "fieldPath": ".spec.expose.nodePorts",
    }
    encrypted = "self.spec.tls.enabled" if driver.tls is not None and "tls" in driver.app.model_fields else "false"
    yield {
        "rule": f"!has({expose}) || !has({expose}.names) || size({expose}.names) == 0 || {encrypted}",
        "message": "are for certificates, and the app has none",
        "fieldPath": ".spec.expose.names",
    }


def _metrics_rules(driver: Driver[Any]) -> Iterator[dict[str, str]]:
    """Yield that there is no Service of metrics for a type whose members have no port for them."""
    if isinstance(driver, AppType) and "metrics" in driver.app.model_fields and driver.metrics_port is None:
        yield {
            "rule": "!has(self.spec.metrics) || !self.spec.metrics.service",
            "message": f"{driver.name} has no port for metrics",
            "fieldPath": ".spec.metrics.service",
        }


def _container_rules(driver: Driver[Any]) -> Iterator[dict[str, str]]:
    """Yield that no container beside members has the name of fleet's own, which each type says for itself."""
    if isinstance(driver, AppType) and "pods" in driver.app.model_fields:
        own = list(driver.container_names)
        sidecars = "self.spec.pods.sidecars"
        yield {
            "rule": f"!has(self.spec.pods) || !has({sidecars}) || {sidecars}.all(one, !(one.name in {own}))",
            "message": f"{', '.join(own)}: what fleet's own containers are called",
            "fieldPath": ".spec.pods.sidecars",
        }


def _without_adoption(rules: Sequence[dict[str, str]], kind: str) -> Iterator[dict[str, str]]:
    """Yield the rules as they are for a type that takes nothing over, whose schema has no such field.

    An API server refuses a definition with a rule about a field that there is not.
    """
    for rule in rules:
        if rule.get("fieldPath") == f".{ADOPTION}":
            continue
        cel = rule["rule"].replace(f"has(self.{ADOPTION})", "false").replace(f"has(oldSelf.{ADOPTION})", "false")
        if re.search(rf"[sS]elf\.{ADOPTION}\b", cel):
            raise ValueError(f"{kind} cannot be taken over, and a rule of it reads what is said about that: {cel}")
        yield {**rule, "rule": cel}


def _printer_column(name: str, kind: str, path: str, wide: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": 1} if wide else column
