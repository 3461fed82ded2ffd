"""What the operator decides about members that others set up and that were not rolled yet. Data alone."""

from __future__ import annotations

import pytest

from fleet.apps.etcd.engine.observe import statuses_of
from fleet.kit.observe.world import World
from fleet.kit.step import State
from tests.operator.etcd.observations import decided, reobserved
from tests.operator.etcd.test_adoption import IMAGES, Found


@pytest.mark.parametrize("word", [True, False])
def test_a_lost_majority_cannot_be_forced_before_the_first_roll_and_nobody_is_asked_for_the_word(word: bool) -> None:
    """The survivor would have to read a file that its pod does not have."""
    seen = Found(spec={"forceQuorum": word}).taken().seen()
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    pods = {
        name: {
            **pod,
            "metadata": {**pod["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {**pod["status"], **unready},
        }
        for name, pod in seen.world.objects["Pod"].items()
    }
    world = World({**seen.world.objects, "Pod": pods}, seen.world.nodes, seen.world.now)
    alone = dict(list(statuses_of(seen).items())[:1])
    decision = decided(reobserved(seen, world, alone), IMAGES)
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "QuorumLost", ())
    assert "cannot be forced before its first roll" in decision.message
    assert "force_quorum" not in decision.message
