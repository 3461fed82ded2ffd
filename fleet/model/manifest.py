"""Any other Kubernetes object, as a dict or from YAML files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PlainValidator

from fleet.errors import Source
from fleet.model.desired import Key
from fleet.model.invalid import wrong
from fleet.model.options import Options
from fleet.model.plain import check_plain, copied
from fleet.model.resource import Resource
from fleet.model.scope import current, declare
from fleet.model.scoped import CLUSTER_SCOPED
from fleet.model.source import locate

_SERVER_SIDE = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


class Manifest(Resource, frozen=True):
    """One Kubernetes object, given as the dict that its YAML would be.

    Without a namespace it goes to the stack's, unless its kind belongs to the cluster.
    """

    object: Annotated[Mapping[str, Any], PlainValidator(lambda given: _checked(given))] = Field(kw_only=False)
    """apiVersion, kind, metadata.name, and whatever else the kind has."""
    opts: Options = Options()
    """How fleet treats it: dependencies, protection, adoption."""
    cluster_scoped: bool = False
    """Say so for a custom kind that has no namespace; kinds of Kubernetes itself are known."""

    if not TYPE_CHECKING:

        def __init__(self, *positional: Any, **fields: Any) -> None:
            super().__init__(*positional, **fields)
            self._place()
            self.__dict__["_source"] = locate()
            declare(self)

        __init__.__pydantic_base_init__ = True

    def _place(self) -> None:
        """Fill in the namespace. The object is our own copy, so nothing of the user's changes."""
        scope, manifest = current(), self.__dict__["object"]
        key = Key.of(manifest)
        if (key.group, key.kind) in CLUSTER_SCOPED or self.cluster_scoped:
            manifest["metadata"].pop("namespace", None)
        elif scope is not None and not key.namespace:
            manifest["metadata"]["namespace"] = scope.namespace

    @property
    def key(self) -> Key:
        return Key.of(dict(self.object))


def read(document: Any, source: Source, opts: Options, *, cluster_scoped: bool = False) -> Manifest:
    """A manifest from a file: errors and plans then point into that file and not at the call that read it."""
    made = Manifest.model_validate({"object": document, "opts": opts, "cluster_scoped": cluster_scoped})
    made._place()
    made.__dict__["_source"] = source
    declare(made)
    return made


def _checked(given: Any) -> dict[str, Any]:
    example = 'such as {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {…}}'
    if not isinstance(given, Mapping):
        raise wrong(f"must be a dict, not {type(given).__name__}", example)
    manifest = dict(given)
    check_plain(manifest)
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            raise wrong(f"has no {field}", example)
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        if isinstance(metadata, dict) and "generateName" in metadata:
            raise wrong("metadata.generateName makes a new object at every sync", "give it a metadata.name")
        raise wrong("has no metadata.name", example)
    if not isinstance(metadata.get("namespace", ""), str):
        raise wrong("metadata.namespace must be a string")
    for field in ("labels", "annotations"):
        pairs = metadata.get(field) or {}
        if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
            raise wrong(f"metadata.{field} must hold strings only", "quote numbers, true and false")
    if manifest["kind"].endswith("List") and isinstance(manifest.get("items"), list):
        raise wrong("is a list of objects", "make a Manifest of each of its items")
    manifest = copied(manifest)
    manifest.pop("status", None)  # the server's, as are these: exported YAML has them and may be used as it is
    for field in _SERVER_SIDE:
        manifest["metadata"].pop(field, None)
    return manifest
