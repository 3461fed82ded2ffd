"""The lab of the examples: `default`, with the clusters dev and prod, in a state directory of this run alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from fleet.lab import files
from fleet.lab.lab import Lab, remove_orphans
from fleet.lab.programs.process import identify
from fleet.testing.git import git

CRDS = Path(__file__).parents[2] / "crds"
OF_INIT = "hello"  # the stack that `fleet init` makes
SYSTEM = "fleet-system"
_AS = ("-c", "user.name=Test", "-c", "user.email=test@example.com")


def environment_of(lab: Lab, state: Path, scratch: Path) -> dict[str, str]:
    """Of a person who has nothing but what the pages name: a home with a git identity, fleet and kubectl."""
    home = scratch / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Test\nemail = test@example.com\n[init]\ndefaultBranch = main\n")
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR", "FLEET_CACHE_DIR") if name in os.environ}
    return {
        "FLEET_CACHE_DIR": str(files.cache_directory()),
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


class Desk:
    """Where examples are tried: a lab, a home with a git identity, and a fleet's repository to start from."""

    def __init__(self, lab: Lab, state: Path, scratch: Path) -> None:
        self.lab = lab
        self.scratch = scratch
        self.environment = environment_of(lab, state, scratch)
        self._defined = False
        self.template = self._template()

    def _template(self) -> Path:
        """A repository as the tutorial leaves it, without its stack."""
        root = self.scratch / "template" / "shop"
        root.mkdir(parents=True)
        self._fleet(root, "init")
        (root / "stacks" / "hello.py").unlink()
        for cluster in self.lab.spec.clusters:
            if cluster.name != "dev":  # which init made
                label, kubeconfig = f"env={cluster.name}", str(self.lab.kubeconfig)
                self._fleet(root, "cluster", "add", cluster.name, "--label", label, "--kubeconfig", kubeconfig)
        git(root, "add", ".")
        git(root, *_AS, "commit", "--quiet", "--message", "A fleet")
        return root

    def _fleet(self, directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "fleet", *arguments]
        done = subprocess.run(command, cwd=directory, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def repository(self, target: Path, fleet: str) -> Path:
        """A fresh copy of the repository, of a fleet of its own; the clusters know the apps already."""
        if not self._defined:
            self.define()
            self._defined = True
        shutil.copytree(self.template, target)
        settings = target / "fleet.toml"
        settings.write_text(re.sub(r"(?m)^name = .*", f'name = "{fleet}"', settings.read_text()))
        git(target, *_AS, "commit", "--quiet", "--all", "--message", "A name")
        return target

    def define(self) -> None:
        self._everywhere(lambda cluster: self.lab.kubectl(cluster, "apply", "--server-side", "-f", str(CRDS)))

    def tidy(self) -> None:
        """Take out what other pages have left in the clusters."""
        self._defined = False
        self._everywhere(self._tidy)

    def _everywhere(self, what: Callable[[str], object]) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(what, [cluster.name for cluster in self.lab.spec.clusters]))

    def _tidy(self, cluster: str) -> None:
        found = set(self.lab.kubectl(cluster, "get", "namespaces", "-o", "name").split())
        if "namespace/fleet-system" in found:
            self.lab.kubectl(cluster, "-n", "fleet-system", "delete", "configmap", "-l", "fleet.dev/inventory")
            self.lab.kubectl(cluster, "delete", "crd", "--ignore-not-found", "etcds.fleet.dev")
        if f"namespace/{OF_INIT}" in found:
            self.lab.kubectl(cluster, "delete", "namespace", OF_INIT)

    def tidy_behind(self) -> None:
        """Let go at once what the next page from nothing would have to wait for."""
        if self.lab.directory.exists():
            options = ("--ignore-not-found", "--wait=false")
            self._everywhere(lambda cluster: self.lab.kubectl(cluster, "delete", "namespace", OF_INIT, *options))


@contextmanager
def desk_of(scratch: Path) -> Iterator[Desk]:
    """A desk with a lab that is gone afterwards."""
    with lab_in(files.cache_directory() / "examples", ["dev", "prod"], "simulated") as (lab, state):
        yield Desk(lab, state, scratch)


@contextmanager
def lab_in(parent: Path, clusters: list[str], nodes: Literal["real", "simulated"]) -> Iterator[tuple[Lab, Path]]:
    """A lab in a state directory of this process, and that directory. Both are gone afterwards."""
    state = parent / str(os.getpid())
    for other in [*parent.glob("*"), state]:  # those of runs that were killed go now
        with labs_in(other):
            remove_orphans()
        if not any((other / "labs").glob("*")):
            shutil.rmtree(other, ignore_errors=True)
    with labs_in(state):
        lab = Lab.up("default", clusters, nodes=nodes, owner=identify(os.getpid()))
    try:
        yield lab, state
    finally:
        if lab.directory.exists():
            with labs_in(state):
                lab.down()
        shutil.rmtree(state, ignore_errors=True)


@contextmanager
def labs_in(state: Path) -> Iterator[None]:
    """Only for a moment: the labs of other tests in this run are elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEET_STATE_DIR", str(state))
        yield


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk_of(tmp_path_factory.mktemp("desk")) as made:
        yield made
