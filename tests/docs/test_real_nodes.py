"""The page on which an etcd really runs, on real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.lab import paths
from fleet.lab.images.bake import bake
from fleet.lab.images.recipes import find
from tests.docs.conftest import environment_of, lab_in
from tests.docs.document import ROOT
from tests.docs.terminal import Terminal
from tests.docs.test_examples import ON_REAL_NODES, follow


@pytest.mark.real_nodes
@pytest.mark.timeout(1200)
def test_an_etcd_runs_and_is_resized_as_the_tutorial_says(tmp_path: Path) -> None:
    for wanted in ("fleet-operator", "etcd:3.5"):  # what the first reader waits for, out of the page's time
        for recipe in find(wanted):
            bake(recipe)
    work = tmp_path / "work"
    work.mkdir()
    with lab_in(paths.cache() / "examples-real", ["dev"], "real") as (lab, state):
        environment = environment_of(lab, state, tmp_path)
        with Terminal(work, environment, tmp_path) as terminal:
            follow(ROOT / ON_REAL_NODES, terminal)
        assert not lab.directory.exists(), "the page takes it down"
