"""A user's repository on no cluster at all: files, commits, and the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleet.cli import run
from fleet.testing.git import git
from tests.sync.fleet_repository import Run

CLUSTERS = """
import fleet

fleet.Cluster("eu-1", labels={"env": "prod"})
fleet.Cluster("us-1", labels={"env": "prod"})
"""
STACK = """
import fleet
from fleet import Options
from fleet.apps import Etcd


@fleet.stack(clusters={clusters})
def {name}(cluster: fleet.Cluster) -> None:
{body}
"""


def manifest(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    version = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}.get(kind, "v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


@dataclass
class PlainRepository:
    root: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    stacks: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir()
        git(self.root, "init", "--quiet", "--initial-branch=main", ".")
        git(self.root, "config", "user.name", "Test")
        git(self.root, "config", "user.email", "test@example.com")
        self.monkeypatch.chdir(self.root)
        self.monkeypatch.setenv("KUBECONFIG", str(self.root / "there-is-none"))
        self.write("fleet.toml", '[fleet]\nname = "plain"\n')
        self.write("clusters/all.py", CLUSTERS)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def wants(
        self, *objects: dict[str, Any] | str, stack: str = "shop", clusters: str = "fleet.where(env='prod')"
    ) -> None:
        """Write a stack with these objects (or lines) as its body."""
        body = "\n".join(
            f"    {one if isinstance(one, str) else f'fleet.Manifest({one!r})'}" for one in objects or ("pass",)
        )
        self.write(f"stacks/{stack}.py", STACK.format(clusters=clusters, name=stack, body=body))

    def commit(self, message: str = "change") -> str:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", message)
        return git(self.root, "rev-parse", "HEAD").strip()

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def fleet(self, *arguments: str) -> Run:
        self.capsys.readouterr()
        code = run(list(arguments))
        said = self.capsys.readouterr()
        return Run(code, said.out, said.err)

    def preview(self, *arguments: str, base: str = "main", head: str = "change") -> Run:
        return self.fleet("preview", "--base", base, "--head", head, *arguments)

    def change(self) -> None:
        """Go on on a branch of its own."""
        self.git("checkout", "--quiet", "-B", "change")

    def main(self) -> None:
        self.git("checkout", "--quiet", "main")
