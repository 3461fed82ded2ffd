"""An app type without a half of its own that acts: what the operator does for it by its declaration. Data alone."""

from __future__ import annotations

import datetime
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.kit.members import LEDGER, read
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.permissions import Permissions
from fleet.kit.status import MemberStatus
from fleet.kit.step import Decision, State
from fleet.model.app_settings import Resources, Volume
from fleet.testing.conformance import Case, cases, declared_subject
from tests.kit.app_trial import AppTrial
from tests.kit.nats import NATS, Nats, NatsType
from tests.kit.nats import app as nats
from tests.kit.pair import NODE, WATCHER, Pair, PairType
from tests.kit.pair import app as pair

OLD, NEW = "docker.io/library/nats:2.10.29", "docker.io/library/nats:2.11.10"


class PlainPair(PairType):
    """Two roles whose members start by themselves."""

    roles = (replace(NODE, bootstrap="alone", certificates={}), WATCHER)
    users = ()


def bus(**spec: Any) -> AppTrial:
    return AppTrial(NATS, nats(**spec))


def cache(**spec: Any) -> AppTrial:
    return AppTrial(PlainPair(), pair(**spec))


def installed(cluster: AppTrial) -> AppTrial:
    return cluster.installed()


def images(cluster: AppTrial) -> set[str]:
    return {cluster.get("Pod", name)["spec"]["containers"][0]["image"] for name in cluster.names("Pod")}


def ledger(cluster: AppTrial, name: str = "bus-members") -> Any:
    return read(cluster.get("ConfigMap", name)["metadata"]["annotations"][LEDGER])


def reasons(decisions: list[Decision]) -> list[str]:
    return [decision.reason for decision in decisions]


def test_an_app_is_installed_from_one_object_and_then_nothing_is_written() -> None:
    cluster = bus()
    last = cluster.until_rest()[-1]
    assert last.message == "1 member of NATS 2.10.29 is ready"
    assert cluster.names("Pod") == ["bus-0"]
    assert cluster.names("Service") == ["bus", "bus-peers"]
    assert cluster.names("PersistentVolumeClaim") == ["data-bus-0"]
    (file,) = cluster.get("ConfigMap", "bus-members")["data"].values()
    assert "server_name: bus-0" in file
    secret = cluster.get("Secret", "bus-connection")["data"]
    assert b64decode(secret["url"]) == b"tcp://bus.shop.svc:4222"
    assert ledger(cluster).identity == cluster.get("StatefulSet", "bus")["metadata"]["uid"]
    assert ledger(cluster).places["bus-0"].phase == "settled"
    cluster.moves.clear()
    for _ in range(3):
        assert cluster.reconcile().state is State.OK
    assert cluster.moves == []


def test_the_status_says_what_kubelets_and_images_say() -> None:
    cluster = installed(bus())
    report = cluster.report
    assert (report.version, report.desired_version, report.wanted, report.available) == ("2.10.29", "2.10.29", 1, True)
    (member,) = report.members
    assert member == MemberStatus(
        name="bus-0", version="2.10.29", image=OLD, ready=True, state="running", volume="data-bus-0"
    )


def test_a_setting_restarts_members_only_if_it_says_so() -> None:
    cluster = installed(bus())
    made = cluster.pods_made
    cluster.wants(debug=True).until_rest()
    assert cluster.pods_made == made, "a file is written, and no pod is made anew"
    assert any("debug: true" in file for file in cluster.get("ConfigMap", "bus-members")["data"].values())
    cluster.wants(max_payload=2 << 20).until_rest()
    assert cluster.pods_made == made + 1
    (file,) = cluster.get("ConfigMap", "bus-members")["data"].values()
    assert "max_payload: 2097152" in file


def test_an_upgrade_goes_through_and_a_way_back_exists() -> None:
    cluster = installed(bus())
    decisions = cluster.wants(version="2.11").until_rest()
    assert any("upgrade 2.10.29 → 2.11" in decision.message for decision in decisions)
    assert images(cluster) == {NEW}
    assert cluster.report.version == "2.11.10"
    cluster.wants(version="2.10").until_rest()
    assert images(cluster) == {OLD}


def test_members_that_do_not_come_back_with_it_get_back_what_they_had_until_git_says_something_else() -> None:
    cluster = installed(bus())
    cluster.servers.broken.add(NEW)
    cluster.wants(version="2.11")
    told = [cluster.reconcile() for _ in range(40)]
    assert "RollingBack" in reasons(told)
    assert told[-1].state is State.BLOCKED
    assert told[-1].message.startswith("upgrade 2.10.29 → 2.11 failed") or "bus-0 does not start" in told[-1].message
    assert images(cluster) == {OLD}
    assert cluster.report.available
    cluster.moves.clear()
    cluster.reconcile()
    assert cluster.moves == [], "it is not tried again"
    cluster.servers.broken.clear()
    cluster.wants(version="2.10", max_payload=2 << 20).until_rest()
    assert ledger(cluster).failed == ""
    cluster.wants(version="2.11").until_rest()
    assert images(cluster) == {NEW}


def test_a_version_without_a_way_is_refused_and_members_stay() -> None:
    class Forward(NatsType):
        versions = replace(NATS.versions, back={})

    cluster = installed(AppTrial(Forward(), nats(version="2.11")))
    last = cluster.wants(version="2.10").reconcile()
    assert (last.state, last.reason) == (State.BLOCKED, "NoWay")
    assert cluster.moves == []


def test_a_change_of_mind_reaches_members_that_never_started() -> None:
    cluster = bus(version="2.11")
    cluster.servers.broken.add(NEW)
    told = [cluster.reconcile() for _ in range(12)]
    assert told[-1].state is State.DEGRADED
    assert "exec format error" in told[-1].message
    cluster.wants(version="2.10").until_rest()
    assert images(cluster) == {OLD}


def test_a_member_that_no_node_takes_any_more_gets_what_git_says_by_now() -> None:
    cluster = installed(bus(resources=Resources(cpu="900m")))
    cluster.cluster.most_cpu = 0.5
    cluster.cluster.now += datetime.timedelta(minutes=5)
    cluster.cluster.kill_pod("bus-0")
    cluster.trial.tick()
    assert cluster.reconcile().state is State.DEGRADED
    told = cluster.wants(resources=Resources(cpu="200m")).until_rest()
    assert "Reviving" in reasons(told)


def test_volumes_grow_while_members_run() -> None:
    cluster = installed(bus())
    made = cluster.pods_made
    cluster.wants(storage="16Gi").until_rest()
    claim = cluster.get("PersistentVolumeClaim", "data-bus-0")
    assert claim["spec"]["resources"]["requests"]["storage"] == "16Gi"
    assert "apply PersistentVolumeClaim data-bus-0" in cluster.moves
    assert cluster.pods_made == made


def test_fleet_roll_restarts_each_member_once_and_says_when_it_is_done() -> None:
    cluster = installed(bus())
    made = cluster.pods_made
    cluster.wants(roll="monday").until_rest()
    assert cluster.pods_made == made + 1
    assert cluster.report.conditions == (("Rolled", "True", "Rolled", "monday"),)


def test_every_role_has_its_pods_and_members_come_and_go_by_number() -> None:
    cluster = installed(cache(members=2))
    assert cluster.names("Pod") == ["cache-0", "cache-1", "cache-sentinel-0", "cache-sentinel-1", "cache-sentinel-2"]
    cluster.wants(members=3).until_rest()
    assert "cache-2" in cluster.names("Pod")
    assert ledger(cluster, "cache-members").places["cache-2"].phase == "settled"
    cluster.wants(members=1).until_rest()
    assert cluster.names("Pod") == ["cache-0"], "a single node has nobody to watch it"
    assert cluster.names("StatefulSet") == ["cache"]
    assert cluster.names("PodDisruptionBudget") == ["cache"]
    assert not any("sentinel" in name for name in cluster.names("Service"))
    assert set(ledger(cluster, "cache-members").places) == {"cache-0"}
    assert len(cluster.names("PersistentVolumeClaim")) == 6, "volumes stay unless the app says otherwise"
    cluster.wants(members=2).until_rest()
    assert len(cluster.names("Pod")) == 5
    assert cluster.reconcile().message == "2 members, 3 sentinels of Pair 7.4.2 are ready"


def test_volumes_of_members_that_leave_go_if_the_app_says_so() -> None:
    class Stored(Pair, frozen=True):
        volume: Volume = Volume()

    class Typed(PlainPair):
        app = Stored

    cluster = installed(AppTrial(Typed(), Stored("cache", namespace="shop", version="7", members=3)))
    cluster.wants(members=2).until_rest()
    claims = [name for name in cluster.names("PersistentVolumeClaim") if "sentinel" not in name]
    assert claims == ["data-cache-0", "data-cache-1"]


def test_roles_roll_one_after_the_other_and_one_member_at_a_time() -> None:
    cluster = installed(cache())
    made = cluster.pods_made
    cluster.wants(version="8").until_rest()
    assert images(cluster) == {"docker.io/library/redis:8.0.2"}
    assert cluster.pods_made == made + 6


def test_what_is_deleted_behind_its_back_is_made_again_and_no_member_restarts() -> None:
    cluster = installed(cache())
    made = cluster.pods_made
    cluster.cluster.remove("ConfigMap", "cache-members")
    assert "Remembering" in reasons(cluster.until_rest())
    assert {record.phase for record in ledger(cluster, "cache-members").places.values()} == {"settled"}
    cluster.cluster.remove("StatefulSet", "cache")  # its pods as orphans
    cluster.reconcile()
    cluster.until_rest()
    assert cluster.pods_made == made
    cluster.cluster.edit("StatefulSet", "cache")["spec"]["replicas"] = 1
    cluster.trial.tick()
    assert "Restaffing" in reasons(cluster.until_rest())
    assert len(cluster.names("Pod")) == 6


def test_a_ledger_that_cannot_be_read_stops_everything() -> None:
    cluster = installed(bus())
    cluster.cluster.edit("ConfigMap", "bus-members")["metadata"]["annotations"][LEDGER] = "nonsense"
    last = cluster.wants(version="2.11").reconcile()
    assert (last.state, last.reason) == (State.BLOCKED, "LedgerUnreadable")
    assert cluster.moves == []


def test_what_the_operators_owner_does_not_allow_is_not_run() -> None:
    class Chosen(Nats, frozen=True):
        image: str | None = None

    class Typed(NatsType):
        app = Chosen

    strange = Chosen("bus", namespace="shop", version="2.10", image="evil.test/nats:1")
    cluster = AppTrial(Typed(), strange)
    assert (cluster.reconcile().reason, cluster.names("Pod")) == ("NotAllowed", [])
    allowed = AppTrial(Typed(), strange, permissions=Permissions(images=("evil.test/*",)))
    allowed.until_rest()
    assert images(allowed) == {"evil.test/nats:1"}


def test_an_app_that_is_taken_out_keeps_its_volumes_unless_it_says_otherwise() -> None:
    for volume, left in ((Volume(), ["data-bus-0"]), (Volume(on_delete="delete"), [])):
        cluster = installed(bus(volume=volume))
        cluster.trial.tear_down()
        assert cluster.names("PersistentVolumeClaim") == left
        assert cluster.names("Pod") == cluster.names("ConfigMap") == cluster.names("Secret") == []


@pytest.mark.parametrize("more", [{"joining": "announced"}, {"votes": True}, {"bootstrap": "seed"}])
def test_a_type_whose_members_need_more_than_a_pod_must_name_its_half_that_acts(more: dict[str, Any]) -> None:
    class Typed(PlainPair):
        roles = (replace(PlainPair.roles[0], **more), WATCHER)

    with pytest.raises(ConfigurationError, match="must name the half that acts"):
        PlainEngine(Typed(), {})


SUBJECT = replace(
    declared_subject(PlainPair(), pair()), make_engine=lambda servers: PlainEngine(PlainPair(), {}), bad_image=""
)


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_a_type_with_two_roles_conforms_by_its_declaration(case: Case) -> None:
    case.run()
