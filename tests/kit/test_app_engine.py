"""App types that are not etcd, from their first object on: one of pods alone, and one with two roles, which a seed
begins, which members join by themselves, and of which others say who leads."""

from __future__ import annotations

import asyncio

import pytest

from fleet.errors import ResourceError
from fleet.kit.app_engine import AppEngine
from fleet.kit.status import MemberStatus
from fleet.kit.step import Act, NotYetError, State
from tests.kit import nats, pair
from tests.kit.nats import NATS, Nats
from tests.kit.pair_members import pair_cluster
from tests.kit.small_cluster import SmallCluster


def bus(app: Nats | None = None) -> SmallCluster:
    cluster = SmallCluster(AppEngine(NATS, {}), app or nats.app())
    assert cluster.settle() == ["Creating", "Rolled", "Healthy"]
    return cluster


# Pods alone


def test_a_program_in_pods_is_installed_from_its_declaration_and_then_left_alone() -> None:
    cluster = bus()
    assert cluster.pods() == ["bus-0"]
    assert (cluster.ledger.identity, cluster.ledger.places["bus-0"].phase) == (
        cluster.get("StatefulSet", "bus")["metadata"]["uid"],
        "settled",
    )
    decision = cluster.decision()
    assert (decision.state, decision.message) == (State.OK, "1 member of NATS 2.10.29 in step")


def test_another_setting_restarts_it_with_the_file_that_has_it() -> None:
    cluster = bus()
    cluster.app = nats.app(max_payload=2048)
    assert cluster.settle() == ["Configuring", "Rolling", "Configuring", "Rolled", "Healthy"]
    assert "max_payload: 2048" in cluster.file("bus-0")


def test_an_upgrade_is_named_and_ends_with_the_new_image() -> None:
    cluster = bus()
    cluster.app = nats.app(version="2.11")
    while (decision := cluster.look()).reason != "Rolling":
        assert decision.steps
    assert "upgrade 2.10.29 → 2.11" in decision.message
    assert cluster.settle()[-1] == "Healthy"
    report = cluster.engine.report(cluster.observe(), None)
    assert (report.version, report.desired_version, report.available) == ("2.11.10", "2.11.10", True)


def test_its_volume_grows_while_it_runs() -> None:
    cluster = bus()
    cluster.app = nats.app(storage="16Gi")
    cluster.settle()
    claim = cluster.get("PersistentVolumeClaim", "data-bus-0")
    assert claim["spec"]["resources"]["requests"]["storage"] == "16Gi"


def test_a_ledger_that_was_deleted_is_written_again() -> None:
    cluster = bus()
    before = cluster.ledger
    del cluster.objects["ConfigMap", "bus-members"]
    assert cluster.settle() == ["Remembering", "Healthy"]
    assert cluster.ledger == before


def test_one_that_does_not_come_back_with_a_change_is_given_it_up() -> None:
    cluster = bus()
    cluster.app = nats.app(max_payload=2048)
    cluster.fails_with = "max_payload: 2048"
    assert cluster.settle()[-1] in ("Rolling", "MembersUnwell"), "it has its patience"
    cluster.ticks += 40
    assert cluster.decision().reason == "RollFailed"


# Two roles


def test_the_seed_begins_the_others_join_one_by_one_and_the_second_role_has_records_of_its_own() -> None:
    cluster, half = pair_cluster(pair.app())
    reasons = cluster.settle()
    assert reasons[0] == "Creating" and reasons[-1] == "Healthy"
    assert cluster.pods() == [*(f"cache-{n}" for n in range(3)), *(f"cache-sentinel-{n}" for n in range(3))]
    assert half.primary == "cache-0"
    assert {record.phase for record in cluster.ledger.places.values()} == {"settled"}
    assert {pod for pod, record in cluster.ledger.places.items() if record.role} == {
        f"cache-sentinel-{n}" for n in range(3)
    }
    report = cluster.engine.report(cluster.observe(), None)
    assert (report.wanted, report.leader) == (6, "cache-0")
    assert [member.role for member in report.members] == ["primary", "replica", "replica", *["sentinel"] * 3]


def test_whoever_leads_hands_over_before_it_restarts_and_before_it_leaves() -> None:
    cluster, half = pair_cluster(pair.app(members=5))
    cluster.settle()
    half.primary = "cache-4"
    cluster.app = pair.app(members=3)
    assert cluster.settle()[-1] == "Healthy"
    assert cluster.acts == [("lead", "cache-0"), ("forget", "cache-4"), ("forget", "cache-3")]
    cluster.acts.clear()
    half.primary = "cache-2"
    cluster.app = pair.app(members=3, failover_seconds=9, version="8")
    assert cluster.settle()[-1] == "Healthy"
    assert cluster.acts[0] == ("lead", "cache-0")


def test_a_role_that_is_not_wanted_any_more_leaves_and_can_be_begun_again() -> None:
    cluster, _ = pair_cluster(pair.app())
    cluster.settle()
    cluster.app = pair.app(members=1)
    assert cluster.settle()[-1] == "Healthy"
    assert (cluster.pods(), {*cluster.ledger.places}) == (["cache-0"], {"cache-0"})
    assert ("StatefulSet", "cache-sentinel") not in cluster.objects
    for kind, name in [
        key for key in cluster.objects if key[0] == "PersistentVolumeClaim" and key[1] != "data-cache-0"
    ]:
        del cluster.objects[kind, name]
    cluster.app = pair.app()
    assert cluster.settle()[-1] == "Healthy"
    assert len(cluster.pods()) == 6


def test_a_volume_of_a_member_that_left_is_never_what_another_one_starts_on() -> None:
    cluster, _ = pair_cluster(pair.app(members=4))
    cluster.settle()
    cluster.app = pair.app(members=3)
    cluster.settle()
    cluster.app = pair.app(members=4)
    decision = cluster.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "OldVolume", ())


def test_a_node_whose_volume_is_lost_comes_back_empty_as_one_that_joins() -> None:
    cluster, half = pair_cluster(pair.app())
    cluster.settle()
    before = cluster.get("PersistentVolumeClaim", "data-cache-0")["metadata"]["uid"]
    half.deaf.add("cache-0")
    half.primary = "cache-1"
    cluster.lose_volume("cache-0")
    for _ in range(40):
        decision = cluster.look()
        if cluster.get("PersistentVolumeClaim", "data-cache-0")["metadata"]["uid"] != before:
            half.deaf.clear()
        if decision.reason == "Healthy":
            break
    assert decision.reason == "Healthy", decision
    assert cluster.ledger.places["cache-0"].phase == "settled"
    assert "replicaof cache-1" in half.files[cluster.get("Pod", "cache-0")["metadata"]["uid"]]
    assert half.primary == "cache-1", "an empty one never leads: the others would copy the emptiness"


def test_nobody_is_given_up_while_it_says_how_far_it_is() -> None:
    cluster, half = pair_cluster(pair.app())
    cluster.settle()
    cluster.app = pair.app(version="8")
    cluster.fails_with = "redis:8"
    while not half.recovering:
        cluster.look()
        if "redis:8" in str(cluster.get("Pod", "cache-2")["spec"]):
            half.recovering["cache-2"] = "loads its data, 40 %"
    cluster.ticks += 1000
    decision = cluster.decision()
    assert (decision.reason, decision.steps) == ("Rolling", ())
    half.recovering["cache-2"] = ""
    assert cluster.decision().reason == "RollFailed"


def test_while_nobody_says_who_the_members_are_nothing_is_done() -> None:
    cluster, half = pair_cluster(pair.app())
    cluster.settle()
    half.deaf |= {"cache-0", "cache-1", "cache-2"}
    cluster.app = pair.app(members=5, version="8")
    while (decision := cluster.look()).reason == "Configuring":
        pass
    assert (decision.state, decision.reason, decision.steps) == (State.UNCERTAIN, "NoAgreement", ())


def test_what_an_engine_says_to_a_request_is_for_later_or_an_error() -> None:
    cluster, half = pair_cluster(pair.app())
    cluster.settle()
    seen = cluster.observe()
    half.recovering["cache-1"] = "loads"
    with pytest.raises(NotYetError, match="still loads"):
        asyncio.run(cluster.engine.act(seen, Act("lead", {"pod": "cache-1"}), lambda: None))
    half.refuses = True
    with pytest.raises(ResourceError, match="another one is under way"):
        asyncio.run(cluster.engine.act(seen, Act("lead", {"pod": "cache-1"}), lambda: None))


def test_members_are_reported_with_what_they_say() -> None:
    cluster, _ = pair_cluster(pair.app(members=1))
    cluster.settle()
    (member,) = cluster.engine.report(cluster.observe(), None).members
    assert member == MemberStatus(
        name="cache-0",
        role="primary",
        version="7.4.2",
        image="docker.io/library/redis:7.4.2",
        ready=True,
        state="running",
        volume="data-cache-0",
    )
