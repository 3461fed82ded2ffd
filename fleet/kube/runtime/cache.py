"""Indexed objects of one kind as the server last reported them: of one namespace or all, with certain labels.

Reconciling reads from here and costs the server nothing. An `informer` fills a cache, and a writer adds its own writes
at once (`learn`), so that a pass never acts on a state that the pass before has changed already. Of managedFields only
our own manager's entry is kept: the others' are most of an object's memory. Pure: it knows no server and no clock.

All readers share the objects in it: never change one, make a new one (`{**object, "spec": …}`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fleet.objects.resource import Resource

Object = dict[str, Any]
Index = Callable[[Object], Iterable[str]]


class Name(NamedTuple):
    """Identity of an object of a kind; the key of caches and queues. The namespace is "" for objects of the cluster."""

    namespace: str
    name: str

    @classmethod
    def of(cls, live: Mapping[str, Any]) -> Name:
        metadata = live["metadata"]
        return cls(metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Change(NamedTuple):
    """An object before and after; None where it did not or does not exist.

    `version` lets a writer recognise its own writes: it is that of the object, or 0 where the change may consist of
    several.
    """

    before: Object | None
    after: Object | None
    version: int = 0

    @property
    def object(self) -> Object:
        side = self.after or self.before
        assert side is not None  # noqa: S101 - a change has one side at least
        return side


Listener = Callable[[Change], None]


@dataclass(slots=True)
class _Ahead:
    """An object that this process wrote and whose watch has not reported it yet."""

    reported: Object | None
    own: set[int]


class Cache:
    """Cached objects of one kind.

    Readers call `get`, `all` and `by`; the informer `put`, `remove`, `begin` and `finish`; a writer `learn`.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        manager: str = "",
        indexes: Mapping[str, Index] | None = None,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.labels = dict(labels or {})
        self.synced = False  # whether a list was complete once
        self.listeners: list[Listener] = []
        self._manager = manager
        self._objects: dict[Name, Object] = {}
        self._indexes: dict[str, Index] = {}
        self._indexed: dict[str, dict[str, dict[Name, Object]]] = {}
        self._ahead: dict[Name, _Ahead] = {}
        self._seen: set[Name] | None = None
        self._version = 0  # the newest version that the server reported, not counting answers to our writes
        for name, index in (indexes or {}).items():
            self.index(name, index)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get(Name(namespace, name))

    def names(self) -> list[Name]:
        return list(self._objects)

    def by(self, index: str, value: str) -> list[Object]:
        """Return the objects for which the index of that name gives this value, in the order of their names."""
        matches = self._indexed[index].get(value, {})
        return [matches[name] for name in sorted(matches)]

    def has(self, index: str, value: str) -> bool:
        """Return whether `by` would find anything."""
        return value in self._indexed[index]

    def index(self, name: str, index: Index) -> None:
        """Add an index of that name, and put the present objects into it."""
        self._indexes[name] = index
        self._indexed[name] = {}
        for key, cached in self._objects.items():
            self._file(name, key, cached)

    def clear(self) -> None:
        """Forget all objects and that a list was ever complete; listeners are not told that the objects ended."""
        self._objects.clear()
        self._ahead.clear()
        for values in self._indexed.values():
            values.clear()
        self._seen, self._version, self.synced = None, 0, False

    def unindex(self, name: str) -> None:
        del self._indexes[name], self._indexed[name]

    def begin(self) -> None:
        """Begin a list. The present objects stay until it is complete, so that no reader sees a half-empty cache."""
        self._seen = set()

    def put(self, live: Object) -> None:
        """Take in the object as the server reports it. A newer version that is cached already stays."""
        name, version = Name.of(live), version_of(live)
        if self._seen is not None:
            self._seen.add(name)
        self._advance(live)
        cached = self._objects.get(name)
        if name in self._ahead:
            self._catch_up(name, live)
        elif cached is None or version_of(cached) < version:
            self._set(name, live)
            self._tell(Change(cached, live, version))

    def remove(self, live: Object) -> None:
        """Take in the server's report that the object is gone."""
        self._advance(live)
        name = Name.of(live)
        cached = self._objects.get(name)
        if cached is not None and version_of(cached) <= version_of(live):
            self._drop(name, cached)
        elif name in self._ahead:
            self._ahead[name].reported = None  # this process created it again, which the watch reports next

    def advance(self, version: str) -> None:
        """Take in the server's report that nothing else happened until this version (a bookmark)."""
        self._version = max(self._version, _parse_version(version))

    def finish(self, version: str) -> None:
        """End a list: drop the objects that it did not have, unless this process created them after its moment."""
        listed, self._seen = self._seen or set(), None
        self._version = _parse_version(version)
        for name, cached in list(self._objects.items()):
            if name not in listed and version_of(cached) <= self._version:
                self._drop(name, cached)
        self.synced = True

    def learn(self, written: Object, *, ours: bool = True) -> None:
        """Take in the server's answer to a write, which made this version (`ours`) or found nothing to change.

        The watch will report it and all that comes after, so it is taken only if the watch has not come so far yet:
        otherwise an object that was deleted right after our write would stay here for ever.
        """
        name, version = Name.of(written), version_of(written)
        if version <= self._version or not self._belongs(written):
            return
        cached = self._objects.get(name)
        if cached is not None and version_of(cached) == version and name not in self._ahead:
            return
        ahead = self._ahead.setdefault(name, _Ahead(cached, set()))
        if ours:
            ahead.own.add(version)
        if cached is None or version_of(cached) < version:
            self._set(name, written)
            if ours:  # otherwise the watch will report it
                self._tell(Change(cached, written, version))

    def _catch_up(self, name: Name, live: Object) -> None:
        """Take in the watch's report about an object that this process wrote meanwhile.

        Another client may have changed it right before that write. Our answer held that change, but looked like our
        own: so each step that the watch reports and that is not ours is passed on, though the object here is newer
        already.
        """
        ahead, cached, version = self._ahead[name], self._objects[name], version_of(live)
        before, ahead.reported = ahead.reported, trim_object(live, self.resource, self._manager)
        if version >= version_of(cached):
            del self._ahead[name]
        if version > version_of(cached):
            self._set(name, live)
        listing = self._seen is not None  # a list leaves out the steps in between
        if listing and (before is None or version_of(before) != version):
            self._tell(Change(before, live))
        elif not listing and version not in ahead.own:
            self._tell(Change(before, live, version))

    def _belongs(self, live: Object) -> bool:
        metadata = live["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        labels = metadata.get("labels", {})
        return all(labels.get(label) == value for label, value in self.labels.items())

    def _advance(self, live: Object) -> None:
        if self._seen is None:  # objects of a list come in the order of their names, not of time
            self._version = max(self._version, version_of(live))

    def _set(self, name: Name, live: Object) -> None:
        live = trim_object(live, self.resource, self._manager)
        if (cached := self._objects.get(name)) is not None:
            self._unfile(name, cached)
        self._objects[name] = live
        for index in self._indexes:
            self._file(index, name, live)

    def _drop(self, name: Name, cached: Object) -> None:
        del self._objects[name]
        self._ahead.pop(name, None)
        self._unfile(name, cached)
        self._tell(Change(cached, None))

    def _tell(self, change: Change) -> None:
        for listener in self.listeners:
            listener(change)

    def _file(self, index: str, name: Name, live: Object) -> None:
        for value in self._indexes[index](live):
            self._indexed[index].setdefault(value, {})[name] = live

    def _unfile(self, name: Name, cached: Object) -> None:
        for index, values in self._indexed.items():
            for value in self._indexes[index](cached):
                entries = values.get(value, {})
                entries.pop(name, None)
                if not entries:
                    values.pop(value, None)


def version_of(live: Object) -> int:
    return _parse_version(live["metadata"].get("resourceVersion", ""))


def _parse_version(version: str) -> int:
    """Return the version as a number; 0 if it is none.

    Versions of one resource are numbers that grow, a promise of the API since Kubernetes 1.35 and true before.
    """
    return int(version) if version.isdigit() else 0


def trim_object(live: Object, resource: Resource, manager: str) -> Object:
    """Add kind and version to an object (lists leave them out), and keep only this manager's managedFields.

    The object itself is changed and returned.
    """
    metadata = live["metadata"]
    fields = metadata.pop("managedFields", None)
    own = [entry for entry in fields or () if entry.get("manager") == manager]
    if own:
        metadata["managedFields"] = own
    live["apiVersion"], live["kind"] = resource.api_version, resource.kind
    return live
