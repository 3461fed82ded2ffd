"""The short form of the soak: an hour of it is `make soak`."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pytest

from fleet.testing.plugin import Labs
from tests.soak.actions import Commit, Fault, Kill, Settle, Step
from tests.soak.model import TROUBLES, Drawn, Manner, draw, first
from tests.soak.soak import Memory, Soak

CHOSEN = 20261400  # as its plan has every trouble and every kind of bad commit, and kills both of two replicas
SEED = int(os.environ.get("FLEET_SOAK_SEED", CHOSEN))
SHORT = Manner(pause=0.1, longest=1.0, episode=54, replicas=4)
LASTING = Manner(pause=0.1, longest=1.0, episode=40, kills=False)
EPISODES = 4


def troubles(steps: list[Step]) -> set[str]:
    return {step.action.trouble for step in steps if isinstance(step.action, Fault)}


def bad_commits(steps: list[Step]) -> set[int]:
    """Those that lost something, those that raise, those over another past, and those without stacks."""
    refused = [step.action for step in steps if isinstance(step.action, Commit) and not step.action.good]
    return {bool(one.raises) + 2 * one.rewrites + 4 * (not one.fleet) for one in refused}


def test_a_seed_is_a_plan_and_the_same_one_every_time() -> None:
    def plan(seed: int) -> list[str]:
        return [str(step) for step in draw(seed, ("a", "b"), ("eu", "us"), (SHORT, 12))]

    assert plan(7) == plan(7)
    assert plan(7) != plan(8)
    steps = list(draw(7, ("a", "b"), ("eu", "us"), (SHORT, 500)))
    drawn = Counter(type(step.action).__name__ for step in steps)
    assert set(drawn) == {"Commit", "Kill", "Fault", "Calm", "Meddle", "Own", "Squat", "Ail", "Settle"}
    assert troubles(steps) == {one for one, _, _ in TROUBLES}
    assert bad_commits(steps) == {0, 1, 2, 4}
    last: Commit | None = None
    for step in steps:  # a soak comes to rest only with a commit that is meant
        if isinstance(step.action, Commit):
            last = step.action
        assert not isinstance(step.action, Settle) or last is None or last.good


def test_the_short_form_has_every_trouble_and_kills_each_of_two_replicas() -> None:
    steps = list(draw(CHOSEN, ("a", "b"), ("eu", "us"), (SHORT, EPISODES)))
    assert troubles(steps) == {one for one, _, _ in TROUBLES}
    assert bad_commits(steps) == {0, 1, 2, 4}
    rests = [index for index, step in enumerate(steps) if isinstance(step.action, Settle)]
    assert [str(steps[index].action) for index in rests] == [str(Settle(count)) for count in (1, 1, 2, 1)]
    kills = [step.action for step in steps[rests[2] :] if isinstance(step.action, Kill)]
    assert {one.which for one in kills} == {0, 1}


@pytest.mark.timeout(1800)
def test_killed_again_and_again_among_faults_and_strangers_clusters_and_status_end_as_git_says(
    fleet_labs: Labs, tmp_path: Path
) -> None:
    lab = fleet_labs.simulated(2)
    one, other = (cluster.name for cluster in lab.spec.clusters[:2])
    *names, patient = (f"soak-{secrets.token_hex(3)}-{letter}" for letter in "abh")
    stacks = tuple(names)
    drawn = Drawn(SEED, (one, other), first(stacks))
    steps = [step for _ in range(EPISODES) for step in drawn.episode(SHORT)]
    soak = Soak(tmp_path, lab, stacks, patient, (one, other), print)
    print(f"seed {SEED}; the same again with FLEET_SOAK_SEED={SEED}")
    with soak.world.running():
        soak.begin()
        soak.go(steps)
        soak.go(drawn.episode(LASTING))  # a process that has just begun grows; one that has seen everything must not
        soak.world.memory.clear()
        soak.go(drawn.episode(LASTING))
        life = Memory.of(soak.world.memory)
        soak.agrees_with_render()
    counts = soak.world.counts
    print(dict(counts), f"{soak.kept} foreign fields found, rests: {[round(each, 1) for each in soak.rests]}")
    print(f"memory in an episode without kills: {life}")
    assert life is not None
    assert life.is_flat, str(life)
    assert counts["kill"] == sum(isinstance(step.action, Kill) for step in steps) >= 30
    assert soak.world.repository.commits > 100
    assert counts["bad"] >= counts["refused"] > 0
    assert len(soak.world.started) > counts["kill"], "each life had zygotes of its own"
    assert soak.left_over() == []
    for cluster in (one, other):
        lab.kubectl(cluster, "delete", "namespace", "--wait=false", *stacks, patient)
        for stack in (*stacks, patient):
            lab.kubectl(cluster, "-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={stack}")
