"""The verbs for reconcilers: apply, write status, delete. Each is one guarded request, told to the caches at once.

Applying is server-side, with the operator's own field manager; a status that is as it should be costs nothing; a
delete always carries UID and resourceVersion, so it takes away exactly what was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.errors import ConflictError, ResourceError
from fleet.kube import failure, objects
from fleet.kube.client import Answer, Client
from fleet.kube.discovery import Resource
from fleet.kube.objects import APPLY
from fleet.kube.runtime.cache import Cache, Name, Object


class Writer:
    """For one pass: `by` is its controller and key, whose own writes do not wake it again."""

    def __init__(
        self, client: Client, manager: str, caches: Iterable[Cache], by: tuple[str, Name] | None = None
    ) -> None:
        self.client = client
        self._manager = manager
        self._caches = caches
        self._by = by

    async def apply(self, resource: Resource, manifest: Object, *, force: bool = True, subresource: str = "") -> Object:
        """Server-side apply. With `metadata.uid`, only to that very object; with `resourceVersion`, only as it was."""
        path = resource.path(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        if subresource:
            path = f"{path}/{subresource}"
        answer = await self.client.request(
            "PATCH",
            f"{path}?fieldManager={self._manager}&force={'true' if force else 'false'}",
            body={"apiVersion": resource.api_version, "kind": resource.kind, **manifest},
            content_type=APPLY,
            expect=(409, 422),
        )
        if answer.status >= 300:
            raise self._refusal("patch", path, answer, has_uid="uid" in manifest["metadata"])
        return self._learned(resource, answer.body)

    async def status(self, resource: Resource, found: Object, status: dict[str, Any], *, force: bool = True) -> Object:
        """Make the object's status this, unless it is already."""
        if found.get("status") == status:
            return found
        own = found["metadata"]
        metadata = {name: own[name] for name in ("name", "namespace", "uid") if name in own}
        return await self.apply(resource, {"metadata": metadata, "status": status}, force=force, subresource="status")

    async def delete(self, resource: Resource, found: Object, *, propagation: str = "Background") -> bool:
        """Delete the object as it was seen. False when it is gone; ConflictError when it is not that any more."""
        own = found["metadata"]
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
            self._learned(resource, answer.body)  # it has finalizers: it stays, marked
        return answer.status < 300

    def _learned(self, resource: Resource, found: Object) -> Object:
        for cache in self._caches:
            if (cache.resource.group, cache.resource.kind) == (resource.group, resource.kind):
                cache.learn(found, self._by)
        return found

    def _refusal(self, verb: str, path: str, answer: Answer, *, has_uid: bool = False) -> ResourceError:
        message = failure.said(answer.body)
        where = f"{self.client.place}: {verb} {path}"
        if answer.status == 409 or (has_uid and "metadata.uid" in message):
            return ConflictError(f"{where}: {message}")
        return ResourceError(f"{where}: {message}")
