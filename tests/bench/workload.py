"""What the figures of evaluation and sync are taken with: a repository with one stack of 1,000 apps, 4 objects each.

- `apps`: an Etcd (the custom resource; nobody acts on it), a ConfigMap, a ServiceAccount, a Role. As users have them.
- `plain`: four ConfigMaps. The cheapest objects there are for a server, so the hardest comparison for its client.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

APPS = 1000
OBJECTS = 4 * APPS
OTHER_STACKS = 10
KINDS = {
    "apps": (
        "/apis/fleet.dev/v1alpha1/namespaces/{}/etcds",
        "/api/v1/namespaces/{}/configmaps",
        "/api/v1/namespaces/{}/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    ),
    "plain": ("/api/v1/namespaces/{}/configmaps",),
}

_BEGIN = f"""
import fleet
from fleet.apps import Etcd

APPS = {APPS}


@fleet.stack(clusters=["c1"])
def thousand(cluster: fleet.Cluster) -> None:
    for number in range(APPS):
"""
_STACKS = {
    "apps": _BEGIN
    + """
        name = f"app-{number:04}"
        app = Etcd(name, version="3.5", members=3, storage="1Gi")
        fleet.Manifest({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"endpoint": app.endpoint, "level": LEVEL},
        })
        fleet.Manifest({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        fleet.Manifest({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}],
        })
""",
    "plain": _BEGIN
    + """
        for part in ("client", "server", "log", "limits"):
            fleet.Manifest({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"app-{number:04}-{part}"},
                "data": {"app": f"app-{number:04}", "part": part, "level": LEVEL},
            })
""",
}


def write(root: Path, kind: str) -> Path:
    """A committed repository with that stack, and without a remote."""
    for name in ("stacks", "clusters"):
        (root / name).mkdir(parents=True)
    (root / "fleet.toml").write_text("")
    (root / "clusters" / "lab.py").write_text('import fleet\n\nc1 = fleet.Cluster("c1")\n')
    (root / "stacks" / "thousand.py").write_text(_STACKS[kind].replace("LEVEL", '"info"'))
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "user.name", "Bench")
    git(root, "config", "user.email", "bench@example.com")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=1,000 apps")
    return root


def write_others(root: Path, count: int) -> None:
    """Commit `count` objects in ten stacks beside that of the workload, each in the namespace of its name."""
    parts = ["import fleet\n"]
    for number in range(OTHER_STACKS):
        parts.append(
            f"""
@fleet.stack(clusters=["c1"])
def other_{number}(cluster: fleet.Cluster) -> None:
    for number in range({count // OTHER_STACKS}):
        name = f"other-{number}-{{number:04}}"
        fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": name}}, "data": {{"a": "1"}}}})
"""
        )
    (root / "stacks" / "others.py").write_text("\n".join(parts))
    git(root, "add", ".")
    git(root, "commit", "--quiet", f"--message={count} objects in other stacks")


def change_one(root: Path, value: str) -> None:
    """Commit a change of a single object."""
    file = root / "stacks" / "thousand.py"
    before, _, _ = file.read_text().partition("# the changed one")
    kept = before.rstrip("\n")
    manifest = (
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "changed"}, '
        f'"data": {{"value": "{value}"}}}}'
    )
    file.write_text(f"{kept}\n    # the changed one\n    fleet.Manifest({manifest})\n")
    git(root, "commit", "--quiet", "--all", f"--message={value}")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)
