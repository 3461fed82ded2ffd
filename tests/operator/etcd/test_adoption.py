"""Who is taken over, who is refused and why, and in which order it is written: decisions over drawn worlds."""

from __future__ import annotations

import copy
import datetime
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest
from fleet_operator.core.foreign import is_claim_of
from fleet_operator.core.release import is_abandoned, is_asked

from fleet.apps.etcd import Etcd
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.adoption import known
from fleet.apps.etcd.engine.observe import EtcdObservation, make_observation
from fleet.apps.etcd.engine.protocol import Member, MemberStatus
from fleet.kit.adoption.convergence import conditions
from fleet.kit.adoption.hold import before
from fleet.kit.adoption.takeover import place_app
from fleet.kit.observe.world import World
from fleet.kit.step import Decision, Take
from fleet.kit.workload.template import mark_of
from tests.operator.etcd.observations import applied, decided, said
from tests.operator.etcd.under_test import ETCD
from tests.operator.existing_setups import SET_UPS, SetUp

Object = dict[str, Any]
CLUSTER = 0xC1
OWNED: Object = {"f:spec": {"f:updateStrategy": {"f:type": {}, "f:rollingUpdate": {"f:partition": {}}}}}
OFFICIAL = "quay.io/coreos/etcd:v3.4.1"
POLICY: Object = {"f:persistentVolumeClaimRetentionPolicy": {"f:whenDeleted": {}, "f:whenScaled": {}}}
IMAGES = {"etcd": ETCD.image}


@dataclass
class Found:
    """A set-up that runs, and what git says of it; tests change either."""

    set_up: SetUp = SET_UPS["plain"]
    spec: dict[str, Any] = field(default_factory=dict)
    clusters: dict[str, int] = field(default_factory=dict)
    version: str = "3.4.23"
    silent: frozenset[str] = frozenset()
    strangers: tuple[Member, ...] = ()
    written: list[Object] = field(default_factory=list)
    roll: str = ""
    rolled: frozenset[str] = frozenset()  # pods that were made anew, with the template that the set has now

    def __post_init__(self) -> None:
        self.set = self.set_up.stateful()
        manager = self.set_up.manager or "kubectl-client-side-apply"
        entries = [{"manager": manager, "fieldsV1": OWNED}]
        self.set["metadata"] |= {"uid": "u1", "resourceVersion": "7", "managedFields": entries}
        self.set["spec"].setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        self.set["status"] = {"currentRevision": "r1", "updateRevision": "r1"}
        self.pods = [f"{self.set_up.stateful_set}-{number}" for number in range(3)]

    @property
    def app(self) -> Etcd:
        spec = {**self.set_up.wanted(f"{CLUSTER:x}"), **self.spec}
        metadata = {"name": "kept", "namespace": "default", "annotations": {"fleet.dev/roll": self.roll}}
        return Etcd.from_manifest(
            {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": metadata, "spec": spec}
        )

    def seen(self) -> EtcdObservation:
        others = [
            {**one, "metadata": {**one["metadata"], "namespace": "default"}}
            for one in self.set_up.documents("default")
            if one["kind"] == "ConfigMap"
        ]
        certificates = {name: b64encode(b"x").decode() for name in ("ca.crt", "tls.crt", "tls.key")}
        others += [
            {"kind": "Secret", "metadata": {"name": f"kv-{what}-tls"}, "data": certificates}
            for what in ("client", "peer")
        ]
        pods = [self._pod(name) for name in self.pods]
        world = World.of([self.set, *pods, *others, *self.written], frozenset({"n"}), World({}).now)
        made = place_app(DRIVER, self.app, world)
        answered = [name for name in self.pods if name not in self.silent]
        statuses = {} if made.unfit else {name: self._status(name) for name in answered}
        members = (*(self._member(name) for name in self.pods), *self.strangers) if statuses else None
        why = dict.fromkeys(self.silent, "no answer in 2 s")
        seen = make_observation(made.app, world, made.ledger, statuses, silent=why, members=members)
        return known(made, replace(seen, unfit=made.unfit))

    def decision(self) -> Decision:
        return decided(self.seen(), IMAGES)

    def taken(self) -> Self:
        """As it is once every step was carried out."""
        for _ in range(5):
            decision = self.decision()
            if decision.reason != "Adopting":
                return self
            for step in decision.steps:
                self.carry_out(step)
        raise AssertionError(decision)

    def carry_out(self, step: Any) -> None:
        if isinstance(step, Take):
            assert step.manifest is not None
            self.set["metadata"]["labels"] = {
                **(self.set["metadata"].get("labels") or {}),
                **step.manifest["metadata"]["labels"],
            }
            self.set["metadata"]["annotations"] = step.manifest["metadata"]["annotations"]
            self.set["spec"] |= step.manifest["spec"]
            entries = [one for one in self.set["metadata"]["managedFields"] if one["manager"] not in step.take_from]
            self.set["metadata"]["managedFields"] = [*entries, {"manager": "fleet-operator", "fieldsV1": OWNED}]
        elif step.manifest["kind"] == "ConfigMap":
            self.written = [step.manifest]
        elif step.manifest["kind"] == "StatefulSet":
            self.set["spec"] = copy.deepcopy(step.manifest["spec"])

    def _pod(self, name: str) -> Object:
        template = (self.set if name in self.rolled else self.set_up.stateful())["spec"]["template"]
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        containers = [{"name": one["name"], "state": {"running": {}}} for one in template["spec"]["containers"]]
        return {
            "kind": "Pod",
            "metadata": {"name": name, "uid": name, **template["metadata"]},
            "spec": template["spec"],
            "status": {**status, "containerStatuses": containers},
        }

    def _member(self, name: str) -> Member:
        host = self.set_up.host.format(pod=name, namespace="default")
        scheme, port = "https" if self.set_up.tls else "http", self.set_up.port
        urls = (f"{scheme}://{host}:{port + 1}",), (f"{scheme}://{host}:{port}",)
        return Member(0x10 + int(name[-1]), name, *urls, is_learner=False)

    def _status(self, name: str) -> MemberStatus:
        cluster, member = self.clusters.get(name, CLUSTER), 0x10 + int(name[-1])
        return MemberStatus(cluster, member, 0x10, self.version, 100, 100, 2, 1000, 900, is_learner=False, errors=())


@pytest.mark.parametrize("set_up", SET_UPS.values(), ids=SET_UPS)
def test_taking_over_is_three_writes_and_none_of_them_touches_a_template(set_up: SetUp) -> None:
    found = Found(set_up)
    before, steps = copy.deepcopy(found.set["spec"]), []
    while (decision := found.decision()).reason == "Adopting":
        steps += [said(one) for one in decision.steps]
        for one in decision.steps:
            if isinstance(one, Take):
                assert one.manifest is not None
                assert list(one.manifest["spec"]) == ["updateStrategy"]
            found.carry_out(one)
    wanted = ["apply ConfigMap kept-members", f"take StatefulSet {set_up.stateful_set}", "apply ConfigMap kept-members"]
    assert steps == wanted
    assert {**found.set["spec"], "updateStrategy": None} == {**before, "updateStrategy": None}
    assert found.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3
    assert decision.reason == "Healthy"
    assert [one[:3] for one in conditions(found.seen())] == [
        ("Adopted", "True", "TakenOver"),
        ("Converged", "False", "NextRoll"),
    ]


def _owned(found: Found) -> None:
    owner = {"kind": "EtcdCluster", "name": "main", "controller": True}
    found.set["metadata"]["ownerReferences"] = [owner]


def _another(found: Found) -> None:
    found.clusters = dict.fromkeys(found.pods, 0xDD)


def _not_taken(found: Found) -> None:
    found.spec = {"adopt": {**found.set_up.wanted("c1")["adopt"], "takeFrom": []}}


def _claimed(found: Found) -> None:
    found.set["metadata"]["labels"] = {"fleet.dev/app": "other", "fleet.dev/kind": "Etcd"}


def _updating(found: Found) -> None:
    found.set["status"]["updateRevision"] = "r2"


def _with_option(found: Found) -> None:
    found.spec = {"config": {**found.set_up.wanted("c1")["config"], "options": {"max-wals": "9"}}}


def _claimed_less(found: Found) -> None:
    size = {"resources": {"requests": {"storage": "256Mi"}}}
    found.written = [
        {"kind": "PersistentVolumeClaim", "metadata": {"name": f"data-{pod}"}, "spec": size} for pod in found.pods
    ]
    found.spec = {"storage": "9Gi"}


def _other_program(found: Found) -> None:
    found.set["spec"]["template"]["spec"]["containers"][0]["command"] = ["redis-server"]


def _strange(found: Found) -> None:
    found.strangers = (Member(0x99, "other-0", ("http://other-0.other:2380",), (), is_learner=False),)


REFUSALS: dict[str, tuple[Callable[[Found], object], str, str]] = {
    "wrong identity": (_another, "OtherCluster", "git means cluster c1"),
    "split brain": (lambda one: one.clusters.update({one.pods[1]: 0xDD}), "SplitBrain", "etcd-1 of dd"),
    "two candidates": (_strange, "CannotAdopt", "members of several StatefulSets"),
    "a living operator": (_owned, "OwnedByAnotherOperator", "run by EtcdCluster main"),
    "another engine": (_other_program, "CannotAdopt", "no container starts etcd"),
    "another app's": (_claimed, "ClaimedByAnother", "belongs to the app other"),
    "version out of range": (lambda one: setattr(one, "version", "3.3.27"), "VersionOutOfRange", "etcd 3.3 runs"),
    "another version": (lambda one: one.spec.update(version="3.5"), "NotAsDescribed", "take it over as it is first"),
    "other members": (lambda one: one.spec.update(members=5), "NotAsDescribed", "has 3 members, and git says 5"),
    "other TLS": (lambda one: one.spec.update(tls={"enabled": True}), "NotAsDescribed", "TLS(enabled=False)"),
    "another manager's": (_not_taken, "ManagedByOthers", "take_from=['kubectl-client-side-apply']"),
    "another setting": (lambda one: one.spec.update(config={}), "NotAsDescribed", "heartbeat-interval is 150, and git"),
    "an option": (_with_option, "NotAsDescribed", "max-wals is not set, and git says 9"),
    "other resources": (lambda one: one.spec.update(resources={"cpu": "1"}), "NotAsDescribed", "cpu is 200m, and"),
    "another image": (lambda one: one.spec.update(image="mine:3.4"), "NotAsDescribed", "runs, and git says mine:3.4"),
    "another patch": (lambda one: one.spec.update(version="3.4.1", image=OFFICIAL), "NotAsDescribed", OFFICIAL),
    "larger volumes": (_claimed_less, "NotAsDescribed", "volumes have 256Mi, and git says 9Gi"),
    "an update under way": (_updating, "UpdateUnderWay", "two revisions"),
    "other numbers": (lambda one: one.set["spec"].update(ordinals={"start": 1}), "CannotAdopt", "numbered from 1 on"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_who_is_not_certainly_meant_is_refused_with_the_reason_and_nothing_is_done(case: str) -> None:
    change, reason, words = REFUSALS[case]
    found = Found()
    change(found)
    decision = found.decision()
    assert (decision.reason, decision.steps) == (reason, ()), decision
    assert words in decision.message
    assert conditions(found.seen())[0][:2] == ("Adopted", "False")


def test_who_does_not_answer_is_waited_for() -> None:
    found = Found(silent=frozenset({"etcd-2"}))
    assert found.decision().steps == ()
    assert "etcd-2: no answer" in found.decision().message
    nothing = Found()
    nothing.set["metadata"]["name"] = "other"
    assert nothing.decision().reason == "NothingToAdopt"


def test_what_git_says_anew_brings_the_first_roll_and_with_it_files_and_labels() -> None:
    found = Found(SET_UPS["sidecars"]).taken()
    assert found.decision().reason == "Healthy"
    found.spec = {"config": {"heartbeatMs": 200, "electionMs": 2000}}
    assert [said(one) for one in found.decision().steps] == ["apply ConfigMap kept-members"]
    found.carry_out(found.decision().steps[0])
    made = applied(found.decision(), "StatefulSet")
    template = made["spec"]["template"]
    assert [one["name"] for one in template["spec"]["containers"]] == ["announcer", "member"]
    member = template["spec"]["containers"][1]
    assert member["image"] == found.set_up.stateful()["spec"]["template"]["spec"]["containers"][1]["image"]
    file = member["args"][0].rpartition("/")[2].replace("$(FLEET_POD)", "etcd-1")
    text = found.written[0]["data"][file]
    assert "heartbeat-interval: 200" in text
    assert "data-dir: /var/lib/etcd/data" in text
    assert "initial-advertise-peer-urls: http://etcd-1.etcd:2380" in text
    assert template["metadata"]["labels"] == {"app": "etcd", "fleet.dev/app": "kept", "fleet.dev/kind": "Etcd"}
    assert mark_of(template)
    assert made["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3


def test_a_roll_by_hand_does_the_same_with_nothing_else_changed() -> None:
    found = Found().taken()
    found.roll = "2026-01-01T00:00:00Z"
    made = applied(found.decision(), "StatefulSet")
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["/usr/bin/etcd"]
    assert container["image"] == found.set_up.stateful()["spec"]["template"]["spec"]["containers"][0]["image"]


def test_more_members_wait_for_the_first_roll_and_say_so() -> None:
    found = Found().taken()
    found.spec = {"members": 5}
    decision = found.decision()
    assert (decision.reason, decision.steps) == ("NeedsRoll", ())
    assert "fleet roll kept" in decision.message


def test_more_members_that_are_wanted_with_the_first_roll_wait_until_it_is_through() -> None:
    """A pod that is made meanwhile is held at the template of others, with which nobody can join."""
    found = Found().taken()
    found.spec, found.roll = {"members": 5}, "2026-01-01T00:00:00Z"
    for step in (*found.decision().steps, *found.decision().steps):
        found.carry_out(step)
    template = found.set["spec"]["template"]
    assert mark_of(template)
    found.set["status"]["updateRevision"] = "r2"
    for pods in (0, 1, 2):
        found.rolled = frozenset(found.pods[3 - pods :])
        assert found.decision().reason == "Rolling", found.decision()
    found.rolled = frozenset(found.pods)
    found.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0
    assert found.decision().reason == "Rolling", "its controller has not said yet that all are through"
    found.set["status"]["currentRevision"] = "r2"
    assert found.decision().reason == "ScalingOut"


def test_a_volume_that_others_left_behind_is_neither_used_nor_deleted() -> None:
    found = Found().taken()
    found.roll = "2026-01-01T00:00:00Z"
    for step in (*found.decision().steps, *found.decision().steps):
        found.carry_out(step)
    found.rolled, found.spec = frozenset(found.pods), {"members": 5}
    assert found.decision().reason == "ScalingOut"
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-etcd-3", "uid": "c3"}}
    found.written.append(claim)
    decision = found.decision()
    assert (decision.reason, decision.steps) == ("OldVolume", ())
    assert "data-etcd-3" in decision.message


def test_claims_are_those_of_a_set_whatever_pods_it_has_now() -> None:
    found = Found().set
    assert is_claim_of(found, "data-etcd-0")
    assert is_claim_of(found, "data-etcd-7")
    assert not [
        name for name in ("data-etcd-x", "data-etcd", "data-etcd-b-0", "other-etcd-0") if is_claim_of(found, name)
    ]


def test_fewer_members_do_not() -> None:
    found = Found().taken()
    found.spec = {"members": 1}
    assert [said(one) for one in found.decision().steps] == ["remove 12"]


def test_a_set_that_is_gone_is_not_made_anew_from_a_guess() -> None:
    found = Found().taken()
    found.set = replace(found).set
    found.set["metadata"]["name"] = "elsewhere"
    assert found.decision().reason == "SetGone"


def test_what_was_not_taken_over_yet_goes_on_when_its_resource_is_deleted() -> None:
    """Half taken over it is others' still: deleting the resource must not delete what they made."""

    def found(*conditions: tuple[str, str], **annotations: str) -> Object:
        told = [{"type": kind, "status": value} for kind, value in conditions]
        return {"metadata": {"annotations": annotations}, "spec": {"adopt": {}}, "status": {"conditions": told}}

    assert is_asked(found())
    assert is_asked(found(("Adopted", "False")))
    assert not is_asked(found(("Adopted", "True")))
    assert is_asked(found(("Adopted", "True"), **{"fleet.dev/on-delete": "release"}))
    assert not is_asked({"metadata": {}, "spec": {}})


def test_a_word_that_it_is_to_be_given_back_is_not_meant_for_ever() -> None:
    """A command that is killed before it deletes leaves it behind; one that a person wrote stays."""

    def said(**annotations: str) -> Object:
        return {"metadata": {"annotations": {"fleet.dev/on-delete": "release", **annotations}}}

    now = datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.UTC)
    assert not is_abandoned(said(), now)
    assert not is_abandoned(said(**{"fleet.dev/on-delete-since": "2026-01-01T11:30:00Z"}), now)
    assert is_abandoned(said(**{"fleet.dev/on-delete-since": "2026-01-01T10:30:00Z"}), now)


def test_a_template_of_others_is_changed_only_when_git_says_whose_it_may_be_taken_from() -> None:
    found = Found().taken()
    found.set["metadata"]["managedFields"].append({"manager": "tuner", "fieldsV1": {"f:spec": {"f:template": {}}}})
    assert found.decision().reason == "Healthy"
    found.roll = "now"
    decision = found.decision()
    assert (decision.reason, decision.steps) == ("ManagedByOthers", ())
    assert "take_from=['tuner']" in decision.message
    found.spec = {"adopt": {**found.set_up.wanted("c1")["adopt"], "takeFrom": ["tuner"]}}
    (step,) = found.decision().steps
    assert isinstance(step, Take)
    assert (step.manifest, step.take_from) == (None, ("tuner",))


def test_what_carries_a_mark_of_ours_from_before_is_not_rolled_for_it() -> None:
    """It was given back after a roll, and is taken over again."""
    found = Found()
    found.set["spec"]["template"]["metadata"]["annotations"] = {"fleet.dev/template": "0123456789"}
    found.taken()
    assert found.decision().reason == "Healthy"
    assert conditions(found.seen())[1][:3] == ("Converged", "False", "NextRoll")


def _rolled_and_given_back() -> Found:
    """Its template mounts the ConfigMap that the operator made, with the ledger of then on it."""
    found = Found().taken()
    found.roll = "2026-01-01T00:00:00Z"
    for step in (*found.decision().steps, *found.decision().steps):
        found.carry_out(step)
    found.rolled = frozenset(found.pods)
    assert found.decision().reason == "Healthy"
    found.roll = ""
    del found.set["metadata"]["labels"]
    found.set["metadata"]["managedFields"] = []
    found.set["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    del found.written[0]["metadata"]["labels"]
    found.written[0]["metadata"]["annotations"]["fleet.dev/released"] = "Etcd/kept"
    return found


def test_what_was_rolled_and_given_back_is_compared_again_when_it_is_taken_over_again() -> None:
    found = _rolled_and_given_back()
    assert conditions(found.seen())[0][:2] == ("Adopted", "False"), "what was noted is of another time"
    found.spec = {"adopt": {**found.set_up.wanted("dd")["adopt"], "takeFrom": []}}
    assert found.decision().reason == "OtherCluster"
    found.spec = {"adopt": {**found.set_up.wanted(f"{CLUSTER:x}")["adopt"], "takeFrom": []}}
    found.taken()
    assert found.set["metadata"]["labels"] == {"fleet.dev/app": "kept", "fleet.dev/kind": "Etcd"}
    assert found.decision().reason == "Healthy", "nobody asked for a restart"


def test_claims_that_would_go_with_their_set_stay_while_it_is_an_apps_and_only_then() -> None:
    found = Found()
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    found.set["spec"] |= {"persistentVolumeClaimRetentionPolicy": policy, "updateStrategy": {"type": "OnDelete"}}
    found.set["metadata"]["managedFields"].append({"manager": "chart", "fieldsV1": {"f:spec": POLICY}})
    assert found.decision().reason == "ManagedByOthers"
    assert "keeps its volumes is managed by chart" in found.decision().message
    found.spec = {"adopt": {**found.set_up.wanted("c1")["adopt"], "takeFrom": ["chart", "kubectl-client-side-apply"]}}
    found.taken()
    kept = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert found.set["spec"]["persistentVolumeClaimRetentionPolicy"] == kept
    assert found.decision().reason == "Healthy"
    as_found = {"persistentVolumeClaimRetentionPolicy": policy, "updateStrategy": {"type": "OnDelete"}}
    assert before(found.set) == as_found
    found.set["metadata"]["generation"], found.set["status"]["observedGeneration"] = 5, 4
    assert "updateStrategy" not in before(found.set), "its controller may not know yet that there are two revisions"
