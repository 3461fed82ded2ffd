"""The operator with the rights that its installation gives it, and no others: in a namespace none until allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from fleet.install import rights
from fleet.testing import Cluster

NAME = "operator"


def installed(cluster: Cluster, directory: Path, role: dict[str, Any] | None = None) -> Path:
    """The kubeconfig of an account that sees apps and nodes everywhere, or has another `role`."""
    role = role or _renamed(rights.cluster_role())
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}}
    cluster.apply(account, role, _bound(cluster, role, f"{cluster.namespace}-{NAME}"))
    view = orjson.loads(
        cluster.kubectl("config", "view", "--raw", "--minify", f"--context={cluster.context}", "-o", "json")
    )
    view["users"][0]["user"] = {"token": cluster.kubectl("create", "token", NAME, "--duration=2h").strip()}
    found = directory / f"{NAME}.kubeconfig"
    found.write_bytes(orjson.dumps(view))
    return found


def allow(cluster: Cluster, role: dict[str, Any] | None = None) -> None:
    """In the test's namespace, as `fleet operator allow` does it; with another `role`, if one is given."""
    role = role or _renamed(rights.apps_role())
    cluster.apply(role, {**_bound(cluster, role, NAME), "kind": "RoleBinding"})


def forbid(cluster: Cluster) -> None:
    cluster.kubectl("delete", "rolebinding", NAME)


def _renamed(role: dict[str, Any]) -> dict[str, Any]:
    """So that it is not the role of an operator that is installed in the same cluster."""
    return {**role, "metadata": {"name": f"tested-{role['metadata']['name']}"}}


def _bound(cluster: Cluster, role: dict[str, Any], name: str) -> dict[str, Any]:
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": cluster.namespace}]
    return {**rights.bind_role(role), "metadata": {"name": name}, "subjects": subjects}
