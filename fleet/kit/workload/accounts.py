"""Accounts of members whose engine talks to the API server itself, and what they may do there. Pure.

The rights of a type are one ClusterRole, which an administrator makes with the operator. The operator may bind that
one in a namespace with apps, and has none of its rights. Members of other types have no account of their own and no
token.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppType, Role
from fleet.kit.rights import RBAC
from fleet.model.app import App
from fleet.names import GROUP

A = TypeVar("A", bound=App)
Manifest = dict[str, Any]
_VOLUME = (
    "account"  # the volume with the credentials of the account, where every client of the API server looks for them
)
_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_SECONDS = 3607  # a token's life, as the API server's own volume has it; kubelets renew it long before


def cluster_role_name(app: type[App]) -> str:
    """Return the name of the ClusterRole for members of an app type."""
    engine = app.kind().lower()
    return f"fleet-member-{engine}" if app.api_group == GROUP else f"fleet-member-{engine}.{app.api_group}"


def make_cluster_role(app_type: AppType[Any]) -> Manifest | None:
    """Return the ClusterRole with all that the roles of a type declare; None where they declare nothing."""
    rules: list[dict[str, list[str]]] = []
    for role in app_type.roles:
        rules += [rule.manifest for rule in role.rights if rule.manifest not in rules]
    if not rules:
        return None
    metadata = {"name": cluster_role_name(app_type.app)}
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def make_account(app: App, role: Role[Any]) -> list[Manifest]:
    """Return the account of a role's members with the binding that gives it its rights in the app's namespace; nothing
    for a role that declares none."""
    if not role.rights:
        return []
    name = names.account(app, role.name)
    metadata = names.metadata(app, name, role.name)
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,  # the engine's container mounts it; no other gets it unasked
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": names.metadata(app, name, role.name),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role_name(type(app))},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": app.namespace}],
        },
    ]


def token_volume() -> Manifest:
    """Return the volume with the account's token, which containers mount by name: those of the app's user do not."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": _VOLUME, "projected": {"sources": sources, "defaultMode": 0o440}}


def mount_token() -> Manifest:
    return {"name": _VOLUME, "mountPath": _DIRECTORY, "readOnly": True}
