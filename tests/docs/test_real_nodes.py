"""The pages on which apps really run: one lab with real nodes, and the operator where a page begins with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.lab import files
from fleet.lab.images.bake import bake
from fleet.lab.images.recipes import find_recipes
from fleet.testing import Cluster
from tests.docs.conftest import SYSTEM, Desk, lab_in
from tests.docs.document import ROOT, blocks
from tests.docs.terminal import Terminal
from tests.docs.test_examples import ON_REAL_NODES, TESTS_ON_REAL_NODES, WITH_THE_OPERATOR, follow

IMAGES = ("fleet-operator", "etcd:3.5", "etcd:3.5.35", "etcd:3.6.8")  # what the first reader waits for
DEFINITIONS = ("etcds.fleet.dev", "operations.fleet.dev")
pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(1200)]


class RealDesk(Desk):
    """A desk whose cluster has the operator, and nodes that run what it makes."""

    def define(self) -> None:
        self._fleet(self.template, "operator", "install", "--kubeconfig", str(self.lab.kubeconfig))

    def take_away(self, *, operator: bool) -> None:
        """Delete what a page has left, and the operator with all that it brought."""
        (cluster,) = self.lab.spec.clusters
        left = {f"namespace/{name}" for name in ("default", "kube-system", "kube-public", "kube-node-lease", SYSTEM)}
        found = set(self.lab.kubectl(cluster.name, "get", "namespaces", "-o", "name").split()) - left
        if found:
            self.lab.kubectl(cluster.name, "delete", *found)
        self.lab.kubectl(cluster.name, "-n", SYSTEM, "delete", "configmap", "-l", "fleet.dev/inventory")
        if operator:
            self._fleet(self.template, "operator", "uninstall", "--yes", "--kubeconfig", str(self.lab.kubeconfig))
            self.lab.kubectl(cluster.name, "delete", "namespace", SYSTEM)
            self.lab.kubectl(cluster.name, "delete", "crd", "--ignore-not-found", *DEFINITIONS)


@pytest.fixture(scope="module")
def real_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealDesk]:
    for wanted in IMAGES:
        for recipe in find_recipes(wanted):
            bake(recipe)
    with lab_in(files.cache_directory() / "examples-real", ["dev"], "real") as (lab, state):
        yield RealDesk(lab, state, tmp_path_factory.mktemp("real-desk"))


@pytest.mark.parametrize("page", TESTS_ON_REAL_NODES)
def test_an_example_that_is_a_test_on_real_nodes_passes(page: str, real_cluster: Cluster) -> None:
    (example,) = [block for block in blocks(ROOT / page) if block.path.startswith("tests/")]
    names: dict[str, Any] = {}
    exec(compile(example.text, f"{page}:{example.line}", "exec"), names)  # as pytest runs it on a reader's machine
    (shown,) = [function for name, function in names.items() if name.startswith("test_")]
    shown(real_cluster)


@pytest.mark.parametrize("page", WITH_THE_OPERATOR)
def test_the_examples_of_a_page_run_until_apps_are_healthy(page: str, real_desk: RealDesk, tmp_path: Path) -> None:
    work = real_desk.repository(tmp_path / "work", Path(page).stem)
    environment = {**real_desk.environment, "KUBECONFIG": str(real_desk.lab.kubeconfig)}
    with Terminal(work, environment, tmp_path) as terminal:
        follow(ROOT / page, terminal)
    real_desk.take_away(operator=page == WITH_THE_OPERATOR[-1])


def test_an_etcd_runs_and_is_resized_and_upgraded_to_another_series_as_the_tutorial_says(
    real_desk: RealDesk, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with Terminal(work, real_desk.environment, tmp_path) as terminal:
        follow(ROOT / ON_REAL_NODES, terminal)
    assert not real_desk.lab.directory.exists(), "the page takes it down"
