"""Objects that a stack wants in one cluster, as plain data: the output of evaluate and render, the input of plan.

Nothing in this module knows pydantic, Kubernetes clients or git; its data can be printed, stored, compared and sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fleet.errors import Source

_set = object.__setattr__  # of frozen objects: what is found out about them later
StackCluster = tuple[str, str]  # names of a stack and of a cluster: one placement


class Key(NamedTuple):
    """The identity of an object in a cluster. The group has no version: those change under one identity.

    A tuple, because each object's is hashed and compared dozens of times in every sync.
    """

    group: str  # "" for the core group
    kind: str
    namespace: str  # "" for objects of the cluster
    name: str

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> Key:
        group, _, version = manifest["apiVersion"].rpartition("/")
        del version
        metadata = manifest["metadata"]
        return cls(group, manifest["kind"], metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Object:
    """One object that a stack wants, with what its options say about it."""

    manifest: dict[str, Any] = field(repr=False)  # it may hold a secret, and a repr ends up anywhere
    source: Source
    app: str = ""  # the app type's kind ("Etcd") when the object is an app's custom resource, else ""
    depends_on: tuple[Key, ...] = ()
    protect: bool = False
    retain_on_delete: bool = False
    adopt: bool = False
    take_from: tuple[str, ...] = ()  # field managers that give up their fields when it is adopted
    ignore_changes: tuple[str, ...] = ()  # field paths such as "spec.replicas"
    aliases: tuple[Key, ...] = ()  # other identities that are looked for: found there, it is not made anew
    hash: str = field(default="", compare=False)  # of the manifest as it is applied, where it is known already
    # Found out once, and never taken along to a copy with another manifest.
    _key: Key | None = field(default=None, init=False, repr=False, compare=False)
    _version: str = field(default="", init=False, repr=False, compare=False)
    _hash: str = field(default="", init=False, repr=False, compare=False)
    _text: bytes = field(default=b"", init=False, repr=False, compare=False)  # the manifest, until it is decoded

    @classmethod
    def from_json(
        cls, text: bytes, key: Key, version: str, source: Source, *, digest: str, options: Mapping[str, Any]
    ) -> Object:
        """Return the object whose manifest is this text, with its key, version and hash. The text is decoded when the
        manifest is first asked for: in most syncs that of most objects is not, since nothing about them has changed.
        """
        values = {"source": source, "hash": digest, "_key": key, "_version": version, "_text": text}
        new_object = cls.__new__(cls)
        for name, value in {**_DEFAULTS, **options, **values}.items():
            _set(new_object, name, value)
        return new_object

    if not TYPE_CHECKING:  # to a type checker, the manifest is always there

        def __getattr__(self, name: str) -> Any:
            """Return the manifest, decoded now, of an object that does not have it yet."""
            if name != "manifest":
                raise AttributeError(name)
            manifest = orjson.loads(self._text)
            _set(self, "manifest", manifest)
            return manifest

    def hash_with(self, how: Callable[[dict[str, Any]], str]) -> str:
        """Return the hash of the manifest, computed by `how` the first time: a long-lived process asks often, and there
        is only one way to compute it.
        """
        digest = self.hash or self._hash
        if not digest:
            digest = how(self.manifest)
            _set(self, "_hash", digest)
        return digest

    @property
    def key(self) -> Key:
        key = self._key
        if key is None:
            key = Key.of(self.manifest)
            _set(self, "_key", key)
        return key

    @property
    def version(self) -> str:
        """Return the API version without its group, such as "v1"."""
        version = self._version
        if not version:
            version = self.manifest["apiVersion"].rpartition("/")[2]
            _set(self, "_version", version)
        return version

    @property
    def kind(self) -> tuple[str, str, str]:
        """Return the group, version and kind, which an object has whose identity cannot be read."""
        if self._key is not None:
            return self._key.group, self.version, self._key.kind
        group, _, version = self.manifest["apiVersion"].rpartition("/")
        return group, version, self.manifest["kind"]

    @property
    def other_keys(self) -> tuple[Key, ...]:
        """Return the keys under which the object may exist in a cluster and stay; an app is called by its key, or
        refused.
        """
        return () if self.app else self.aliases


_DEFAULTS = {about.name: about.default for about in fields(Object) if about.default is not MISSING}


@dataclass(frozen=True, slots=True)
class Desired:
    """One stack on one cluster, in a stable order (dependencies first, then by key)."""

    stack: str
    cluster: str
    objects: tuple[Object, ...]
    exports: dict[str, Any] = field(default_factory=dict)
    source: Source = field(default=Source(""))  # of the stack's function


def adopted_stateful_set(manifest: dict[str, Any]) -> Key | None:
    """Return the key of the StatefulSet that an app's custom resource adopts; None for an app that is made anew."""
    adopt = (manifest.get("spec") or {}).get("adopt")
    if not isinstance(adopt, dict):
        return None
    metadata = manifest["metadata"]
    return Key("apps", "StatefulSet", metadata.get("namespace", ""), adopt.get("statefulSet") or metadata["name"])
