"""A type with two roles and a half that acts passes the conformance suite: a seed begins, members join by themselves,
and watchers say who leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.testing.conformance import Case, Subject, Trial, Trouble, cases
from fleet.testing.conformance.subject import break_it, change_spec, kill_pod
from tests.kit.pair import PAIR
from tests.kit.pair_members import PairEngine, PairServers


def silence(trial: Trial) -> None:
    trial.members.silent |= {found["metadata"]["name"] for found in trial.cluster.list_objects("Pod")}


def shrink(trial: Trial) -> None:
    trial.cluster.edit("StatefulSet", "db")["spec"].update(replicas=2)


def lose_ledger(kept: dict[str, Any]) -> tuple[Callable[[Trial], None], str, Callable[[Trial], None]]:
    def lose(trial: Trial) -> None:
        kept["object"] = trial.cluster.get("ConfigMap", "db-members")
        trial.cluster.remove("ConfigMap", "db-members")

    def restore(trial: Trial) -> None:
        metadata = {name: kept["object"]["metadata"][name] for name in ("name", "namespace", "labels", "annotations")}
        trial.cluster.apply({**kept["object"], "metadata": metadata})

    return lose, "LedgerLost", restore


LOST = lose_ledger({})
SUBJECT = Subject(
    kind="Pair",
    spec={"version": "7", "members": 3},
    make_servers=PairServers,
    make_engine=PairEngine,
    next_release=lambda servers: PairEngine(servers, {"fleet-operator": "fleet-operator:2"}),
    app_type=PAIR,
    changes=(
        change_spec("3 → 5 nodes", proves="scale", members=5),
        change_spec("3 → 2 nodes", proves="scale", members=2),
        change_spec("one node, nobody watches", interrupts=True, proves="scale", members=1),
        change_spec("version 8", proves="upgrade", version="8"),
        change_spec("a setting of nodes that they reload", memory="512Mi"),
        change_spec("a setting of watchers", failoverSeconds=9),
        change_spec("larger volumes", storage="2Gi"),
        kill_pod(1),
        break_it("node 0 killed, which leads", lambda trial: trial.cluster.kill_pod("db-0"), interrupts=True),
        break_it("claim of db-0 lost", lambda trial: trial.cluster.lose_claim("data-db-0"), interrupts=True),
        break_it("claim of db-2 lost", lambda trial: trial.cluster.lose_claim("data-db-2")),
        break_it("StatefulSet deleted, pods left", lambda trial: trial.cluster.remove("StatefulSet", "db-sentinel")),
        break_it("StatefulSet made smaller", shrink),
    ),
    minds=(
        ("3 → 5 nodes", "3 → 2 nodes"),
        ("version 8", "a setting of watchers"),
        ("3 → 5 nodes", "claim of db-2 lost"),
    ),
    troubles=(
        Trouble("nobody answers", silence, "NoAgreement", lambda trial: trial.members.silent.clear()),
        Trouble("ledger deleted, and no member says whose it is", *LOST),
    ),
    wanted_meanwhile={"members": 4, "version": "8"},
    bad_image="docker.io/library/redis:8.0.2",
    bad_spec={"version": "8"},
    begins_again=False,
)


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_a_pair_conforms(case: Case) -> None:
    case.run()
