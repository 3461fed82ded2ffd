"""A change that a member needs to start at all reaches it first, and nobody who serves is stopped for it. Data alone.

Each danger stands beside its near neighbours: whoever may be running is waited for, as ever.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from fleet import Resources
from fleet.apps import Etcd
from fleet.apps.etcd.engine.observe import members_of, statuses_of
from fleet.kit.step import Decision, State
from tests.operator.etcd.observations import Drawing, app, applied, before, decided, member_id, reobserved, said
from tests.operator.etcd.test_adoption import IMAGES, Found
from tests.operator.etcd.test_decide import NO_DATA, PODS

MORE = app(resources=Resources(memory="2Gi"))
OUT_OF_MEMORY = "Killed"
ON_DELETE = {"type": "OnDelete"}


def down(*pods: str, wanted: Etcd = MORE, ran: Etcd | None = None) -> Drawing:
    """Those crash, and git says something about it."""
    drawing = Drawing(app=wanted, ran=ran or app())
    for pod in pods:
        drawing.crash(pod, OUT_OF_MEMORY)
    if len(pods) > 1:
        drawing.no_majority()
        for pod in PODS:
            drawing.unready(pod)
    return drawing


def begun(drawing: Drawing, *through: str) -> Drawing:
    """The StatefulSet has the template, for whoever is deleted; those pods were made with it and start."""
    statuses, pods = dict(drawing.statuses), dict(drawing.pods)
    for pod in through:
        drawing.statuses[pod] = Drawing().statuses[pod]
    drawing.roll(*through)
    drawing.statuses = statuses
    for pod in through:
        drawing.unready(pod, since=1)
        drawing.pods[pod]["metadata"]["creationTimestamp"] = before(1)
    assert drawing.set is not None and all(drawing.pods[pod] is pods[pod] for pod in PODS if pod not in through)
    drawing.set["spec"]["updateStrategy"] = dict(ON_DELETE)
    return drawing


def strategy(decision: Decision) -> object:
    return applied(decision, "StatefulSet")["spec"]["updateStrategy"]


@pytest.mark.parametrize("pods", [("db-2",), ("db-0",), ("db-1", "db-0"), PODS], ids=" ".join)
def test_members_that_cannot_start_get_the_change_first_and_those_that_run_are_left_alone(
    pods: tuple[str, ...],
) -> None:
    drawing = down(*pods)
    decision = drawing.decision()
    assert (decision.state, decision.reason) == (State.DEGRADED, "Reviving")
    assert strategy(decision) == ON_DELETE, "with a partition the highest would be stopped first"
    made = applied(decision, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert made["requests"]["memory"] == "2Gi"
    begun(drawing)
    assert sorted(drawing.steps()) == sorted(f"delete Pod {pod}" for pod in pods)


def test_nobody_is_deleted_before_the_stateful_sets_controller_knows_the_template() -> None:
    drawing = begun(down("db-0"))
    assert drawing.set is not None
    drawing.set["metadata"]["generation"], drawing.set["status"]["observedGeneration"] = 3, 2
    assert (drawing.decision().reason, drawing.steps()) == ("Reviving", [])
    drawing.set["status"]["observedGeneration"] = 3
    assert drawing.steps() == ["delete Pod db-0"]


def test_every_pod_is_held_again_when_the_last_one_is_made_anew_and_not_before() -> None:
    drawing = begun(down("db-0")).remove_pod("db-0")
    assert drawing.steps() == [], "held now, it would be made with the template of before"
    drawing = begun(down("db-0"), "db-0")
    assert strategy(drawing.decision()) == {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
    drawing.set["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}  # type: ignore[index]
    assert (drawing.decision().reason, drawing.steps()) == ("Rolling", []), "the others wait until it is well"
    drawing.statuses["db-0"] = Drawing().statuses["db-0"]
    drawing.unready("db-0", ready=True)
    drawing.leader = 1
    drawing.statuses = {pod: replace(one, leader=member_id(1)) for pod, one in drawing.statuses.items()}
    assert applied(drawing.decision(), "StatefulSet")["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 2}


def test_a_member_that_no_node_has_room_for_is_one_that_cannot_start() -> None:
    drawing = Drawing(app=MORE, ran=app()).silence("db-1")
    del drawing.silent["db-1"]
    drawing.pods["db-1"]["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    assert strategy(drawing.decision()) == ON_DELETE
    drawing.pods["db-1"]["status"] = {"phase": "Pending"}
    assert (drawing.decision().reason, drawing.steps()) == ("Waiting", []), "nobody has looked for a node yet"


def test_whoever_may_be_running_is_waited_for() -> None:
    silent = Drawing(app=MORE, ran=app()).silence("db-2")
    assert (silent.decision().reason, silent.steps()) == ("Waiting", [])
    twice = Drawing(app=MORE, ran=app()).crash("db-2", OUT_OF_MEMORY, restarts=1)
    assert (twice.decision().reason, twice.steps()) == ("Waiting", []), "it may start the next time"
    answers = Drawing(app=MORE, ran=app()).crash("db-2", OUT_OF_MEMORY)
    answers.statuses["db-2"] = Drawing().statuses["db-2"]
    assert (answers.decision().reason, answers.steps()) == ("Waiting", []), "its kubelet is late"
    leaving = Drawing(app=MORE, ran=app()).crash("db-2", OUT_OF_MEMORY)
    leaving.pods["db-2"]["metadata"]["deletionTimestamp"] = before(1)
    assert leaving.steps() == []
    gone = Drawing(app=MORE, ran=app()).remove_pod("db-2")
    assert (gone.decision().reason, gone.steps()) == ("Waiting", [])


def test_while_git_says_nothing_new_they_are_waited_for_and_a_lost_majority_is_reported() -> None:
    assert down("db-2", wanted=app()).steps() == []
    lost = down(*PODS, wanted=app()).decision()
    assert (lost.reason, lost.steps) == ("QuorumLost", ())
    assert "change it" in lost.message


def test_data_that_is_lost_is_not_mended_by_a_template() -> None:
    drawing = Drawing(app=MORE, ran=app()).crash("db-2", NO_DATA)
    assert drawing.steps() == [f"remove {member_id(2):x}"]


def test_what_failed_before_is_not_tried_again() -> None:
    drawing = down("db-2")
    mark = applied(drawing.decision(), "StatefulSet")["spec"]["template"]["metadata"]["annotations"][
        "fleet.dev/template"
    ]
    drawing.note(failed=mark, failure="new configuration: db-2 does not start")
    assert (drawing.decision().reason, drawing.steps()) == ("RollFailed", [])


def test_a_template_that_does_not_help_is_given_up_and_taken_back() -> None:
    drawing = begun(down("db-0"), "db-0").crash("db-0", OUT_OF_MEMORY)
    assert (drawing.decision().reason, drawing.steps()) == ("RollFailed", ["apply ConfigMap db-members"])


@pytest.mark.parametrize(
    ("ran", "wanted", "pods", "revived"),
    [
        ("3.4", "3.5", ("db-2",), True),  # as the roll would take it there
        ("3.4", "3.6", ("db-2",), True),  # by way of 3.5
        ("3.6", "3.5", ("db-2",), False),  # its data would have to be written anew by the version that it has
        ("3.4", "3.5", PODS, False),  # nobody is there to say what they run
        ("3.4", "3.6", PODS, False),
        ("3.5", "3.5.31", PODS, True),
    ],
)
def test_a_version_is_only_changed_as_far_as_data_is_known_to_go(
    ran: str, wanted: str, pods: tuple[str, ...], revived: bool
) -> None:
    drawing = down(*pods, wanted=app(version=wanted, resources=Resources(memory="2Gi")), ran=app(version=ran))
    assert (drawing.decision().reason == "Reviving") is revived
    if not revived:
        assert drawing.steps() == []


def test_members_that_others_set_up_get_it_too_once_their_files_are_there_and_the_template_is_ours_to_change() -> None:
    found = Found().taken()
    found.spec = {**found.spec, "config": {"heartbeatMs": 200, "electionMs": 2000}}
    seen = found.seen()
    crashed = seen.world.objects["Pod"]["etcd-0"]
    ended = {"name": found.set_up.container, "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status = {**crashed["status"], "conditions": [], "containerStatuses": [ended]}
    pods = {**seen.world.objects["Pod"], "etcd-0": {**crashed, "status": status}}
    statuses = {pod: one for pod, one in statuses_of(seen).items() if pod != "etcd-0"}
    world = replace(seen.world, objects={**seen.world.objects, "Pod": pods})
    down = reobserved(seen, world, statuses, members_of(seen))
    assert [said(one) for one in decided(down, IMAGES).steps] == ["apply ConfigMap kept-members"]
    files = applied(decided(down, IMAGES), "ConfigMap")
    maps = {**down.world.objects["ConfigMap"], "kept-members": files}
    down = replace(down, world=replace(down.world, objects={**down.world.objects, "ConfigMap": maps}))
    assert strategy(decided(down, IMAGES)) == ON_DELETE
    owned = {"manager": "helm", "fieldsV1": {"f:spec": {"f:template": {}}}}
    theirs = copy.deepcopy(dict(down.world.objects["StatefulSet"]))
    theirs["etcd"]["metadata"]["managedFields"] = [owned]
    down = replace(down, world=replace(down.world, objects={**down.world.objects, "StatefulSet": theirs}))
    assert decided(down, IMAGES).reason == "ManagedByOthers"
