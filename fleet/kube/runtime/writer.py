"""The writer of reconcilers: apply, write status, delete.

Each is one guarded request, and the caches learn of it at once.

Applying is server-side, with the operator's own field manager. An object that is as it should be costs nothing: a
cached object is compared first, and so is a status. A delete always carries UID and resourceVersion, so it deletes
exactly the object that was looked at.

`made_by_us` tells whether our apply made a version of an object, or had nothing to change and the server answered with
another client's version. A pass is not woken by its own writes, so taking another's change for one's own would lose it.
The server shows it in managedFields: a manager's entry gets a new time with each apply that changed something. Times
are in seconds and of several servers; where they leave a doubt, the answer is no, which costs one more look and loses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.errors import ConflictError, ResourceError
from fleet.kube import objects
from fleet.kube.client import errors
from fleet.kube.client.client import Client, Response
from fleet.kube.objects import APPLY
from fleet.kube.runtime.cache import Cache, Name, Object, version_of
from fleet.objects.compare import compare
from fleet.objects.desired import Key
from fleet.objects.fields import owned_fields
from fleet.objects.normalise import normalise
from fleet.objects.resource import Resource


def made_by_us(before: Object | None, answer: Object, manager: str) -> bool:
    """Return whether our apply made the version in the answer. Pure.

    `before` is the object as cached when the request was sent, `answer` the server's, with all managedFields.
    """
    if before is None:
        return False
    entries = answer["metadata"].get("managedFields") or ()
    ours = [entry for entry in entries if entry.get("manager") == manager]
    cached = [entry for entry in before["metadata"].get("managedFields") or () if entry.get("manager") == manager]
    if not ours or ours == cached:
        return False
    latest = max(entry.get("time", "") for entry in ours)
    return all(entry.get("time", "") <= latest for entry in entries)


CREATED = 201


class Writer:
    """Writer for one pass. `written` are the versions that its writes made: they need not wake it again."""

    def __init__(self, client: Client, manager: str, caches: Iterable[Cache]) -> None:
        self.client = client
        self.written: set[int] = set()
        self._manager = manager
        self._caches = caches

    async def apply(self, resource: Resource, manifest: Object, *, force: bool = True, subresource: str = "") -> Object:
        """Send a server-side apply and return the object as the server has it.

        With `metadata.uid`, it applies only to that very object; with `resourceVersion`, only to that version. Nothing
        is sent if the cache shows that all fields that we own or want are so already. Raise ConflictError if it is
        another object or it changed.
        """
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        if not subresource and (cached := self._find_unchanged(resource, manifest)) is not None:
            return cached
        path = resource.path(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        if subresource:
            path = f"{path}/{subresource}"
        before = self._find_cached(resource, Name.of(manifest))
        answer = await self.client.request(
            "PATCH",
            f"{path}?fieldManager={self._manager}&force={'true' if force else 'false'}",
            body=manifest,
            content_type=APPLY,
            expect=(409, 422),
        )
        if answer.status >= 300:
            raise self._refusal("patch", path, answer, has_uid="uid" in manifest["metadata"])
        written: Object = answer.body
        self._learn(resource, written, answer.status == CREATED or made_by_us(before, written, self._manager))
        return written

    async def status(self, resource: Resource, live: Object, status: dict[str, Any], *, force: bool = True) -> Object:
        """Write the object's status, unless it is the same already."""
        if live.get("status") == status:
            return live
        own = live["metadata"]
        metadata = {name: own[name] for name in ("name", "namespace", "uid") if name in own}
        return await self.apply(resource, {"metadata": metadata, "status": status}, force=force, subresource="status")

    async def delete(self, resource: Resource, live: Object, *, propagation: str = "Background") -> bool:
        """Delete the object as it was read. Return False if it is gone; raise ConflictError if it has changed."""
        own = live["metadata"]
        answer = await objects.delete(
            self.client,
            resource,
            own.get("namespace", ""),
            own["name"],
            uid=own["uid"],
            resource_version=own["resourceVersion"],
            propagation=propagation,
        )
        if answer.status == 409:
            raise self._refusal("delete", resource.path(own.get("namespace", ""), own["name"]), answer)
        if answer.status < 300 and isinstance(answer.body, dict) and answer.body.get("kind") == resource.kind:
            self._learn(resource, answer.body, True)  # it has finalizers, so it stays, marked as deleted
        return answer.status < 300

    def _find_unchanged(self, resource: Resource, manifest: Object) -> Object | None:
        """Return the cached object if applying would change nothing; None if that is uncertain: the server is asked."""
        name, own = Name.of(manifest), manifest["metadata"]
        for cache in self._of(resource):
            cached = cache.get(*name)
            owned = owned_fields(cached, self._manager) if cached else None
            if (
                cached is None
                or owned is None
                or own.get("uid", cached["metadata"]["uid"]) != cached["metadata"]["uid"]
            ):
                continue
            wanted = normalise(manifest)
            if "resourceVersion" not in own and not compare(wanted, cached, owned, key=Key.of(manifest), strict=True):
                return cached
        return None

    def _of(self, resource: Resource) -> Iterable[Cache]:
        kind = (resource.group, resource.kind)
        return (cache for cache in self._caches if (cache.resource.group, cache.resource.kind) == kind)

    def _find_cached(self, resource: Resource, name: Name) -> Object | None:
        return next((cached for cache in self._of(resource) if (cached := cache.get(*name))), None)

    def _learn(self, resource: Resource, written: Object, ours: bool) -> None:
        if ours:
            self.written.add(version_of(written))
        for cache in self._of(resource):
            cache.learn(written, ours=ours)

    def _refusal(self, verb: str, path: str, answer: Response, *, has_uid: bool = False) -> ResourceError:
        message = errors.error_text(answer.body)
        where = f"{self.client.place}: {verb} {path}"
        if answer.status == 409 or (has_uid and "metadata.uid" in message):
            return ConflictError(f"{where}: {message}")
        return ResourceError(f"{where}: {message}")
