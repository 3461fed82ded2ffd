"""Resources that a stack can declare and options can point at: an app, or another Kubernetes object; and their options.

Options say how a resource is treated, whatever it is. Their names are Pulumi's. What runs already and is to be adopted
is named by where it is, and whose it was; what it is like is read from itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer

from fleet.errors import Source
from fleet.model.base import FrozenMap, Model
from fleet.model.source import NOWHERE
from fleet.model.types import Many, Name
from fleet.model.validation import invalid_value
from fleet.objects.desired import Key


class Resource(Model, frozen=True):
    """Constructing one inside a stack's function declares it."""

    @property
    def key(self) -> Key:
        """Return its identity in the cluster."""
        raise NotImplementedError

    @property
    def source(self) -> Source:
        """Return where it was written."""
        source: Source = self.__dict__.get("_source", NOWHERE)
        return source


Manager = Annotated[str, Field(min_length=1, max_length=128)]


class Adopt(Model, frozen=True):
    """Something that runs already, given as `opts=Options(adopt=Adopt(…))`. `fleet adopt` writes it."""

    identity: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """What the engine itself calls the members' cluster, as `fleet adopt` shows it; another one is never touched."""
    stateful_set: Name | None = None
    """The StatefulSet of the members; called as the app unless given."""
    stateful_sets: Annotated[
        Mapping[Annotated[str, Field(max_length=63)], Name],
        Field(max_length=8),
        AfterValidator(FrozenMap),
        PlainSerializer(dict, return_type=dict[str, str]),
    ] = FrozenMap()
    """The StatefulSets of an app's other kinds of pods, by kind; called NAME-KIND unless given."""
    service: Name | None = None
    """The Service that clients use; called as the app unless given."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port of that Service; the engine's usual one unless given."""
    take_from: Annotated[Many[Manager], Field(max_length=16)] = ()
    """Whose fields are taken away, by field manager: "helm", "kubectl-client-side-apply". Others keep theirs."""


_PATH = re.compile(r"""[A-Za-z_][\w-]*(\.[A-Za-z_*][\w-]*|\[\d+\]|\[\*\]|\["[^"]+"\])*""")


def _check_path(text: str) -> str:
    if _PATH.fullmatch(text):
        return text
    raise invalid_value(
        f"{text!r} is not a path of fields",
        """such as "members", "spec.replicas" or 'metadata.annotations["example.com/note"]'""",
    )


class Alias(Model, frozen=True):
    """A former identity of a resource; what is not given is as it is now."""

    name: Name | None = None
    namespace: Name | None = None
    kind: str | None = None
    group: str | None = None


class Options(Model, frozen=True):
    """Options of an app or a manifest, given as `opts=Options(…)`."""

    depends_on: Many[Resource | str] = ()
    """Wait for these to be healthy first: resources of this stack, or names such as "orders-db"."""
    parent: Resource | None = None
    """Belongs to this resource: shown under it, inherits `protect` and `retain_on_delete`, and whoever depends on the
    parent depends on it too."""
    protect: bool | None = None
    """Refuse to delete it until a commit says `protect=False`."""
    retain_on_delete: bool | None = None
    """When it is removed from git, leave it running in the cluster and forget it."""
    ignore_changes: Many[Annotated[str, AfterValidator(_check_path)]] = ()
    """Fields that are set when it is created and left alone afterwards."""
    aliases: Many[Alias | str] = ()
    """Former names; found under one of them, it is the same resource and not a new one. Kubernetes cannot rename: an
    app is called by the first of them in every cluster, addresses and Secrets included, for as long as it is here."""
    adopt: bool | Adopt = False
    """Take it over where it exists already. Without this an object of somebody else is a conflict. `Adopt(…)` says
    more: the running members that become an app, and whose fields are taken away."""

    def former_keys(self, now: Key) -> tuple[Key, ...]:
        """Return what the aliases of a resource stand for, in their order, without what it is called now."""
        keys: list[Key] = []
        for alias in self.aliases:
            if isinstance(alias, str):
                namespace, slash, name = alias.rpartition("/")
                keys.append(Key(now.group, now.kind, namespace if slash else now.namespace, name))
            else:
                group = now.group if alias.group is None else alias.group
                namespace, name = alias.namespace or now.namespace, alias.name or now.name
                keys.append(Key(group, alias.kind or now.kind, namespace, name))
        return tuple(key for key in dict.fromkeys(keys) if key != now)
