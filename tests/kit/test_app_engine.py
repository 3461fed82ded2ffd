"""An app type with a half that acts, of two roles: a seed begins, members join by themselves, and others say who leads.

What happens to members is in memory; what is decided is the product's own.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.kit.members import LEDGER, Ledger, read
from fleet.kit.step import Act, NotYetError, State
from tests.kit.pair_members import PairCluster, pair_cluster


def installed(**spec: Any) -> PairCluster:
    cluster = pair_cluster(**spec)
    cluster.until_rest()
    cluster.acts.clear()
    return cluster


def ledger(cluster: PairCluster) -> Ledger:
    return read(cluster.get("ConfigMap", "cache-members")["metadata"]["annotations"][LEDGER])


def test_the_seed_begins_the_others_join_one_by_one_and_the_second_role_has_records_of_its_own() -> None:
    cluster = pair_cluster()
    decisions = cluster.until_rest()
    assert [decision.message for decision in decisions if decision.reason == "Joined"] == [
        "cache-1 joined",
        "cache-2 joined",
    ]
    nodes, watchers = [f"cache-{n}" for n in range(3)], [f"cache-sentinel-{n}" for n in range(3)]
    assert cluster.names("Pod") == [*nodes, *watchers]
    assert cluster.half.primary == "cache-0"
    assert {record.phase for record in ledger(cluster).places.values()} == {"settled"}
    assert [pod for pod, record in ledger(cluster).places.items() if record.role] == watchers
    assert (cluster.report.wanted, cluster.report.leader) == (6, "cache-0")
    assert [member.role for member in cluster.report.members] == ["primary", "replica", "replica", *["sentinel"] * 3]


def test_whoever_leads_hands_over_before_it_leaves_and_before_it_restarts() -> None:
    cluster = installed(members=5)
    cluster.half.primary = "cache-4"
    cluster.wants(members=3).until_rest()
    assert cluster.acts == [("lead", "cache-0"), ("forget", "cache-4"), ("forget", "cache-3")]
    cluster.acts.clear()
    cluster.half.primary = "cache-2"
    cluster.wants(version="8").until_rest()
    assert cluster.acts == [("lead", "cache-0"), ("lead", "cache-1")]


def test_a_role_that_is_not_wanted_any_more_leaves_and_can_be_begun_again() -> None:
    cluster = installed()
    cluster.wants(members=1).until_rest()
    assert (cluster.names("Pod"), {*ledger(cluster).places}) == (["cache-0"], {"cache-0"})
    assert cluster.names("StatefulSet") == ["cache"]
    for pod in ("cache-1", "cache-2"):
        cluster.delete("PersistentVolumeClaim", f"data-{pod}")
    cluster.wants(members=3).until_rest()
    assert len(cluster.names("Pod")) == 6


def test_a_volume_of_a_member_that_left_is_never_what_another_one_starts_on() -> None:
    cluster = installed(members=4)
    cluster.wants(members=3).until_rest()
    decision = cluster.wants(members=4).decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "OldVolume", ())


def test_a_node_whose_volume_is_lost_comes_back_empty_as_one_that_joins() -> None:
    cluster = installed()
    cluster.lose_volume("cache-0")
    reasons = [decision.reason for decision in cluster.until_rest()]
    assert "Replacing" in reasons and "Joining" in reasons
    record = ledger(cluster).places["cache-0"]
    assert (record.phase, record.spoiled) == ("settled", "")
    text = cluster.half.files[cluster.get("Pod", "cache-0")["metadata"]["uid"]]
    assert "this-node-has-lost-its-data" not in text and "replicaof cache-" in text
    assert cluster.half.primary == "cache-1", "an empty one never leads: the others would copy the emptiness"


def test_nobody_is_given_up_while_it_says_how_far_it_is() -> None:
    cluster = installed().wants(version="8")
    while "8.0.2" not in cluster.get("Pod", "cache-2")["spec"]["containers"][0]["image"]:
        cluster.reconcile()
    cluster.unready.add("cache-2")
    cluster.half.recovering["cache-2"] = "loads its data, 40 %"
    for _ in range(5):
        cluster.reconcile()
    cluster.now += datetime.timedelta(hours=5)
    decision = cluster.reconcile()
    assert (decision.reason, decision.steps) == ("Rolling", ())
    cluster.half.recovering["cache-2"] = ""
    assert cluster.reconcile().reason == "RollFailed"


def test_while_nobody_says_who_the_members_are_nothing_is_done() -> None:
    cluster = installed()
    cluster.half.deaf |= {"cache-0", "cache-1", "cache-2"}
    cluster.wants(members=5, version="8").reconcile()  # the files are written
    decision = cluster.reconcile()
    assert (decision.state, decision.reason, decision.steps) == (State.UNCERTAIN, "NoAgreement", ())


def test_what_an_engine_says_to_a_request_is_for_later_or_an_error() -> None:
    cluster = installed()
    cluster.half.recovering["cache-1"] = "loads"
    with pytest.raises(NotYetError, match="still loads"):
        asyncio.run(cluster.engine.act(cluster.observed, Act("lead", {"pod": "cache-1"}), lambda: None))
    cluster.half.refuses = True
    with pytest.raises(ResourceError, match="another one is under way"):
        asyncio.run(cluster.engine.act(cluster.observed, Act("lead", {"pod": "cache-1"}), lambda: None))


OPERATIONS: dict[str, tuple[Callable[[], PairCluster], dict[str, Any]]] = {
    "install": (pair_cluster, {}),
    "out": (lambda: installed(members=2), {"members": 4}),
    "in": (lambda: installed(members=4), {"members": 3}),
    "the last but one leaves": (lambda: installed(members=2), {"members": 1}),
    "upgrade": (installed, {"version": "8"}),
    "a lost volume": (lambda: lost("cache-0"), {}),
}


def lost(pod: str) -> PairCluster:
    cluster = installed()
    cluster.lose_volume(pod)
    return cluster


def end_of(cluster: PairCluster) -> tuple[Any, ...]:
    """What must be the same however often the operator ended on the way."""
    templates = {name: cluster.get("StatefulSet", name)["spec"] for name in cluster.names("StatefulSet")}
    phases = {pod: (record.phase, record.spoiled, record.role) for pod, record in ledger(cluster).places.items()}
    return (
        cluster.names("Pod"),
        cluster.names("PersistentVolumeClaim"),
        templates,
        phases,
        cluster.half.primary,
        cluster.made,
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operator_that_ends_after_any_move_leaves_what_the_next_one_brings_to_the_same_end(name: str) -> None:
    begin, wanted = OPERATIONS[name]
    undisturbed = begin().wants(**wanted)
    moves = sum(len(decision.steps) for decision in undisturbed.until_rest())
    assert moves
    for last in range(moves):
        cluster, done = begin().wants(**wanted), 0
        while done <= last:
            before = done
            done += len(cluster.decision().steps)
            cluster.reconcile(steps=max(0, last - before))
        cluster.engine = cluster.make_engine()
        cluster.until_rest()
        assert end_of(cluster) == end_of(undisturbed)
