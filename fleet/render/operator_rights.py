"""The operator's rights in a namespace: none, unless a RoleBinding there grants them. Stacks bring it with their apps.

Each stack has a binding of its own name, so that several stacks may have apps in one namespace and each takes only its
own away. The role and the account are made by `fleet operator install`; a binding that comes before them waits.
"""

from __future__ import annotations

from typing import Any

from fleet import names
from fleet.objects.desired import Key

OPERATOR = names.OPERATOR
SYSTEM = names.SYSTEM
APPS_ROLE = "fleet-operator-apps"  # the ClusterRole with all that apps are made of; never bound in all namespaces
RBAC = "rbac.authorization.k8s.io"
PART = {"app.kubernetes.io/part-of": "fleet"}


def system_namespace() -> dict[str, Any]:
    """Return the namespace of everything that is installed; all who bring it say the same of it, so there is no
    conflict.
    """
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM, "labels": PART}}


def binding_key(namespace: str, stack: str = "") -> Key:
    """Return the key of the binding that a stack brings, or ("") of the one that a user makes."""
    return Key(RBAC, "RoleBinding", namespace, f"{OPERATOR}-{stack}" if stack else OPERATOR)


def role_binding(namespace: str, stack: str = "") -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": binding_key(namespace, stack).name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": APPS_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": SYSTEM}],
    }
