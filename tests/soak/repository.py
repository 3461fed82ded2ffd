"""The repository of a soak: a fleet of the model as files, committed and pushed by real git."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from fleet.testing.git import GitRemote, git
from tests.soak.actions import Commit, Stack

STACK = """
import fleet
from fleet import Options


@fleet.stack(clusters={clusters!r}, name={name!r}, drift={drift!r})
def stack(cluster: fleet.Cluster) -> None:
    for name, value, was in {items!r}:
        data = {{"value": value, "cluster": cluster.name}}
        manifest = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": name}}, "data": data}}
        fleet.Manifest(manifest, opts=Options(aliases=was))
"""
PATIENT = """
import fleet
from fleet.apps import Etcd


@fleet.stack(clusters={clusters!r}, name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    Etcd("app", version="3.5", members=1, storage="1Gi")
"""


@dataclass
class Repository:
    remote: GitRemote
    root: Path
    clusters: tuple[str, ...]
    patient: str  # the stack with the app
    head: str = ""  # what the branch should be, whatever was pushed over it
    commits: int = 0
    _files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, directory: Path, clusters: tuple[str, ...], patient: str) -> Repository:
        remote = GitRemote.make(directory / "remote.git")
        made = cls(remote, remote.clone(directory / "repository"), clusters, patient)
        lines = [f"fleet.Cluster({name!r})" for name in clusters]
        made._write("fleet.toml", "")
        made._write("clusters/all.py", "\n".join(["import fleet", *lines, ""]))
        return made

    def carry_out(self, commit: Commit) -> str:
        """The new revision of the branch."""
        shutil.rmtree(self.root / "stacks", ignore_errors=True)
        self._write("stacks/README.md", "What the fleet should be.\n")
        if commit.fleet:
            text = PATIENT.format(clusters=list(self.clusters), name=self.patient)
            self._write(f"stacks/{self.patient}.py", text)
        for stack in commit.fleet:
            text = self._text(stack) if stack.name != commit.raises else "raise RuntimeError('half written')\n"
            self._write(f"stacks/{stack.name}.py", text)
        git(self.root, "add", "--all")
        amend = ("--amend",) if commit.rewrites else ()
        git(self.root, "commit", "--quiet", "--allow-empty", *amend, "--message", commit.title)
        git(self.root, "push", "--quiet", "--force", "origin", "HEAD:main")
        found = git(self.root, "rev-parse", "HEAD").strip()
        self.commits += 1
        if commit.rewrites:
            git(self.root, "reset", "--quiet", "--soft", self.head)
        else:
            self.head = found
        return found

    def _text(self, stack: Stack) -> str:
        items = [(one.name, one.value, list(one.was)) for one in stack.items]
        return STACK.format(clusters=list(self.clusters), name=stack.name, drift=stack.drift, items=items)

    def _write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
