"""The kinds that a server serves: group and kind → versions, plural, scope.

They are read with two requests (aggregated discovery) and cached.

A kind that is not listed counts as absent only when the server is sure: a group whose own server does not answer is
marked stale, and asking for a kind in it raises an error rather than saying that there is none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleet.errors import NotFoundError, ResourceError
from fleet.objects.desired import Key
from fleet.objects.resource import Resource

if TYPE_CHECKING:
    from fleet.kube.client.client import Client

ACCEPT = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)


@dataclass(slots=True)
class Discovery:
    """Index of the kinds that a server serves. `add` is for kinds that were just defined and are not listed yet."""

    versions: dict[tuple[str, str], dict[str, Resource]] = field(default_factory=dict)  # best version first
    stale: frozenset[str] = frozenset()  # groups of which not all kinds are known

    def add(self, resource: Resource) -> None:
        self.versions.setdefault((resource.group, resource.kind), {})[resource.version] = resource

    def find(self, group: str, kind: str, version: str | None = None) -> Resource | None:
        """Return the version asked for, else the preferred one; None if the server certainly does not serve it.

        Raise ResourceError if the server of its group does not answer.
        """
        versions = self.versions.get((group, kind), {})
        resource = versions.get(version) if version else next(iter(versions.values()), None)
        if resource is None and group in self.stale:
            raise ResourceError(
                f"it is not known whether {kind}.{group} exists: the server of group {group} does not answer",
                hint="`kubectl get apiservices` shows which one is not available",
            )
        return resource

    def resource(self, key: Key, version: str | None = None) -> Resource:
        """Return the version asked for, else the preferred one; raise NotFoundError if there is none."""
        resource = self.find(key.group, key.kind, version)
        if resource is None:
            name = f"{key.kind}.{key.group}" if key.group else key.kind
            alternatives = ", ".join(self.versions.get((key.group, key.kind), {}))
            served = f"version {version} (it serves {alternatives})" if version and alternatives else "kind"
            raise NotFoundError(
                f"the cluster does not serve this {served}: {name}",
                hint="is its CustomResourceDefinition installed? `fleet crds` has those of the apps",
            )
        return resource


async def discover(client: Client) -> Discovery:
    """Ask the server which kinds it serves."""
    core, groups = await asyncio.gather(
        client.request("GET", "/api", accept=ACCEPT), client.request("GET", "/apis", accept=ACCEPT)
    )
    return read_discovery(core.body, groups.body)


def read_discovery(*lists: Any) -> Discovery:
    """Index APIGroupDiscoveryLists. Pure."""
    discovery = Discovery()
    stale = set()
    for document in lists:
        if not isinstance(document, dict) or document.get("kind") != "APIGroupDiscoveryList":
            raise ResourceError("the API server has no aggregated discovery", hint="Kubernetes 1.31 or newer is needed")
        for item in document.get("items", ()):
            group = item.get("metadata", {}).get("name", "")
            for version in item.get("versions", ()):
                if version.get("freshness", "Current") != "Current":
                    stale.add(group)
                for resource in version.get("resources", ()):
                    kind = resource.get("responseKind", {}).get("kind")
                    if kind and {"get", "list"} <= set(resource.get("verbs", ())):
                        namespaced = resource["scope"] == "Namespaced"
                        discovery.add(Resource(group, version["version"], kind, resource["resource"], namespaced))
    discovery.stale = frozenset(stale)
    return discovery


def resource_of_definition(crd: dict[str, Any]) -> list[Resource]:
    """Return the resources that a CustomResourceDefinition defines, in its order of versions."""
    spec = crd["spec"]
    return [
        Resource(
            spec["group"],
            version["name"],
            spec["names"]["kind"],
            spec["names"]["plural"],
            spec["scope"] == "Namespaced",
        )
        for version in spec["versions"]
        if version.get("served")
    ]
