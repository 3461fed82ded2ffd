"""An app that was taken over by its declaration, of one role and of two: what is done for it, what is refused, and what
people are told; and which StatefulSets are found to be one app."""

from __future__ import annotations

import copy
import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from fleet.adopt.find import AdoptionFinding, leave_out_parts
from fleet.kit.adoption.declared import INSTANCE
from fleet.kit.adoption.discovery import Candidate
from fleet.kit.adoption.surroundings import Surroundings
from fleet.kit.driver import Problem
from fleet.kit.members import LEDGER
from fleet.kit.operate.explain import describe_decision
from fleet.kit.operate.record import list_classes, read_observation, write_observation
from fleet.kit.order import Concern, diagnose
from fleet.kit.step import Decision, State
from fleet.model.app_settings import Volume
from fleet.model.resource import Adopt
from fleet.testing.adoption import AdoptionSubject, AdoptionTrial
from tests.kit import nats, pair
from tests.kit.nats import NATS
from tests.kit.pair import NODE
from tests.kit.test_adoption import both, broker
from tests.kit.test_adoption_killed import OpenPair, as_applied

Object = dict[str, Any]
PAIR = OpenPair()


def nothing_found(kind: str, name: str) -> None:
    return None


def taken_broker() -> AdoptionTrial:
    trial = AdoptionSubject(NATS, [as_applied(broker())]).begin()
    trial.take()
    return trial


def taken_pair(**spec: Any) -> AdoptionTrial:
    sets = list(both(pair.app(**spec)).values())
    if spec.get("members") == 1:
        sets = sets[:1]
        sets[0]["spec"]["replicas"] = 1
    trial = AdoptionSubject(PAIR, [as_applied(found) for found in sets]).begin()
    trial.take()
    return trial


def conditions(trial: AdoptionTrial) -> dict[str, tuple[str, ...]]:
    return {kind: tuple(rest) for kind, *rest in trial.report().conditions}


def uids(trial: AdoptionTrial) -> dict[str, str]:
    return {found["metadata"]["name"]: found["metadata"]["uid"] for found in trial.cluster.list_objects("Pod")}


def restarted(trial: AdoptionTrial) -> None:
    """From here on pods may be made anew."""
    trial.checks.clear()


def last(trial: AdoptionTrial) -> Decision:
    for _ in range(5):
        trial.reconcile_once()
        trial.tick()
    return trial.decisions[-1]


def test_a_broker_that_was_taken_over_gets_another_version_once_and_keeps_the_rest_of_its_template() -> None:
    trial = taken_broker()
    before, template = uids(trial), trial.cluster.list_objects("StatefulSet")[0]["spec"]["template"]
    assert trial.report().version == "2.10.18", "as its tag says"
    restarted(trial)
    trial.change(version="2.11")
    trial.settle()
    made, (found,) = uids(trial), trial.cluster.list_objects("StatefulSet")
    assert made.keys() == before.keys()
    assert made != before
    own = next(one for one in found["spec"]["template"]["spec"]["containers"] if one["name"] == "broker")
    assert own["image"] == "docker.io/library/nats:2.11.10"
    assert own["args"] == template["spec"]["containers"][1]["args"]
    assert trial.report().version == "2.11.10"
    assert conditions(trial)["Converged"] == ("True", "Rolled", "pods carry the app's labels")
    for _ in range(5):
        trial.reconcile_once()
        trial.tick()
    assert uids(trial) == made, "once"


def test_its_volume_grows_and_nobody_restarts() -> None:
    trial = taken_broker()
    trial.change(storage="6Gi")
    trial.settle()
    (claim,) = trial.cluster.list_objects("PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == "6Gi"


@pytest.mark.parametrize("change", [{"maxPayload": 2048}, {"options": {"write_deadline": "2s"}}])
def test_settings_that_its_members_do_not_read_are_refused_and_said(change: Object) -> None:
    trial = taken_broker()
    moves = list(trial.moves)
    trial.change(**change)
    decision = last(trial)
    assert (decision.state, decision.reason) == (State.BLOCKED, "KeptAsFound")
    assert trial.moves == moves


def test_an_app_of_two_stateful_sets_says_one_thing_about_both() -> None:
    trial = taken_pair()
    said = conditions(trial)
    identity = trial.manifest["spec"]["adopt"]["identity"]
    taken = f"StatefulSets redis-node, cache-sentinel are run as they were found, cluster {identity}"
    assert said["Adopted"] == ("True", "TakenOver", taken)
    assert said["Converged"][:2] == ("False", "NextRoll")
    assert [member.name for member in trial.report().members] == [
        *(f"redis-node-{number}" for number in range(3)),
        *(f"cache-sentinel-{number}" for number in range(3)),
    ]


def test_both_stateful_sets_roll_and_then_it_is_converged() -> None:
    trial = taken_pair()
    before = uids(trial)
    restarted(trial)
    trial.change(version="8")
    trial.settle()
    after = uids(trial)
    assert after.keys() == before.keys()
    assert not [name for name, uid in after.items() if before[name] == uid]
    assert conditions(trial)["Converged"][0] == "True"


def test_a_stateful_set_that_is_gone_is_said_and_not_made_anew() -> None:
    trial = taken_pair()
    restarted(trial)
    trial.cluster.delete(trial.cluster.get("StatefulSet", "cache-sentinel") or {})
    decision = last(trial)
    assert (decision.state, decision.reason) == (State.BLOCKED, "SetGone")
    assert "cache-sentinel" in decision.message
    said = ("False", "SetGone", "StatefulSet cache-sentinel was taken over, and is gone")
    assert conditions(trial)["Adopted"] == said
    assert trial.cluster.get("StatefulSet", "cache-sentinel") is None


def test_an_app_taken_over_without_a_kind_of_pods_gets_none_of_it_later() -> None:
    trial = taken_pair(members=1)
    moves = list(trial.moves)
    trial.change(members=3)
    decision = last(trial)
    assert (decision.state, decision.reason) == (State.BLOCKED, "KeptAsFound")
    assert [move for move in trial.moves[len(moves) :] if "Secret" not in move] == []


def test_clients_are_given_the_names_that_its_members_have() -> None:
    secret = taken_broker().cluster.get("Secret", "messages-connection") or {}
    given = {name: b64decode(text).decode() for name, text in secret["data"].items()}
    assert given["url"] == "tcp://messages-headless.shop.svc:4333"
    assert given["endpoints"] == "tcp://messages-0.messages-headless.shop.svc:4333"


def test_a_ledger_that_somebody_spoiled_is_said_and_nothing_is_touched() -> None:
    trial = taken_broker()
    ledger = trial.cluster.get("ConfigMap", "messages-members") or {}
    trial.cluster.patch(ledger, {"metadata": {"annotations": {LEDGER: '{"version": 1, "layout": {"sets": 7}}'}}})
    moves = list(trial.moves)
    decision = last(trial)
    assert (decision.state, decision.reason) == (State.BLOCKED, "LedgerUnreadable")
    assert trial.moves == moves


def test_a_plan_says_that_there_will_be_no_further_member() -> None:
    manifest = taken_pair().manifest
    before = PAIR.app.from_manifest(manifest)
    more, fewer = (before.model_copy(update={"members": members}) for members in (4, 2))
    assert [(problem.field, problem.hint) for problem in PAIR.validate(more, before)] == [("members", "leave it at 3")]
    assert PAIR.validate(fewer, before) == []
    made_by_fleet = pair.app()
    assert PAIR.validate(made_by_fleet.model_copy(update={"members": 4}), made_by_fleet) == []


def test_volumes_of_others_that_go_with_the_app_are_refused() -> None:
    trial = taken_broker()
    app = NATS.app.from_manifest(trial.manifest)
    assert NATS.validate(app) == []
    goes = app.model_copy(update={"volume": Volume(on_delete="delete")})
    assert [problem.field for problem in NATS.validate(goes)] == ["volume.on_delete"]
    assert NATS.validate(nats.app(volume=Volume(on_delete="delete"))) == []


def test_the_same_is_decided_from_a_record_of_it() -> None:
    trial = taken_pair()
    trial.change(version="8")
    observation, engine = trial.observe(), trial.make_engine(trial.members)
    classes = list_classes("fleet.kit", "tests.kit.pair")
    again = read_observation(json.loads(json.dumps(write_observation(observation))), classes)
    decisions = [diagnose(engine.concerns(one), engine.at_rest(one)) for one in (observation, again)]
    assert decisions[0][0] is Concern.ROLL
    first, second = (describe_decision(decision) for _, decision in decisions)
    assert first == second


# Which StatefulSets are one app


def judged(sets: list[Object], first: str = "redis-node") -> Candidate | Problem:
    discovery = PAIR.discovery()
    assert discovery is not None
    found = next(one for one in sets if one["metadata"]["name"] == first)
    return discovery.understands(found, Surroundings(sets=sets), {})


def renamed(found: Object, name: str, **labels: str) -> Object:
    made = copy.deepcopy(found)
    made["metadata"] |= {"name": name, "uid": f"uid-{name}", "labels": labels}
    return made


def test_stateful_sets_of_one_app_are_described_together() -> None:
    candidate = judged(list(both(pair.app()).values()))
    assert isinstance(candidate, Candidate), candidate
    assert candidate.stateful_sets == {"sentinel": "cache-sentinel"}
    others = {"sentinel": "cache-sentinel"}
    meant = Adopt(identity="uid-redis-node", service="redis-node-headless", stateful_sets=others)
    assert candidate.app.adoption == meant
    assert candidate.app.spec()["adopt"]["statefulSets"] == {"sentinel": "cache-sentinel"}
    again = PAIR.app.from_manifest(
        {"apiVersion": "x/v1", "kind": "Pair", "metadata": {"name": "redis-node"}, "spec": candidate.app.spec()}
    )
    assert again.adoption == candidate.app.adoption
    assert candidate.facts["sentinel"] == "StatefulSet cache-sentinel, 3 pods"
    assert {member.name for member in candidate.members} == {
        *(f"redis-node-{number}" for number in range(3)),
        *(f"cache-sentinel-{number}" for number in range(3)),
    }
    assert "cache-sentinel: container sidecar" in candidate.kept


def test_the_usual_name_of_a_role_is_not_said() -> None:
    sets = both(pair.app())
    candidate = judged([sets[""], renamed(sets["sentinel"], "redis-node-sentinel")])
    assert isinstance(candidate, Candidate), candidate
    assert "statefulSets" not in candidate.app.spec()["adopt"]


def _two(one: Object, other: Object) -> list[Object]:
    """Two apps in one namespace, of which nothing but labels says what belongs together."""
    sets = both(pair.app())
    return [
        renamed(sets[""], "redis-node", **one),
        renamed(sets[""], "other-node", **other),
        renamed(sets["sentinel"], "watch-a", **one),
        renamed(sets["sentinel"], "watch-b", **other),
    ]


def test_apps_beside_each_other_are_told_apart_by_the_label_of_their_release() -> None:
    sets = _two({INSTANCE: "a"}, {INSTANCE: "b"})
    for first, watch in (("redis-node", "watch-a"), ("other-node", "watch-b")):
        candidate = judged(sets, first)
        assert isinstance(candidate, Candidate), candidate
        assert candidate.stateful_sets == {"sentinel": watch}


def _alone() -> list[Object]:
    return [both(pair.app())[""]]


def _other_count() -> list[Object]:
    sets = both(pair.app())
    sets["sentinel"]["spec"]["replicas"] = 5
    return list(sets.values())


def _other_size() -> list[Object]:
    sets = both(pair.app())
    sets["sentinel"]["spec"]["template"]["spec"]["containers"][1]["resources"]["requests"]["cpu"] = "2"
    return list(sets.values())


def _other_version() -> list[Object]:
    sets = both(pair.app())
    sets["sentinel"]["spec"]["template"]["spec"]["containers"][1]["image"] = "docker.io/library/redis:8.0.2"
    return list(sets.values())


def _owned() -> list[Object]:
    sets = both(pair.app())
    owner = {"kind": "RedisFailover", "name": "r", "uid": "u", "controller": True}
    sets["sentinel"]["metadata"]["ownerReferences"] = [owner]
    return list(sets.values())


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (_two({}, {}), "it is not clear which pods of sentinel are its own: watch-a, watch-b"),
        (_alone(), "no StatefulSet beside it runs them: sentinel (3 pods)"),
        (_other_count(), "cache-sentinel has 5 members, and git says 3"),
        (_other_size(), "cpu is 2, and git says 50m"),
        (_other_version(), "its members run two versions"),
        (_owned(), "it is run by RedisFailover r"),
    ],
)
def test_stateful_sets_that_are_not_one_app_are_a_problem_that_says_why(sets: list[Object], words: str) -> None:
    problem = judged(sets)
    assert isinstance(problem, Problem), problem
    assert words in problem.message


def test_a_part_of_an_app_is_no_finding_of_its_own_unless_it_belongs_to_none() -> None:
    candidate = judged(list(both(pair.app()).values()))
    assert isinstance(candidate, Candidate)
    alone = Problem("roles", "its pods are sentinel of Pair, and no such app is beside them")
    app = AdoptionFinding("shop", "redis-node", "pair", "a sign", candidate)
    part = AdoptionFinding("shop", "cache-sentinel", "pair", "a sign", problem=alone, role="sentinel")
    assert leave_out_parts([app, part]) == [app]
    assert leave_out_parts([part]) == [part]


def test_a_program_that_runs_anything_is_no_sign_of_an_engine() -> None:
    class Shell(OpenPair):
        roles = (replace(NODE, command=("/bin/sh", "-c", "run"), certificates={}),)

    found = both(pair.app())[""]
    container = found["spec"]["template"]["spec"]["containers"][1]
    container["command"] = ["/bin/sh", "-c", "sleep 9"]
    discovery = Shell().discovery()
    assert discovery is not None
    container["image"] = "docker.io/library/busybox:1"
    found["spec"]["template"]["spec"]["containers"] = [container]
    assert discovery.recognises(found, nothing_found) is None
    container["image"] = "registry.example/redis:7.4.2"
    assert discovery.recognises(found, nothing_found) == "container redis runs Pair"


def test_a_type_whose_members_ask_who_connects_is_not_known_by_objects_alone() -> None:
    assert pair.PAIR.discovery() is None
    assert not pair.PAIR.caps.adopt
    assert PAIR.caps.adopt
