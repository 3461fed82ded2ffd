"""The short form of the soak: an hour of it is `make soak`."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pytest

from fleet.testing.plugin import Labs
from tests.soak.actions import Commit, Fault, Kill, Settle
from tests.soak.model import TROUBLES, Manner, draw
from tests.soak.soak import Soak

SEED = int(os.environ.get("FLEET_SOAK_SEED", "20261116"))
SHORT = Manner(pause=0.1, longest=1.0, episode=54)
EPISODES = 4


def test_a_seed_is_a_plan_and_the_same_one_every_time() -> None:
    def plan(seed: int) -> list[str]:
        return [str(step) for step in draw(seed, ("a", "b"), ("eu", "us"), (SHORT, 12))]

    assert plan(7) == plan(7)
    assert plan(7) != plan(8)
    steps = list(draw(7, ("a", "b"), ("eu", "us"), (SHORT, 500)))
    drawn = Counter(type(step.action).__name__ for step in steps)
    assert set(drawn) == {"Commit", "Kill", "Fault", "Calm", "Meddle", "Own", "Squat", "Ail", "Settle"}
    assert {step.action.trouble for step in steps if isinstance(step.action, Fault)} == {one for one, _, _ in TROUBLES}
    refused = [step.action for step in steps if isinstance(step.action, Commit) and not step.action.good]
    assert {bool(one.raises) + 2 * one.rewrites + 4 * (not one.fleet) for one in refused} == {0, 1, 2, 4}
    last: Commit | None = None
    for step in steps:  # a soak comes to rest only with a commit that is meant
        if isinstance(step.action, Commit):
            last = step.action
        assert not isinstance(step.action, Settle) or last is None or last.good


@pytest.mark.timeout(900)
def test_killed_again_and_again_among_faults_and_strangers_clusters_and_status_end_as_git_says(
    fleet_labs: Labs, tmp_path: Path
) -> None:
    lab = fleet_labs.simulated(2)
    one, other = (cluster.name for cluster in lab.spec.clusters[:2])
    *names, patient = (f"soak-{secrets.token_hex(3)}-{letter}" for letter in "abh")
    stacks = tuple(names)
    steps = list(draw(SEED, stacks, (one, other), (SHORT, EPISODES)))
    soak = Soak(tmp_path, lab, stacks, patient, (one, other), print)
    print(f"seed {SEED}; the same again with FLEET_SOAK_SEED={SEED}")
    with soak.world.running():
        soak.begin()
        soak.go(steps)
        soak.agrees_with_render()
    counts = soak.world.counts
    print(dict(counts), f"{soak.kept} foreign fields found, rests: {[round(each, 1) for each in soak.rests]}")
    assert counts["kill"] == sum(isinstance(step.action, Kill) for step in steps) >= 30
    assert soak.world.repository.commits > 100
    assert soak.left_over() == []
    for cluster in (one, other):
        lab.kubectl(cluster, "delete", "namespace", "--wait=false", *stacks, patient)
        for stack in (*stacks, patient):
            lab.kubectl(cluster, "-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={stack}")
