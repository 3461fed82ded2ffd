"""A kind that a server serves, as the paths of its objects need it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from fleet.errors import ConfigurationError

# A resourceVersion. etcd's first revision holds no object: applied with it, an object is created or refused.
NEVER = "1"


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of one kind, with enough to make the paths of its objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """Return the name that kubectl uses: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str = "") -> str:
        """Return the path of all objects in one namespace, or in all with ""."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = namespace and self.namespaced
        return f"{root}/namespaces/{namespace}/{self.plural}" if inside else f"{root}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Return the path of one object; raise ConfigurationError if its name or namespace cannot be part of a path."""
        if self.namespaced and not namespace:
            raise ConfigurationError(f"{self.kind} {name} has no namespace, and its kind needs one")
        # Names of RBAC objects may hold ":" and, in theory, anything but "/" and "%". Servers decode paths before they
        # split them, so a name with a slash, as a user may write into a reference, leads to another object.
        if name in (".", "..") or "/" in name or "%" in name:
            raise ConfigurationError(f"{name[:100]!r} is not the name of a {self.kind}")
        return f"{self.collection(namespace)}/{quote(name, safe=':')}"
