"""etcd passes the conformance suite in memory."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.simulate import EtcdServers
from fleet.kit.members import LEDGER
from fleet.testing.conformance import Case, Subject, Trial, Trouble, cases
from fleet.testing.conformance.subject import break_it, change_spec, kill_pod, lose_volume

IMAGES = {"etcd": "etcd:v{version}", "fleet-operator": "fleet-operator:1"}


NEXT = {"etcd": "etcd:v{version}", "fleet-operator": "fleet-operator:2"}
TORN = '{"level":"panic","msg":"failed to read WAL, cannot be repaired","error":"wal: crc mismatch"}'


class SimulatedEngine(EtcdEngine):
    """The product's engine, whose connection leads to simulated servers."""

    def __init__(self, servers: EtcdServers, images: Mapping[str, str] = IMAGES) -> None:
        super().__init__(images)
        self._servers = servers

    async def client(self, app: Any, world: Any) -> Any:
        return self._servers


def answer_late(servers: EtcdServers, is_late: bool) -> None:
    servers.answers_late = is_late


def edit_set(trial: Trial, **spec: Any) -> None:
    trial.cluster.edit("StatefulSet", "db")["spec"].update(spec)


def lose_majority(trial: Trial) -> None:
    """Lose two disks of three. It is known for longer than members have to come back by themselves."""
    trial.cluster.now += datetime.timedelta(minutes=5)
    for pod in ("db-0", "db-2"):
        trial.cluster.lose_volume(f"data-{pod}")
        trial.cluster.crash(pod, "")


def lose_and_force(trial: Trial) -> None:
    lose_majority(trial)
    trial.change(forceQuorum=True)


def lose_ledger(trial: Trial) -> None:
    trial.cluster.remove("ConfigMap", "db-members")


def break_ledger(trial: Trial) -> None:
    trial.cluster.edit("ConfigMap", "db-members")["metadata"]["annotations"][LEDGER] = "nonsense"


def save(kind: str, name: str, begin: Callable[[Trial], None]) -> tuple[Callable[[Trial], None], ...]:
    """Return what begins with an object kept, and what puts it back."""
    kept: dict[str, Any] = {}

    def breaks(trial: Trial) -> None:
        kept["text"] = (trial.cluster.get(kind, name) or {})["metadata"]["annotations"][LEDGER]
        begin(trial)

    def mends(trial: Trial) -> None:
        trial.cluster.edit(kind, name)["metadata"]["annotations"][LEDGER] = kept["text"]

    return breaks, mends


def silence(trial: Trial) -> None:
    trial.members.silent |= {"db-0", "db-1", "db-2"}


def isolate(trial: Trial) -> None:
    trial.members.isolated |= {"db-0", "db-1", "db-2"}


def empty_lists(trial: Trial) -> None:
    trial.members.unlisted |= {"db-0", "db-1", "db-2"}


def shorten_lists(trial: Trial) -> None:
    trial.members.unlisted |= {"db-1", "db-2"}


def mix_volumes_up(trial: Trial) -> None:
    trial.members.mix_up("db-2")
    trial.cluster.kill_pod("db-2")


def bring_volume_back(trial: Trial) -> None:
    """The wrong disk is taken out, and none is there."""
    trial.lose_volume("data-db-2")
    trial.members.clusters = {number: one for number, one in trial.members.clusters.items() if len(one.listed) > 1}


KEEP = save("ConfigMap", "db-members", break_ledger)
SUBJECT = Subject(
    kind="Etcd",
    spec={
        "version": "3.5",
        "members": 3,
        "storage": "2Gi",
        "tls": {"enabled": False},
        "volume": {"onScaleIn": "delete"},
    },
    make_servers=EtcdServers,
    make_engine=SimulatedEngine,
    next_release=lambda servers: SimulatedEngine(servers, NEXT),
    app_type=DRIVER,
    changes=(
        change_spec("scale 3 → 5", proves="scale", members=5),
        change_spec("scale 3 → 1", proves="scale", members=1),
        change_spec("upgrade 3.5 → 3.6", proves="upgrade", version="3.6"),
        replace(change_spec("downgrade 3.6 → 3.5", proves="downgrade", version="3.5"), before={"version": "3.6"}),
        change_spec("heartbeat", config={"heartbeatMs": 200}),
        change_spec("storage", storage="4Gi"),
        replace(
            change_spec("scale 3 → 1, volumes kept", proves="scale", members=1),
            before={"volume": {"onScaleIn": "keep"}},
        ),
        kill_pod(0),
        kill_pod(2),
        lose_volume("data-db-1"),
        break_it("claim of db-2 lost", lambda trial: trial.cluster.lose_claim("data-db-2")),
        break_it("node of db-1 lost", lambda trial: trial.cluster.lose_node("db-1")),
        break_it("corrupt", lambda trial: trial.members.raise_alarm("CORRUPT", "db-2"), interrupts=True),
        break_it("full", lambda trial: trial.members.raise_alarm("NOSPACE", "db-0"), interrupts=True),
        break_it("majority lost, and given up", lose_and_force, interrupts=True),
        break_it("ledger deleted", lose_ledger),
        break_it("StatefulSet deleted, pods left", lambda trial: trial.cluster.remove("StatefulSet", "db")),
        break_it("StatefulSet made smaller", lambda trial: edit_set(trial, replicas=2)),
    ),
    minds=(
        ("scale 3 → 5", "scale 3 → 1"),
        ("scale 3 → 1", "scale 3 → 5"),
        ("upgrade 3.5 → 3.6", "scale 3 → 5"),
        ("upgrade 3.5 → 3.6", "heartbeat"),
        ("scale 3 → 5", "heartbeat"),
        ("heartbeat", "storage"),
        ("heartbeat", "volume data-db-1 lost"),
        ("scale 3 → 5", "claim of db-2 lost"),
        ("heartbeat", "StatefulSet deleted, pods left"),
        ("volume data-db-1 lost", "ledger deleted"),
    ),
    troubles=(
        Trouble("nobody answers", silence, "Unreachable", lambda trial: trial.members.silent.clear()),
        Trouble("lists of members are empty", empty_lists, "ListDoubted", lambda trial: trial.members.unlisted.clear()),
        Trouble("lists lack others", shorten_lists, "ListDoubted", lambda trial: trial.members.unlisted.clear()),
        Trouble("no member reaches another", isolate, "NoMajority", lambda trial: trial.members.isolated.clear()),
        Trouble("a volume of another cluster", mix_volumes_up, "OtherCluster", bring_volume_back),
        Trouble(
            "a member of somebody else's",
            lambda trial: trial.members.add_stranger("http://elsewhere:2380"),
            "UnknownMember",
            lambda trial: trial.members.remove_strangers(),
        ),
        Trouble("a ledger that is none", KEEP[0], "LedgerUnreadable", KEEP[1]),
        Trouble(
            "members differ, and nobody knows who is wrong",
            lambda trial: trial.members.raise_alarm("CORRUPT"),
            "Corrupt",
            lambda trial: trial.members.end_alarms(),
        ),
        Trouble("a majority is lost", lose_majority, "QuorumLost", lambda trial: trial.change(forceQuorum=True)),
        Trouble(
            "a version without a way",
            lambda trial: trial.change(version="3.4"),
            "NoWay",
            lambda trial: trial.change(version="3.5"),
            is_git=True,
        ),
    ),
    wanted_meanwhile={"members": 5, "config": {"heartbeatMs": 200}},
    takes_data={"volume": {"onDelete": "delete"}},
    proved_by={
        "backup": "tests/operator/scenarios/test_life_backup.py::test_a_backup_becomes_a_new_app_with_the_same_data",
        "restore": "tests/operator/scenarios/test_life_backup.py::test_a_backup_becomes_a_new_app_with_the_same_data",
        "adopt": "tests/operator/scenarios/test_adopt.py::test_an_etcd_that_runs_becomes_an_app_and_no_pod_notices",
    },
    late=answer_late,
    bad_image="etcd:broken",
    quorum=True,
)


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_etcd_conforms(case: Case) -> None:
    case.run()
