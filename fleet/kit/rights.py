"""What an engine's own process may do with the API server: rules that its type declares, and nothing wider. Pure."""

from __future__ import annotations

from dataclasses import dataclass

RBAC = "rbac.authorization.k8s.io"
# With these a member could take rights that nobody declared, or what other apps of its namespace keep to themselves.
_VERBS_TO_MORE = frozenset({"bind", "escalate", "impersonate", "deletecollection"})
_RESOURCES_TO_MORE = frozenset(
    {
        "secrets",
        "serviceaccounts",
        "serviceaccounts/token",
        "pods/attach",
        "pods/ephemeralcontainers",
        "pods/exec",
        "pods/portforward",
    }
)


@dataclass(frozen=True, slots=True)
class ApiRule:
    """One rule of what a member may do in the namespace of its app, as a Role has it.

    Raise ValueError for one with a wildcard, and for one that leads to more rights than it says.
    """

    group: str  # "" is the core group
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()  # of objects; () is any. The same for every app of the type

    def __post_init__(self) -> None:
        if not self.resources or not self.verbs:
            raise ValueError("a rule without resources or verbs allows nothing")
        if "*" in "".join((self.group, *self.resources, *self.verbs, *self.names)):
            raise ValueError("a rule of a member names what it allows: no wildcards")
        wide = sorted({*self.verbs} & _VERBS_TO_MORE) or sorted({*self.resources} & _RESOURCES_TO_MORE)
        if self.group == RBAC or wide:
            raise ValueError(f"{wide[0] if wide else RBAC}: no rule of a member leads to more rights than it says")
        if self.names and "create" in self.verbs:
            raise ValueError("the API server cannot limit a create to names: it takes a rule of its own")

    @property
    def manifest(self) -> dict[str, list[str]]:
        """Return the rule as a ClusterRole has it."""
        rule = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule
