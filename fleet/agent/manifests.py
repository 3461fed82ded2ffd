"""Objects of the agent in its cluster, in the order in which they are applied. Pure.

The agent applies whatever stacks declare, so it has all rights in the cluster; no client outside has any. Where each
stack is applied as a service account of its own, the agent's rights can be narrowed: to impersonating these accounts,
to its records in fleet-system, and to get, list and watch of what stacks have, because one watch serves all stacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.render.operator_rights import PART, RBAC, SYSTEM, system_namespace
from fleet.serve.manifests import Manifest, pod
from fleet.version import __version__

NAME = "fleet-agent"
SELECTOR = {"app.kubernetes.io/name": NAME}
LABELS = {**SELECTOR, **PART}


def manifests(image: str, arguments: Sequence[str], replicas: int) -> list[Manifest]:
    """Return the manifests of the agent."""
    metadata = {"name": NAME, "namespace": SYSTEM}
    objects: list[Manifest] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": replicas,
                "revisionHistoryLimit": 3,
                "selector": {"matchLabels": SELECTOR},
                "template": {
                    "metadata": {"labels": {**LABELS, "app.kubernetes.io/version": __version__}},
                    "spec": pod(image, arguments, name=NAME, command="agent"),
                },
            },
        },
    ]
    return [system_namespace(), *({**obj, "metadata": {**obj["metadata"], "labels": LABELS}} for obj in objects)]
