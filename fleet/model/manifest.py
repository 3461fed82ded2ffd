"""Any other Kubernetes object, as a dict or from YAML files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PlainValidator

from fleet.errors import Source
from fleet.model.adopt import Adopt
from fleet.model.desired import Key
from fleet.model.options import Options
from fleet.model.resource import Resource
from fleet.model.rule import Rule
from fleet.model.scope import current, declare
from fleet.model.scoped import CLUSTER_SCOPED
from fleet.model.source import locate
from fleet.model.wellformed import check_object


def _says_whose(adopt: bool | Adopt) -> bool:
    """And nothing else: the rest is about members."""
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
            holds=lambda self: _says_whose(self.opts.adopt),
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
