"""Rights of the operator. No wildcards; of other kinds than its own, nothing outside the namespaces that say so.

Three roles: what must be seen everywhere (the apps themselves, which nodes there are, where volumes can be used), what
one of several replicas needs to lead, and what apps are made of. The last is bound by RoleBindings only, one per
namespace. What members may do whose engine talks to the API server is a role per app type that the operator may bind
and does not have.
"""

from __future__ import annotations

from typing import Any

from fleet.apps.registry import drivers
from fleet.kit.app_type import AppType
from fleet.kit.operations.operation import RESOURCE as OPERATIONS
from fleet.kit.workload.accounts import make_cluster_role
from fleet.render.crd import definition
from fleet.render.operator_rights import APPS_ROLE, OPERATOR, RBAC, SYSTEM

Manifest = dict[str, Any]
PEOPLE_ROLE = "fleet-operations"
READ_VERBS = ("get", "list", "watch")
WRITE_VERBS = (
    *READ_VERBS,
    "create",
    "patch",
    "delete",
)  # server-side apply is a patch, and a create where there is nothing yet


def cluster_role() -> Manifest:
    """Return the role for apps in all namespaces: it finds them, reports in their status and holds them for cleanup."""
    kinds = [definition(driver) for driver in drivers()]
    plurals_by_group: dict[str, list[str]] = {}
    for kind in kinds:
        plurals_by_group.setdefault(kind["spec"]["group"], []).append(kind["spec"]["names"]["plural"])
    return _role(
        "ClusterRole",
        OPERATOR,
        *[_rule(group, plurals, (*READ_VERBS, "patch")) for group, plurals in plurals_by_group.items()],
        *[
            _rule(group, [f"{plural}/status" for plural in plurals], ("patch",))
            for group, plurals in plurals_by_group.items()
        ],
        _rule(OPERATIONS.group, [OPERATIONS.plural], (*READ_VERBS, "delete")),  # those that have ended are forgotten
        _rule(OPERATIONS.group, [f"{OPERATIONS.plural}/status"], ("patch",)),
        _rule("", ["nodes"], READ_VERBS),
        _rule(
            "", ["persistentvolumes"], ("get",)
        ),  # whether one is on a node that is gone, or can be reached elsewhere
        _rule(  # whether an app is deleted or its whole kind
            "apiextensions.k8s.io",
            ["customresourcedefinitions"],
            ("get",),
            names=[kind["metadata"]["name"] for kind in kinds],
        ),
    )


def apps_role() -> Manifest:
    """Return the role for what apps are made of."""
    return _role(
        "ClusterRole",
        APPS_ROLE,
        _rule("", ["services", "configmaps", "secrets", "persistentvolumeclaims"], WRITE_VERBS),
        _rule("", ["pods"], (*READ_VERBS, "delete")),
        _rule("apps", ["statefulsets"], WRITE_VERBS),
        _rule("apps", ["controllerrevisions"], ("get",)),  # to go back to the template before a failed roll
        _rule("policy", ["poddisruptionbudgets"], WRITE_VERBS),
        _rule("networking.k8s.io", ["networkpolicies"], WRITE_VERBS),
        _rule("batch", ["jobs", "cronjobs"], WRITE_VERBS),
        _rule("events.k8s.io", ["events"], ("create", "patch")),
        *_binding_rules(),
        *_endpoint_rules(),
    )


def member_roles() -> list[Manifest]:
    """Return a role for the members of each app type whose engine talks to the API server.

    Nobody has one until the operator binds it in a namespace with an app of the type.
    """
    types = (driver for driver in drivers() if isinstance(driver, AppType))
    return [role for app_type in types if (role := make_cluster_role(app_type)) is not None]


def _binding_rules() -> list[Manifest]:
    """Return what lets the operator give members their rights, which it has not itself; nothing where there are none.

    The API server takes a binding to any other role only from those who have all of its rights. A right to bind that
    is bound in a namespace counts in that namespace alone.
    """
    roles = [role["metadata"]["name"] for role in member_roles()]
    if not roles:
        return []
    return [
        _rule("", ["serviceaccounts"], WRITE_VERBS),
        _rule(RBAC, ["rolebindings"], WRITE_VERBS),
        _rule(RBAC, ["clusterroles"], ("bind",), names=roles),
    ]


def _endpoint_rules() -> list[Manifest]:
    """Return what lets the operator say where Services lead; nothing where no type asks it to."""
    kept = any(driver.keeps_endpoints for driver in drivers() if isinstance(driver, AppType))
    return [_rule("discovery.k8s.io", ["endpointslices"], WRITE_VERBS)] if kept else []


def people_role() -> Manifest:
    """Return the role of people who may ask an app's operator for something, and read what becomes of it.

    Nobody has it until a binding in a namespace says so.
    """
    plurals_by_group: dict[str, list[str]] = {}
    for driver in drivers():
        plurals_by_group.setdefault(driver.app.api_group, []).append(driver.resource.plural)
    return _role(
        "ClusterRole",
        PEOPLE_ROLE,
        _rule(OPERATIONS.group, [OPERATIONS.plural], (*READ_VERBS, "create")),
        *[_rule(group, plurals, READ_VERBS) for group, plurals in plurals_by_group.items()],
    )


def lease_role() -> Manifest:
    """Return the role for the Lease that says which replica leads. A create cannot be limited to a name."""
    group = "coordination.k8s.io"
    role = _role(
        "Role",
        OPERATOR,
        _rule(group, ["leases"], ("create",)),
        _rule(group, ["leases"], ("get", "update"), names=[OPERATOR]),
    )
    role["metadata"]["namespace"] = SYSTEM
    return role


def bind_role(role: Manifest) -> Manifest:
    """Return the binding of a role to the operator's account, as wide as the role."""
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
