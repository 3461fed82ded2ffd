"""An app type with a half that acts, of two roles: a seed begins, members join by themselves, and others say who leads.

What happens to members is in memory; what is decided is the product's own.
"""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.kit.members import LEDGER, Ledger, read
from fleet.kit.step import Act, Apply, NotYetError, State
from tests.kit.app_trial import AppTrial
from tests.kit.pair import PAIR, app
from tests.kit.pair_members import PairEngine, PairServers


def pairs(**spec: Any) -> AppTrial:
    return AppTrial(PAIR, app(**spec), servers=PairServers(), make_engine=PairEngine)


def installed(**spec: Any) -> AppTrial:
    cluster = pairs(**spec).installed()
    cluster.servers.asked.clear()
    return cluster


def ledger(cluster: AppTrial) -> Ledger:
    return read(cluster.get("ConfigMap", "cache-members")["metadata"]["annotations"][LEDGER])


def test_the_seed_begins_the_others_join_one_by_one_and_the_second_role_has_records_of_its_own() -> None:
    cluster = pairs()
    decisions = cluster.until_rest()
    assert [decision.message for decision in decisions if decision.reason == "Joined"] == [
        "cache-1 joined",
        "cache-2 joined",
    ]
    nodes, watchers = [f"cache-{n}" for n in range(3)], [f"cache-sentinel-{n}" for n in range(3)]
    assert cluster.names("Pod") == [*nodes, *watchers]
    assert cluster.servers.primary == "cache-0"
    assert {record.phase for record in ledger(cluster).places.values()} == {"settled"}
    assert [pod for pod, record in ledger(cluster).places.items() if record.role] == watchers
    assert (cluster.report.wanted, cluster.report.leader) == (6, "cache-0")
    assert [member.role for member in cluster.report.members] == ["primary", "replica", "replica", *["sentinel"] * 3]


def test_whoever_leads_hands_over_before_it_leaves_and_before_it_restarts() -> None:
    cluster = installed(members=5)
    cluster.servers.primary = "cache-4"
    cluster.wants(members=3).until_rest()
    assert cluster.servers.asked == [("lead", "cache-0"), ("forget", "cache-4"), ("forget", "cache-3")]
    cluster.servers.asked.clear()
    cluster.servers.primary = "cache-2"
    cluster.wants(version="8").until_rest()
    assert cluster.servers.asked == [("lead", "cache-0"), ("lead", "cache-1")]


def test_a_role_that_is_not_wanted_any_more_leaves_and_can_be_begun_again() -> None:
    cluster = installed()
    cluster.wants(members=1).until_rest()
    assert (cluster.names("Pod"), {*ledger(cluster).places}) == (["cache-0"], {"cache-0"})
    assert cluster.names("StatefulSet") == ["cache"]
    for pod in ("cache-1", "cache-2"):
        cluster.cluster.delete(cluster.get("PersistentVolumeClaim", f"data-{pod}"))
    cluster.wants(members=3).until_rest()
    assert len(cluster.names("Pod")) == 6


def test_a_volume_of_a_member_that_left_is_never_what_another_one_starts_on() -> None:
    cluster = installed(members=4)
    cluster.wants(members=3).until_rest()
    cluster.wants(members=4).reconcile()  # the files are written
    decision = cluster.reconcile()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "OldVolume", ())


def test_a_node_whose_volume_is_lost_comes_back_empty_as_one_that_joins() -> None:
    cluster = installed()
    cluster.cluster.lose_claim("data-cache-0")
    reasons = [decision.reason for decision in cluster.until_rest()]
    assert "Replacing" in reasons and "Joining" in reasons
    record = ledger(cluster).places["cache-0"]
    assert (record.phase, record.spoiled) == ("settled", "")
    assert cluster.servers.primary == "cache-1", "an empty one never leads: the others would copy the emptiness"


def test_nobody_is_given_up_while_it_says_how_far_it_is() -> None:
    cluster = installed().wants(version="8")
    while "8.0.2" not in cluster.get("Pod", "cache-2")["spec"]["containers"][0]["image"]:
        cluster.reconcile()
    cluster.servers.unready.add("cache-2")
    cluster.servers.recovering["cache-2"] = "loads its data, 40 %"
    for _ in range(5):
        cluster.reconcile()
    cluster.cluster.now += datetime.timedelta(hours=5)
    noted, decision = cluster.reconcile(), cluster.reconcile()
    assert [each.manifest["kind"] for each in noted.steps if isinstance(each, Apply)] == ["ConfigMap"]
    assert (decision.reason, decision.steps) == ("Rolling", ())
    cluster.servers.recovering["cache-2"] = ""
    assert cluster.reconcile().reason == "Rolling", "its patience of 15 minutes begins"
    cluster.cluster.now += datetime.timedelta(minutes=15)
    assert cluster.reconcile().reason == "RollFailed"


def test_while_nobody_says_who_the_members_are_nothing_is_done() -> None:
    cluster = installed()
    cluster.servers.silent |= {"cache-0", "cache-1", "cache-2"}
    cluster.wants(members=5, version="8").reconcile()  # the files are written
    decision = cluster.reconcile()
    assert (decision.state, decision.reason, decision.steps) == (State.UNCERTAIN, "NoAgreement", ())


def test_what_an_engine_says_to_a_request_is_for_later_or_an_error() -> None:
    cluster = installed()
    cluster.servers.recovering["cache-1"] = "loads"
    with pytest.raises(NotYetError, match="still loads"):
        asyncio.run(cluster.engine.act(cluster.observed, Act("lead", {"pod": "cache-1"}), lambda: None))
    cluster.servers.refuses = True
    with pytest.raises(ResourceError, match="another one is under way"):
        asyncio.run(cluster.engine.act(cluster.observed, Act("lead", {"pod": "cache-1"}), lambda: None))
