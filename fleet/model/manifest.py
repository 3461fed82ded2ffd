"""Any other Kubernetes object, as a dict or from YAML files.

This module knows what makes a dict a Kubernetes object that can be applied again and again, and the kinds of Kubernetes
itself that belong to the cluster and to no namespace: rendering asks no server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PlainValidator

from fleet.errors import Source
from fleet.model.base import Rule
from fleet.model.context import current_scope, declare
from fleet.model.resource import Adopt, Options, Resource
from fleet.model.source import locate
from fleet.model.validation import check_plain, copy_plain, invalid_value
from fleet.objects.desired import Key
from fleet.objects.shape import find_shape_error

_SERVER_SIDE = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def check_object(value: Any) -> dict[str, Any]:
    """Return a copy of the object without what only the server may say; raise an error that says what is missing."""
    example = 'such as {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {…}}'
    if not isinstance(value, Mapping):
        raise invalid_value(f"must be a dict, not {type(value).__name__}", example)
    manifest = dict(value)
    check_plain(manifest)
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            raise invalid_value(f"has no {field}", example)
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        if isinstance(metadata, dict) and "generateName" in metadata:
            raise invalid_value("metadata.generateName makes a new object at every sync", "give it a metadata.name")
        raise invalid_value("has no metadata.name", example)
    if not isinstance(metadata.get("namespace", ""), str):
        raise invalid_value("metadata.namespace must be a string")
    if manifest["kind"].endswith("List") and isinstance(manifest.get("items"), list):
        raise invalid_value("is a list of objects", "make a Manifest of each of its items")
    manifest = dict(copy_plain(manifest))
    if shape_error := find_shape_error(manifest):
        raise invalid_value(shape_error.message, shape_error.hint, shape_error.field)
    manifest.pop("status", None)  # the server's, as are these: exported YAML has them and may be used as it is
    for field in _SERVER_SIDE:
        manifest["metadata"].pop(field, None)
    return manifest


CLUSTER_SCOPED = frozenset(
    (group, kind)
    for group, kinds in {
        "": "Namespace Node PersistentVolume",
        "admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
        "ValidatingWebhookConfiguration",
        "apiextensions.k8s.io": "CustomResourceDefinition",
        "apiregistration.k8s.io": "APIService",
        "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
        "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
        "networking.k8s.io": "IngressClass IPAddress ServiceCIDR",
        "node.k8s.io": "RuntimeClass",
        "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
        "resource.k8s.io": "DeviceClass ResourceSlice",
        "scheduling.k8s.io": "PriorityClass",
        "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
        "storagemigration.k8s.io": "StorageVersionMigration",
    }.items()
    for kind in kinds.split()
)


def _has_take_from_only(adopt: bool | Adopt) -> bool:
    """Return whether an adoption says only from whom fields are taken: the rest is about members."""
    return not isinstance(adopt, Adopt) or adopt.model_fields_set <= {"take_from"}


class Manifest(Resource, frozen=True):
    """One Kubernetes object, given as the dict that its YAML would be.

    Without a namespace it goes to the stack's, unless its kind belongs to the cluster.
    """

    object: Annotated[Mapping[str, Any], PlainValidator(check_object)] = Field(kw_only=False)
    """apiVersion, kind, metadata.name, and whatever else the kind has."""
    opts: Options = Options()
    """How fleet treats it: dependencies, protection, adoption."""
    cluster_scoped: bool = False
    """Say so for a custom kind that has no namespace; kinds of Kubernetes itself are known."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="",
            message="says where members of an app are, and this is no app",
            holds=lambda self: _has_take_from_only(self.opts.adopt),
            hint='of a manifest only take_from counts: Adopt(take_from=["helm"])',
            field="opts.adopt",
        ),
    )

    if not TYPE_CHECKING:

        def __init__(self, *positional: Any, **fields: Any) -> None:
            super().__init__(*positional, **fields)
            self._place()
            self.__dict__["_source"] = locate()
            declare(self)

        __init__.__pydantic_base_init__ = True

    def _place(self) -> None:
        """Fill in the namespace. The object is our own copy, so nothing of the user's changes."""
        scope, manifest = current_scope(), self.__dict__["object"]
        key = Key.of(manifest)
        if (key.group, key.kind) in CLUSTER_SCOPED or self.cluster_scoped:
            manifest["metadata"].pop("namespace", None)
        elif scope is not None and not key.namespace:
            manifest["metadata"]["namespace"] = scope.namespace

    @property
    def key(self) -> Key:
        return Key.of(dict(self.object))


def read_manifest(document: Any, source: Source, opts: Options, *, cluster_scoped: bool = False) -> Manifest:
    """Return a manifest from a file: errors and plans then point into that file and not at the call that read it."""
    manifest = Manifest.model_validate({"object": document, "opts": opts, "cluster_scoped": cluster_scoped})
    manifest._place()
    manifest.__dict__["_source"] = source
    declare(manifest)
    return manifest
