"""Taking over and giving back, with the operator killed after every move: of one StatefulSet, and of two that are one
app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet.kit.app_type import Role
from fleet.testing.adoption import AdoptionSubject, AdoptionTrial, check_adoption
from tests.kit import pair
from tests.kit.nats import NATS
from tests.kit.pair import NODE, WATCHER, Pair, PairType
from tests.kit.test_adoption import both, broker

Object = dict[str, Any]


class OpenPair(PairType):
    """Two roles whose members let everybody in and start by themselves: all of them is known by their objects."""

    roles: tuple[Role[Pair], ...] = (replace(NODE, bootstrap="alone", certificates={}), WATCHER)
    users = ()
    tls = None
    quorum = "none"


def as_applied(found: Object, **spec: Any) -> Object:
    """Return a StatefulSet as its owner applied it."""
    own = found["metadata"]
    metadata = {"name": own["name"], "namespace": own["namespace"], "labels": {"team": "shop"}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {**found["spec"], **spec}}


STRATEGIES: dict[str, Object] = {
    "by hand": {},
    "at once, and its claims go with it": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
    },
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_broker_is_taken_over_and_given_back_whenever_the_operator_ends(strategy: str) -> None:
    taking, giving = check_adoption(AdoptionSubject(NATS, [as_applied(broker(), **STRATEGIES[strategy])]))
    assert taking == [
        "apply ConfigMap messages-members",
        "take StatefulSet messages",
        "apply ConfigMap messages-members",
        "apply Secret messages-connection",
    ]
    assert giving == [
        "restore StatefulSet messages",
        "release StatefulSet messages",
        "release Secret messages-connection",
        "release ConfigMap messages-members",
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_stateful_sets_are_taken_over_and_given_back_whenever_the_operator_ends(strategy: str) -> None:
    sets = [as_applied(found, **STRATEGIES[strategy]) for found in both(pair.app()).values()]
    taking, giving = check_adoption(AdoptionSubject(OpenPair(), sets))
    assert taking == [
        "apply ConfigMap redis-node-members",
        "take StatefulSet redis-node",
        "take StatefulSet cache-sentinel",
        "apply ConfigMap redis-node-members",
        "apply Secret redis-node-connection",
    ]
    assert [move for move in giving if "StatefulSet" in move] == [
        "restore StatefulSet cache-sentinel",
        "release StatefulSet cache-sentinel",
        "restore StatefulSet redis-node",
        "release StatefulSet redis-node",
    ]


def begun_broker(on: str, meddle: Callable[[AdoptionTrial], object]) -> AdoptionTrial:
    """Return a trial in which somebody does something right after the first move that begins so."""
    trial, done = AdoptionSubject(NATS, [as_applied(broker())]).begin(), list[str]()

    def look(trial: Any) -> None:
        if trial.moves[-1].startswith(on) and not done:
            done.append(on)
            meddle(trial)

    trial.on_move = look
    return trial


def test_what_was_found_stays_noted_where_somebody_takes_our_label_off_meanwhile() -> None:
    def unlabel(trial: AdoptionTrial) -> None:
        found = trial.cluster.get("StatefulSet", "messages") or {}
        trial.cluster.patch(found, {"metadata": {"labels": {"fleet.dev/app": None}}})

    trial = begun_broker("take", unlabel)
    trial.take()
    assert trial.moves.count("take StatefulSet messages") == 2
    trial.give_back()


def test_what_git_says_when_it_is_taken_is_what_later_changes_are_compared_with() -> None:
    trial = begun_broker("apply ConfigMap", lambda trial: trial.change(maxPayload=2048))
    trial.take()
    assert trial.moves.count("apply ConfigMap messages-members") == 3, "noted, noted again, and taken"
    trial.change(maxPayload=4096)
    assert trial.reconcile_once() is not None
    assert trial.decisions[-1].reason == "KeptAsFound"
