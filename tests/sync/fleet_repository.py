"""A user's repository in a test: written, committed, and synced to real clusters through the command line."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli import run
from fleet.errors import ResourceError
from fleet.lab.cluster.api import Api, RequestRefusedError
from fleet.testing import Cluster, GitRemote
from fleet.testing.git import git

STACK = """
import fleet
from fleet import Options

@fleet.stack(clusters={clusters!r}, name={name!r}, namespace={namespace!r})
def stack(cluster: fleet.Cluster) -> None:
{body}
"""


PATHS = {  # of what tests look at again and again
    "configmap": "/api/v1/namespaces/{namespace}/configmaps",
    "secret": "/api/v1/namespaces/{namespace}/secrets",
    "deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "namespace": "/api/v1/namespaces",
}


@dataclass
class Run:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class FleetRepository:
    """One stack (of a name that no other test has) on the given clusters."""

    root: Path
    clusters: Sequence[Cluster]
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    remote: GitRemote
    stack: str = field(default_factory=lambda: f"s-{secrets.token_hex(4)}")
    _apis: dict[str, Api] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.remote.clone(self.root)
        self.enter()
        self.monkeypatch.setenv("KUBECONFIG", str(self.clusters[0].kubeconfig))
        self.write("fleet.toml", "")
        lines = [f"fleet.Cluster({one.name!r}, labels={{'env': 'test'}})" for one in self.clusters]
        self.write("clusters/all.py", "\n".join(["import fleet", *lines, ""]))

    def enter(self) -> None:
        """Go on in this repository's directory."""
        self.monkeypatch.chdir(self.root)

    def other(self, name: str) -> FleetRepository:
        """Another git repository with a stack of the same name on the same clusters; it is entered."""
        remote = GitRemote.make(self.root.parent / f"{name}.git")
        return replace(self, root=self.root.parent / name, remote=remote)

    @property
    def namespace(self) -> str:
        return self.stack

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def wants(self, *lines: str, clusters: Sequence[str] | None = None) -> None:
        """Write the stack with these lines as its body."""
        names = list(clusters) if clusters is not None else [one.name for one in self.clusters]
        body = "\n".join(f"    {line}" for line in lines or ("pass",))
        self.write(
            "stacks/stack.py",
            STACK.format(clusters=names, name=self.stack, namespace=self.namespace, body=body),
        )

    def commit(self, message: str = "change") -> str:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", message)
        return git(self.root, "rev-parse", "HEAD").strip()

    def fleet(self, *arguments: str) -> Run:
        self.capsys.readouterr()
        code = run(list(arguments))
        said = self.capsys.readouterr()
        return Run(code, said.out, said.err)

    def sync(self, *arguments: str) -> Run:
        return self.fleet("sync", "--timeout", "30s", *arguments)

    def get(self, cluster: Cluster, kind: str, name: str) -> dict[str, Any] | None:
        """What a cluster has; None when it is not there."""
        if kind in PATHS:
            try:
                return self._api(cluster).get(f"{PATHS[kind].format(namespace=self.namespace)}/{name}")
            except RequestRefusedError as refused:
                assert " 404 " in str(refused), refused
                return None
            except ResourceError:  # it is busy: kubectl has more patience
                pass
        text = cluster.kubectl("-n", self.namespace, "get", kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def data(self, cluster: Cluster, name: str) -> dict[str, str] | None:
        """The data of a ConfigMap; None when it is not there."""
        found = self.get(cluster, "configmap", name)
        return found.get("data", {}) if found else None

    def take_away(self) -> None:
        """Begin to delete the stack's namespace in each cluster, and delete the inventories that are left of it."""
        for cluster in self.clusters:
            try:
                self._take_away(cluster)
            except ResourceError:  # it is busy, or a test has broken it: kubectl has more patience
                options = ("--ignore-not-found", "--wait=false")
                cluster.kubectl("delete", "namespace", self.namespace, *options)
                inventory = f"fleet.dev/inventory={self.stack}"
                cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", inventory, *options)

    def _take_away(self, cluster: Cluster) -> None:
        api, system = self._api(cluster), "fleet-system"
        api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        selector = f"fleet.dev%2Finventory%3D{self.stack}"
        for stored in api.get(f"{PATHS['configmap'].format(namespace=system)}?labelSelector={selector}")["items"]:
            metadata = {"name": stored["metadata"]["name"], "namespace": system}
            api.delete({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def _api(self, cluster: Cluster) -> Api:
        """A connection that is kept: a kubectl each time would be a large part of many tests."""
        if cluster.name not in self._apis:
            self._apis[cluster.name] = cluster.lab.api(cluster.lab.spec.cluster(cluster.name))
        return self._apis[cluster.name]

    def without(self, *names: str) -> Path:
        """A kubeconfig in which these clusters are at an address where nobody answers."""
        config = yaml.safe_load(self.clusters[0].kubeconfig.read_text())
        contexts = {one["name"]: one["context"]["cluster"] for one in config["contexts"]}
        for one in config["clusters"]:
            if one["name"] in {contexts[name] for name in names}:
                one["cluster"]["server"] = "https://127.0.0.1:1"
        path = self.root.parent / "kubeconfig-cut"
        path.write_text(yaml.safe_dump(config))
        return path


def config_map(name: str, data: dict[str, str], options: str = "") -> str:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return f"fleet.Manifest({manifest!r}{f', opts=Options({options})' if options else ''})"
