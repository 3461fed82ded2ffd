"""The lab of the examples: `default`, with the clusters dev and prod, in a state directory of this run alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.lab import paths
from fleet.lab.lab import Lab, remove_orphans
from fleet.lab.process import identify
from fleet.testing.git import git


class Desk:
    """Where examples are tried: a lab, a home with a git identity, and a fleet's repository to start from."""

    def __init__(self, lab: Lab, state: Path, scratch: Path) -> None:
        self.lab = lab
        self.scratch = scratch
        home = scratch / "home"
        home.mkdir()
        (home / ".gitconfig").write_text(
            "[user]\nname = Test\nemail = test@example.com\n[init]\ndefaultBranch = main\n"
        )
        kept = {
            name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR", "FLEET_CACHE_DIR") if name in os.environ
        }
        self.environment = {
            "FLEET_CACHE_DIR": str(paths.cache()),
            **kept,
            "FLEET_STATE_DIR": str(state),
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{lab.environment()['PATH']}",
            "TERM": "xterm",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
        }
        self.template = self._template()

    def _template(self) -> Path:
        """A repository as the tutorial leaves it, without its stack."""
        root = self.scratch / "template" / "shop"
        root.mkdir(parents=True)
        self._fleet(root, "init")
        (root / "stacks" / "hello.py").unlink()
        (root / "tests" / "test_hello.py").unlink()
        self._fleet(root, "cluster", "add", "prod", "--label", "env=prod", "--kubeconfig", str(self.lab.kubeconfig))
        git(root, "add", ".")
        git(root, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "A fleet")
        return root

    def _fleet(self, directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "fleet", *arguments]
        done = subprocess.run(command, cwd=directory, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def repository(self, target: Path) -> Path:
        """A fresh copy of the repository."""
        shutil.copytree(self.template, target)
        return target

    def tidy(self) -> None:
        """Forget what an example has left in the clusters, so that the next one begins with nothing."""
        for cluster in self.lab.spec.clusters:
            kept = {"default", "kube-system", "kube-public", "kube-node-lease", "fleet-system"}
            found = set(self.lab.kubectl(cluster.name, "get", "namespaces", "-o", "name").split())
            if extra := sorted(found - {f"namespace/{name}" for name in kept}):
                self.lab.kubectl(cluster.name, "delete", "--wait=false", *extra)
            self.lab.kubectl(cluster.name, "delete", "crd", "--ignore-not-found", "etcds.fleet.dev")
            if "namespace/fleet-system" in found:
                self.lab.kubectl(cluster.name, "-n", "fleet-system", "delete", "configmap", "-l", "fleet.dev/inventory")


@contextmanager
def desk_of(scratch: Path) -> Iterator[Desk]:
    """A desk with a lab that is gone afterwards."""
    parent = paths.cache() / "examples"
    state = parent / str(os.getpid())
    with pytest.MonkeyPatch.context() as patch:
        for other in [*parent.glob("*"), state]:  # those of runs that were killed go now
            patch.setenv("FLEET_STATE_DIR", str(other))
            remove_orphans()
            if not any((other / "labs").glob("*")):
                shutil.rmtree(other, ignore_errors=True)
        lab = Lab.up("default", ["dev", "prod"], nodes="simulated", owner=identify(os.getpid()))
        try:
            yield Desk(lab, state, scratch)
        finally:
            if lab.directory.exists():
                lab.down()
            shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk_of(tmp_path_factory.mktemp("desk")) as made:
        yield made
