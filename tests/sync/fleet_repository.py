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
from fleet.testing import Cluster, GitRemote
from fleet.testing.git import git

STACK = """
import fleet
from fleet import Options

@fleet.stack(clusters={clusters!r}, name={name!r}, namespace={namespace!r})
def stack(cluster: fleet.Cluster) -> None:
{body}
"""


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
        text = cluster.kubectl("-n", self.namespace, "get", kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def data(self, cluster: Cluster, name: str) -> dict[str, str] | None:
        """The data of a ConfigMap; None when it is not there."""
        found = self.get(cluster, "configmap", name)
        return found.get("data", {}) if found else None

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
