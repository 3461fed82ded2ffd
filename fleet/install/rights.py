"""What the operator may do. No wildcards; of other kinds than its own, nothing outside the namespaces that say so.

Three roles: what must be seen everywhere (the apps themselves, which nodes there are, where volumes can be used), what
one of several replicas needs to lead, and what apps are made of. The last is bound by RoleBindings only, one per
namespace.
"""

from __future__ import annotations

from typing import Any

from fleet.apps.registry import drivers
from fleet.names import GROUP
from fleet.render.crd import definition
from fleet.render.operator_rights import APPS_ROLE, OPERATOR, RBAC, SYSTEM

Manifest = dict[str, Any]
SEE = ("get", "list", "watch")
MAKE = (*SEE, "create", "patch", "delete")  # server-side apply is a patch, and a create where there is nothing yet


def everywhere() -> Manifest:
    """Apps in all namespaces: it must find them, report in their status and hold them until it has cleaned up."""
    kinds = [definition(driver) for driver in drivers()]
    plurals = [one["spec"]["names"]["plural"] for one in kinds]
    return _role(
        "ClusterRole",
        OPERATOR,
        _rule(GROUP, plurals, (*SEE, "patch")),
        _rule(GROUP, [f"{plural}/status" for plural in plurals], ("patch",)),
        _rule("", ["nodes"], SEE),
        _rule(
            "", ["persistentvolumes"], ("get",)
        ),  # whether one is on a node that is gone, or can be reached elsewhere
        _rule(  # whether an app is deleted or its whole kind
            "apiextensions.k8s.io",
            ["customresourcedefinitions"],
            ("get",),
            names=[one["metadata"]["name"] for one in kinds],
        ),
    )


def in_namespaces() -> Manifest:
    """What apps are made of."""
    return _role(
        "ClusterRole",
        APPS_ROLE,
        _rule("", ["services", "configmaps", "secrets", "persistentvolumeclaims"], MAKE),
        _rule("", ["pods"], (*SEE, "delete")),
        _rule("apps", ["statefulsets"], MAKE),
        _rule("apps", ["controllerrevisions"], ("get",)),  # to go back to the template before a failed roll
        _rule("policy", ["poddisruptionbudgets"], MAKE),
        _rule("batch", ["jobs", "cronjobs"], MAKE),
        _rule("events.k8s.io", ["events"], ("create", "patch")),
    )


def at_home() -> Manifest:
    """The Lease that says which replica leads. A create cannot be limited to a name."""
    group = "coordination.k8s.io"
    role = _role(
        "Role",
        OPERATOR,
        _rule(group, ["leases"], ("create",)),
        _rule(group, ["leases"], ("get", "update"), names=[OPERATOR]),
    )
    role["metadata"]["namespace"] = SYSTEM
    return role


def bound(role: Manifest) -> Manifest:
    """The binding of a role to the operator's account, as wide as the role."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": RBAC, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": SYSTEM}],
    }


def _role(kind: str, name: str, *rules: Manifest) -> Manifest:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules)}


def _rule(group: str, resources: list[str], verbs: tuple[str, ...], *, names: list[str] | None = None) -> Manifest:
    rule: Manifest = {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
    return {**rule, "resourceNames": names} if names else rule
