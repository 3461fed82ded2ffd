"""What the operator decides about an etcd's members, from what it sees: with data alone, no server.

Where something is not certain the answer must be to wait or to ask, so each danger stands beside its near neighbours.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from fleet import Volume
from fleet.apps import Etcd
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.protocol import Alarm, Member
from fleet.apps.etcd.files import quota
from fleet.kit.members import LEDGER, MemberRecord, founders, read
from fleet.kit.step import Object, State
from fleet.text import without_output
from tests.operator.etcd.observations import CLUSTER, IMAGES, Drawing, app, applied, before, decided, file, member_id

NO_DATA = '{"level":"fatal","msg":"discovery failed","error":"couldn\'t find local name \\"db-2\\" in the cluster"}'
TORN = '{"level":"panic","msg":"failed to read WAL, cannot be repaired","error":"wal: crc mismatch"}'
DATA = "/var/lib/etcd/member"
OUT_OF_REACH = (  # data that cannot be got at may be as good as ever
    f'{{"level":"fatal","msg":"failed to save","error":"write {DATA}/wal/0-0.wal: no space left on device"}}',
    '{"level":"panic","msg":"failed to create new WAL","error":"new WAL: no space left on device"}',
    f'{{"level":"fatal","msg":"discovery failed","error":"open {DATA}/wal: permission denied"}}',
    f'{{"level":"fatal","msg":"failed to open WAL","error":"read {DATA}/wal/0-0.wal: input/output error"}}',
    '{"level":"fatal","msg":"failed to open WAL","error":"fileutil: file already locked"}',
    f'{{"level":"panic","msg":"failed to open database","error":"open {DATA}/snap/db: read-only file system"}}',
    f'{{"level":"fatal","msg":"failed to read WAL","error":"open {DATA}/wal: too many open files"}}',
    f'{{"level":"panic","msg":"failed to recover from snap","error":"mmap {DATA}/snap/db: cannot allocate memory"}}',
    f'{{"level":"panic","msg":"failed to verify db","error":"lock {DATA}/snap/db: resource temporarily unavailable"}}',
    f'{{"level":"panic","msg":"failed to open","error":"open {DATA}/snap: a way to fail that nobody has thought of"}}',
)
FIVE = app(members=5)
PODS = ("db-0", "db-1", "db-2")


def test_a_cluster_that_is_well_is_left_alone() -> None:
    decision = Drawing().decision()
    assert (decision.state, decision.reason, decision.steps) == (State.OK, "Healthy", ())
    assert decision.message == "3 members of etcd 3.5.16 in step, db-0 leads"


# Nothing certain is known


@pytest.mark.parametrize("wanted", [app(members=1), app(members=5), app(config={"log_level": "warn"})])
def test_without_a_majority_nothing_is_added_removed_or_rolled(wanted: Etcd) -> None:
    drawing = Drawing(app=wanted, ran=app()).no_majority("db-1", "db-2")
    assert (drawing.decision().reason, drawing.steps()) == ("QuorumLost", [])


@pytest.mark.parametrize("words", [NO_DATA, TORN])
def test_without_a_majority_a_member_with_spoiled_data_is_not_removed(words: str) -> None:
    drawing = Drawing().no_majority("db-1").crash("db-2", words)
    assert (drawing.decision().reason, drawing.steps()) == ("QuorumLost", [])


def test_members_that_cannot_be_reached_while_the_kubelet_calls_them_ready_are_left_alone() -> None:
    """It is the operator that is cut off, not etcd."""
    drawing = Drawing(app=app(members=1), ran=app()).no_majority(*PODS, ready=True)
    assert drawing.steps() == []
    assert (drawing.decision().state, drawing.decision().reason) == (State.UNCERTAIN, "Unreachable")
    assert drawing.seen().is_served is None


def test_one_member_that_is_silent_is_waited_for() -> None:
    decision = Drawing().silence("db-2").decision()
    assert (decision.state, decision.reason, decision.steps) == (State.DEGRADED, "MembersUnwell", ())
    assert decision.message == "db-2: no answer in 2 s"


def test_a_pod_that_is_gone_is_the_stateful_sets_to_bring_back() -> None:
    assert Drawing().remove_pod("db-2").steps() == []


# Another cluster's data


def test_a_member_of_another_cluster_blocks_everything() -> None:
    drawing = Drawing(app=app(members=1), ran=app())
    drawing.statuses["db-2"] = replace(drawing.statuses["db-2"], cluster_id=0xBAD)
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "OtherCluster", ())
    assert "db-2 belong to another etcd cluster than c1" in decision.message


def test_founders_with_volumes_of_different_clusters_are_not_settled() -> None:
    drawing = Drawing()
    drawing.ledger = founders(PODS)
    drawing.statuses["db-2"] = replace(drawing.statuses["db-2"], cluster_id=0xBAD)
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "OtherCluster", ())


def test_members_that_somebody_else_added_are_not_removed() -> None:
    drawing = Drawing(app=app(members=1), ran=app())
    assert drawing.members is not None
    drawing.members.append(Member(0x99, "theirs", ("https://elsewhere.example:2380",), (), is_learner=False))
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "UnknownMember", ())


# Founding


def test_a_new_app_begins_with_its_ledger_and_files_before_any_member() -> None:
    drawing = Drawing()
    drawing.ledger, drawing.set, drawing.members = None, None, None
    drawing.pods, drawing.claims, drawing.statuses = {}, {}, {}
    written = applied(drawing.decision(), "ConfigMap")
    ledger = read(written["metadata"]["annotations"][LEDGER])
    assert (ledger.identity, {place.phase for place in ledger.places.values()}) == ("", {"founding"})
    drawing.ledger = ledger
    started = applied(drawing.decision(), "StatefulSet")
    assert started["spec"]["replicas"] == 3


def test_founders_are_settled_only_when_all_of_them_are_well() -> None:
    drawing = Drawing()
    drawing.ledger = founders(PODS)
    ledger = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    assert ledger.identity == f"{CLUSTER:x}"
    assert ledger.places == {pod: MemberRecord("settled", f"{member_id(n):x}") for n, pod in enumerate(PODS)}
    assert drawing.silence("db-2").steps() == [], "two of three would serve, and the third could found another"


def test_a_ledger_that_was_deleted_is_written_again_from_what_a_majority_says() -> None:
    drawing = Drawing().silence("db-2")
    drawing.ledger = None
    ledger = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    assert ledger.identity == f"{CLUSTER:x}"
    assert ledger.places == {pod: MemberRecord("settled", f"{member_id(n):x}") for n, pod in enumerate(PODS)}


def test_a_member_that_is_replaced_while_the_ledger_is_deleted_has_a_record_again_and_comes_back() -> None:
    drawing = Drawing().off_the_list("db-1")
    drawing.ledger = None
    decision = drawing.decision()
    assert decision.reason == "Remembering"
    written = applied(decision, "ConfigMap")
    record = read(written["metadata"]["annotations"][LEDGER]).places["db-1"]
    assert (record.phase, record.member) == ("settled", ""), "it must have data, and what it has is of no use"


def test_without_a_ledger_and_a_majority_nobody_may_begin() -> None:
    drawing = Drawing().no_majority("db-1", "db-2")
    drawing.ledger = None
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "LedgerLost", ())


def test_members_of_which_the_ledger_says_nothing_any_more_are_not_begun_a_second_time() -> None:
    drawing = Drawing().note(places={})
    drawing.set, drawing.members = None, None
    drawing.pods, drawing.claims, drawing.statuses = {}, {}, {}
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "LedgerLost", ())


def test_a_stateful_set_that_was_deleted_comes_back_with_every_pod_held_where_it_is() -> None:
    drawing = Drawing(app=app(version="3.5"), ran=app(version="3.4"))
    drawing.set = None
    made = applied(drawing.decision(), "StatefulSet")
    assert (made["spec"]["replicas"], made["spec"]["updateStrategy"]["rollingUpdate"]["partition"]) == (3, 3)


# Replacement


@pytest.mark.parametrize("words", [NO_DATA, TORN])
def test_a_member_whose_last_words_say_that_its_data_is_lost_is_replaced(words: str) -> None:
    decision = Drawing().crash("db-2", words).decision()
    assert decision.reason == "Replacing"
    assert Drawing().crash("db-2", words).steps() == [f"remove {member_id(2):x}"]


def test_a_container_beside_etcds_does_not_hide_what_etcd_said_whatever_its_name() -> None:
    """Kubelets sort the statuses of containers by name, and others put theirs into pods of ours."""
    drawing = Drawing().crash("db-2", TORN)
    beside = {"name": "a-proxy", "restartCount": 0, "state": {"running": {}}}
    drawing.pods["db-2"]["status"]["containerStatuses"].insert(0, beside)
    assert drawing.steps() == [f"remove {member_id(2):x}"]
    running = Drawing().silence("db-2")
    ended = {"name": "a-proxy", "restartCount": 9, "state": {}, "lastState": {"terminated": {"message": TORN}}}
    running.pods["db-2"]["status"]["containerStatuses"].insert(0, ended)
    assert running.steps() == [], "what the other one says is none of etcd's words"


@pytest.mark.parametrize(
    "words",
    [
        "",
        '{"level":"fatal","msg":"listen tcp 0.0.0.0:2380: bind: address already in use"}',
        '{"level":"fatal","msg":"discovery failed","error":"lookup db-2.db-peers.shop.svc: no such host"}',
        '{"level":"info","msg":"opened backend db, wal: 12 entries"}',
        "Killed",
        *OUT_OF_REACH,
    ],
)
def test_a_crash_without_evidence_is_never_a_reason_to_replace(words: str) -> None:
    drawing = Drawing().crash("db-2", words, restarts=50)
    assert (drawing.decision().state, drawing.steps()) == (State.DEGRADED, [])


@pytest.mark.parametrize("words", OUT_OF_REACH)
def test_of_data_that_cannot_be_got_at_people_are_told_why(words: str) -> None:
    decision = Drawing().crash("db-2", words, restarts=50).decision()
    assert (decision.state, decision.reason) == (State.DEGRADED, "MembersUnwell")
    assert words.rpartition('"error":"')[2].removesuffix('"}') in decision.message


@pytest.mark.parametrize("words", ["hunter2", '{"level":"fatal","msg":"hunter2"}', "panic: hunter2"])
def test_what_a_container_prints_is_marked_as_such_for_git_to_leave_it_out(words: str) -> None:
    message = Drawing().crash("db-2", words, restarts=50).decision().message
    assert "hunter2" in message
    assert "hunter2" not in without_output(message)


def test_words_of_one_crash_are_enough_only_if_they_leave_no_doubt() -> None:
    assert Drawing().crash("db-2", TORN, restarts=1).steps() == []
    assert Drawing().crash("db-2", NO_DATA, restarts=1).steps() == [f"remove {member_id(2):x}"]


def test_a_learner_that_started_with_the_file_of_before_is_not_taken_out_for_it() -> None:
    """Its kubelet had the old one: it says what a member without data says, and it has not joined yet."""
    drawing = Drawing().crash("db-2", NO_DATA, restarts=1).learner(2).claim("db-2", uid="new")
    drawing.place("db-2", MemberRecord("joining", f"{member_id(2, 1):x}", PODS, "claim-db-2"))
    assert drawing.steps() == []


def test_a_member_that_runs_again_is_not_replaced_for_what_it_said_before() -> None:
    drawing = Drawing()
    answered = drawing.statuses["db-2"]
    drawing.crash("db-2", NO_DATA)
    drawing.statuses["db-2"] = answered
    assert drawing.steps() == []


def test_etcds_own_word_that_data_is_corrupt_is_enough() -> None:
    assert Drawing().alarm("CORRUPT", member_id(2)).steps() == [f"remove {member_id(2):x}"]


def test_writes_are_let_in_again_when_who_was_corrupt_is_off_the_list_and_before_it_comes_back() -> None:
    drawing = Drawing().alarm("CORRUPT", member_id(2)).off_the_list("db-2")
    assert drawing.steps() == [f"disarm {member_id(2):x}"]
    drawing.alarms = ()
    assert drawing.steps() == ["apply ConfigMap db-members"]


def test_writes_are_not_let_in_while_another_member_is_corrupt() -> None:
    drawing = Drawing(app=FIVE).alarm("CORRUPT", member_id(3), member_id(4)).off_the_list("db-4")
    assert drawing.steps() == [f"remove {member_id(3):x}"]
    assert drawing.off_the_list("db-3").steps() == [f"disarm {member_id(3):x}", f"disarm {member_id(4):x}"]


@pytest.mark.parametrize("ready", [True, False])
def test_a_corrupt_member_stays_while_the_others_do_not_say_that_they_are_a_majority(ready: bool) -> None:
    silent = Drawing().alarm("CORRUPT", member_id(2)).silence("db-1", ready=ready)
    assert (silent.decision().reason, silent.steps()) == ("CannotReplace", [])
    behind = Drawing().alarm("CORRUPT", member_id(2)).unready("db-1", ready=ready)
    behind.statuses["db-1"] = replace(behind.statuses["db-1"], leader=0)
    assert (behind.decision().reason, behind.steps()) == ("CannotReplace", [])
    leaving = Drawing().alarm("CORRUPT", member_id(2)).unready("db-1", ready=ready)
    leaving.pods["db-1"]["metadata"]["deletionTimestamp"] = before(1)
    assert (leaving.decision().reason, leaving.steps()) == ("CannotReplace", [])


def test_corrupt_members_are_no_majority_for_each_other() -> None:
    drawing = Drawing().alarm("CORRUPT", member_id(1), member_id(2))
    assert (drawing.decision().reason, drawing.steps()) == ("CannotReplace", [])


def test_where_etcd_cannot_tell_who_is_corrupt_nobody_is_replaced_and_nothing_disarmed() -> None:
    decision = Drawing().alarm("CORRUPT", 0, member_id(2)).decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "Corrupt", ())


def unscheduled(*terms: Object, age: float = 60) -> Drawing:
    """The pod of db-2 has no node, and its volume the terms by which nodes can use it."""
    drawing = Drawing().silence("db-2").claim("db-2")
    del drawing.silent["db-2"], drawing.pods["db-2"]["spec"]["nodeName"]
    drawing.pods["db-2"]["metadata"]["creationTimestamp"] = before(age)
    drawing.claims["db-2"]["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-9"}
    drawing.claims["db-2"]["spec"]["volumeName"] = "pv-2"
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    drawing.volumes = {"pv-2": {"kind": "PersistentVolume", "metadata": {"name": "pv-2"}, "spec": affinity}}
    return drawing


def on(*values: str, key: str = "kubernetes.io/hostname", operator: str = "In") -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_volume_that_only_nodes_that_are_gone_could_use_is_lost() -> None:
    assert unscheduled(on("node-9")).steps() == [f"remove {member_id(2):x}"]
    assert unscheduled(on("node-8", "node-9"), on("node-7")).steps() == [f"remove {member_id(2):x}"]


@pytest.mark.parametrize(
    "terms",
    [
        (),
        (on("zone-9", key="topology.kubernetes.io/zone"),),
        (on("node-9"), on("zone-9", key="topology.kubernetes.io/zone")),
        (on("node-9", "node-1"),),
        (on("node-9"), on("node-2")),
        (on("node-1", operator="NotIn"),),
        (on(key="kubernetes.io/hostname", operator="Exists"),),
    ],
    ids=["anywhere", "zone", "a zone too", "also there", "or there", "but not there", "on any"],
)
def test_a_volume_that_another_node_may_use_is_never_taken_for_lost(terms: tuple[Object, ...]) -> None:
    """Its claim says on which node it was first needed, which says nothing of where it is."""
    assert unscheduled(*terms).steps() == []


def test_what_is_not_known_for_certain_or_only_since_a_moment_is_no_loss() -> None:
    drawing = unscheduled(on("node-9"))
    drawing.nodes = None
    assert drawing.steps() == [], "which nodes there are is not known"
    drawing.nodes = frozenset({"node-9"})
    assert drawing.steps() == [], "the node is there: its pod is not scheduled for another reason"
    assert unscheduled(on("node-9"), age=20).steps() == [], "it may be known again in a moment"
    drawing = unscheduled(on("node-9"))
    drawing.volumes = {}
    assert drawing.steps() == [], "the volume may not be seen"


def test_a_member_is_not_replaced_when_the_others_are_no_majority() -> None:
    drawing = Drawing().crash("db-2", NO_DATA).unready("db-1")
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "CannotReplace", ())


def test_the_only_member_is_never_removed() -> None:
    drawing = Drawing(app=app(members=1))
    drawing.alarms = (Alarm(member_id(0), "CORRUPT"),)
    assert (drawing.decision().reason, drawing.steps()) == ("CannotReplace", [])


def test_a_member_off_the_list_loses_its_volume_and_pod_before_it_is_announced_again() -> None:
    """And until then its file says that it must have data: what is restarted on the old volume becomes nobody."""
    drawing = Drawing().crash("db-2", NO_DATA).off_the_list("db-2")
    written = applied(drawing.decision(), "ConfigMap")
    assert [one.reason for one in drawing.decision().steps] == ["MemberReplaced"]  # its removal may have been unheard
    left = read(written["metadata"]["annotations"][LEDGER]).places["db-2"]
    assert left == MemberRecord("settled", f"{member_id(2):x}", spoiled="claim-db-2")
    assert "nowhere.invalid" in yaml.safe_load(file(written["data"], app(), "db-2"))["initial-cluster"]
    drawing.place("db-2", left)
    assert drawing.steps() == ["delete PersistentVolumeClaim data-db-2"]
    drawing.claim("db-2", deletionTimestamp=before(1))
    assert drawing.steps() == ["delete Pod db-2"]
    drawing.pods["db-2"]["metadata"]["deletionTimestamp"] = before(1)
    assert drawing.steps() == ["add https://db-2.db-peers.shop.svc:2380"]


def test_the_volume_that_comes_after_the_old_one_is_not_taken_for_it() -> None:
    left = MemberRecord("settled", f"{member_id(2):x}", spoiled="claim-db-2")
    drawing = Drawing().crash("db-2", NO_DATA, restarts=1).off_the_list("db-2")
    drawing.claim("db-2", uid="new").place("db-2", left)
    assert drawing.steps() == ["add https://db-2.db-peers.shop.svc:2380"]
    joining = read(applied(drawing.learner(2).decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    assert joining.places["db-2"] == MemberRecord("joining", f"{member_id(2, 1):x}", PODS, "claim-db-2")
    assert drawing.place("db-2", joining.places["db-2"]).steps() == []


def test_a_volume_that_is_gone_by_itself_is_not_looked_for_in_the_next_one() -> None:
    drawing = Drawing().remove_pod("db-2").off_the_list("db-2")
    claim = drawing.claims.pop("db-2")
    drawing.ledger = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    drawing.claims["db-2"] = claim
    assert drawing.steps() == ["add https://db-2.db-peers.shop.svc:2380"]


def test_a_learner_that_was_taken_out_leaves_its_volume_behind_too() -> None:
    drawing = Drawing().crash("db-2", TORN).off_the_list("db-2").claim("db-2", uid="new")
    drawing.place("db-2", MemberRecord("joining", f"{member_id(2, 1):x}", PODS, "claim-db-2"))
    left = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER]).places["db-2"]
    assert (left.phase, left.spoiled) == ("settled", "new")


def test_the_new_member_is_not_removed_for_the_last_words_of_the_old_one() -> None:
    drawing = Drawing().crash("db-2", NO_DATA).learner(2)
    assert drawing.steps() == ["apply ConfigMap db-members"]


def test_a_learner_that_somebody_else_announced_gets_an_empty_volume_too() -> None:
    drawing = Drawing().crash("db-2", NO_DATA).learner(2)
    ledger = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    place = MemberRecord("joining", f"{member_id(2, 1):x}", PODS, "claim-db-2")
    assert ledger.places["db-2"] == place
    drawing.place("db-2", place)
    assert drawing.steps() == ["delete PersistentVolumeClaim data-db-2"]
    drawing.claim("db-2", deletionTimestamp=before(1))
    assert drawing.steps() == ["delete Pod db-2"]
    drawing.pods["db-2"]["metadata"]["deletionTimestamp"] = before(1)
    assert drawing.steps() == []


def test_the_new_volume_is_kept_though_its_name_is_the_old_ones() -> None:
    drawing = Drawing().remove_pod("db-2").learner(2).claim("db-2", uid="new")
    drawing.place("db-2", MemberRecord("joining", f"{member_id(2, 1):x}", PODS, "claim-db-2"))
    assert drawing.steps() == []


# Joining


def test_there_are_never_two_learners() -> None:
    """Neither for a place that is missing, nor for a scale-out, nor for both."""
    drawing = Drawing(app=FIVE, ran=app()).learner(2).scale(4)
    drawing.place("db-3", MemberRecord("joining", "", (*PODS, "db-3")))
    assert not any(step.startswith("add") for step in drawing.steps())
    drawing.place("db-2", MemberRecord("joining", f"{member_id(2, 1):x}", PODS))
    assert not any(step.startswith("add") for step in drawing.steps())


def test_a_learner_has_its_file_before_it_has_a_pod_and_its_pod_before_its_vote() -> None:
    drawing = Drawing(app=FIVE, ran=app())
    assert drawing.steps() == ["add https://db-3.db-peers.shop.svc:2380"]
    drawing.learner(3)
    written = applied(drawing.decision(), "ConfigMap")
    content = yaml.safe_load(file(written["data"], FIVE, "db-3"))
    assert content["initial-cluster-state"] == "existing"
    assert [one.partition("=")[0] for one in content["initial-cluster"].split(",")] == [*PODS, "db-3"]
    drawing.place("db-3", read(written["metadata"]["annotations"][LEDGER]).places["db-3"])
    raised = applied(drawing.decision(), "StatefulSet")["spec"]
    assert (raised["replicas"], raised["updateStrategy"]["rollingUpdate"]["partition"]) == (4, 4)
    drawing.scale(4)
    assert drawing.steps() == [], "its pod is not there yet"
    drawing.learner(3, started=True)
    assert drawing.steps() == [f"promote {member_id(3, 1):x} db-3"]


def test_a_learner_that_never_started_is_told_anew_when_another_member_is_taken_out() -> None:
    everybody = ("db-0", "db-1", "db-2", "db-3")
    drawing = Drawing(app=app(members=5), ran=app()).learner(3).crash("db-2", NO_DATA).off_the_list("db-2")
    drawing.place("db-3", MemberRecord("joining", f"{member_id(3, 1):x}", everybody))
    decision = drawing.decision()
    assert decision.reason == "Joining"
    written = applied(decision, "ConfigMap")
    record = read(written["metadata"]["annotations"][LEDGER]).places["db-3"]
    assert record.cluster == ("db-0", "db-1", "db-3"), "etcd turns a member away whose file names others than the list"


@pytest.mark.parametrize("wanted", [app(), app(members=1), app(members=5)], ids=["rest", "scale in", "scale out"])
def test_a_list_that_lacks_members_that_serve_takes_nobody_for_gone(wanted: Etcd) -> None:
    drawing = Drawing(app=wanted, ran=app()).off_the_list("db-1").off_the_list("db-2")
    decision = drawing.decision()
    assert (decision.reason, drawing.steps()) == ("ListDoubted", [])
    assert decision.message.startswith("not on the list of members, and serving: db-1, db-2;")
    assert drawing.off_the_list("db-0").steps() == [], "an empty list"


def test_a_claim_that_was_left_behind_is_emptied_before_the_learner_starts() -> None:
    drawing = Drawing(app=FIVE, ran=app()).learner(3).claim("db-3")
    place = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER]).places["db-3"]
    assert place.spoiled == "claim-db-3"
    assert drawing.place("db-3", place).steps() == ["delete PersistentVolumeClaim data-db-3"]


def test_a_claim_that_a_person_wanted_kept_is_not_emptied() -> None:
    wanted = app(members=5, volume=Volume(on_scale_in="keep"))
    drawing = Drawing(app=wanted, ran=app(volume=Volume(on_scale_in="keep"))).claim("db-3")
    assert (drawing.decision().reason, drawing.steps()) == ("OldVolume", [])


def test_more_members_wait_until_all_are_well() -> None:
    drawing = Drawing(app=FIVE, ran=app()).silence("db-1")
    decision = drawing.decision()
    assert (decision.reason, decision.steps) == ("Waiting", ())
    assert "db-1: no answer" in decision.message


def test_a_member_that_votes_is_settled_before_the_next_is_announced() -> None:
    drawing = Drawing(app=FIVE, ran=FIVE).scale(4).off_the_list("db-4").place("db-4", None)
    for known in (drawing.statuses, drawing.pods, drawing.claims):
        del known["db-4"]
    drawing.place("db-3", MemberRecord("joining", f"{member_id(3):x}", (*PODS, "db-3")))
    written = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    assert written.places["db-3"] == MemberRecord("settled", f"{member_id(3):x}")
    drawing.place("db-3", written.places["db-3"])
    assert drawing.steps() == ["add https://db-4.db-peers.shop.svc:2380"]


# Leaving


def test_members_leave_from_the_highest_ordinal_and_etcd_before_pod_before_volume_before_ledger() -> None:
    drawing = Drawing(app=app(), ran=FIVE)
    assert drawing.steps() == [f"remove {member_id(4):x}"]
    drawing.off_the_list("db-4").crash("db-4", "the member has been permanently removed from the cluster")
    lowered = applied(drawing.decision(), "StatefulSet")["spec"]
    assert (lowered["replicas"], lowered["updateStrategy"]["rollingUpdate"]["partition"]) == (4, 4)
    drawing.scale(4)
    assert drawing.steps() == [], "its pod is still there: a claim that is in use would go under it"
    del drawing.pods["db-4"]
    assert drawing.steps() == ["delete PersistentVolumeClaim data-db-4"]
    drawing.claim("db-4", deletionTimestamp=before(1))
    assert drawing.steps() == []
    del drawing.claims["db-4"]
    assert drawing.steps() == ["apply ConfigMap db-members"]
    drawing.place("db-4", None)
    assert drawing.steps() == [f"remove {member_id(3):x}"]


def test_a_leader_that_leaves_hands_over_to_one_that_stays() -> None:
    assert Drawing(app=app(), ran=FIVE, leader=4).steps() == ["lead db-0"]
    assert Drawing(app=app(), ran=FIVE, leader=3).steps() == [f"remove {member_id(4):x}"]


def test_a_removal_that_would_leave_no_majority_is_refused() -> None:
    drawing = Drawing(app=app(), ran=FIVE).silence("db-0", "db-1")
    decision = drawing.decision()
    assert (decision.reason, decision.steps) == ("Waiting", ()), "2 healthy of 4 is no majority"
    assert Drawing(app=app(), ran=FIVE).silence("db-0").steps() == [f"remove {member_id(4):x}"]
    assert Drawing(app=app(), ran=FIVE).silence("db-3", "db-4").steps() == [f"remove {member_id(4):x}"]


def test_volumes_of_members_that_left_stay_if_the_app_says_so() -> None:
    keep = Volume(on_scale_in="keep")
    drawing = Drawing(app=app(volume=keep), ran=app(members=5, volume=keep)).off_the_list("db-4").scale(4)
    drawing.statuses.pop("db-4")
    del drawing.pods["db-4"]
    assert drawing.steps() == ["apply ConfigMap db-members"]


def test_a_change_of_mind_takes_the_learner_out_again() -> None:
    drawing = Drawing(app=app(), ran=app()).learner(3)
    assert drawing.steps() == [f"remove {member_id(3, 1):x}"]


# A majority is gone


def test_a_lost_quorum_is_reported_and_nothing_is_done_without_a_word_in_git() -> None:
    decision = Drawing().no_majority("db-1", "db-2").decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "QuorumLost", ())
    assert "force_quorum=True" in decision.message


def test_members_have_time_to_come_back_before_quorum_is_called_lost() -> None:
    drawing = Drawing(app=app(force_quorum=True)).no_majority("db-1", "db-2")
    drawing.pods["db-1"]["metadata"]["creationTimestamp"] = before(20)
    assert (drawing.decision().reason, drawing.steps()) == ("NoMajority", [])
    del drawing.pods["db-1"]
    assert (drawing.decision().reason, drawing.steps()) == ("NoMajority", [])


def test_with_a_majority_that_answers_an_election_is_waited_for_and_nothing_is_forced() -> None:
    drawing = Drawing(app=app(force_quorum=True)).no_majority("db-2")
    assert (drawing.decision().reason, drawing.steps()) == ("NoMajority", [])


def test_with_the_word_the_member_that_knows_most_goes_on() -> None:
    drawing = Drawing(app=app(members=5, force_quorum=True)).no_majority("db-2", "db-3", "db-4")
    drawing.statuses["db-1"] = replace(drawing.statuses["db-1"], raft_index=2000)
    drawing.statuses["db-0"] = replace(drawing.statuses["db-0"], raft_index=1999)
    written = read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER])
    assert (written.survivor, written.places["db-1"].phase) == ("db-1", "forced")


def test_with_the_word_and_nobody_to_go_on_from_nothing_is_done() -> None:
    drawing = Drawing(app=app(force_quorum=True)).no_majority(*PODS)
    assert (drawing.decision().reason, drawing.steps()) == ("QuorumLost", [])


def test_the_word_alone_does_nothing_while_there_is_a_majority() -> None:
    assert Drawing(app=app(force_quorum=True)).steps() == []
    assert Drawing(app=app(force_quorum=True)).silence("db-2").steps() == []


@pytest.mark.parametrize("reached", [(), ("db-0",), ("db-2",)])
def test_the_word_does_not_override_members_that_only_the_operator_does_not_reach(reached: tuple[str, ...]) -> None:
    silent = [pod for pod in PODS if pod not in reached]
    drawing = Drawing(app=app(force_quorum=True)).no_majority(*silent, ready=True)
    assert (drawing.decision().state, drawing.steps()) == (State.UNCERTAIN, [])


def survivor(drawing: Drawing) -> str:
    return read(applied(drawing.decision(), "ConfigMap")["metadata"]["annotations"][LEDGER]).survivor


def test_a_learner_is_never_the_one_to_go_on_from() -> None:
    drawing = Drawing(app=app(members=5, force_quorum=True)).no_majority("db-2", "db-3", "db-4")
    drawing.statuses["db-0"] = replace(drawing.statuses["db-0"], is_learner=True, raft_index=5000)
    assert survivor(drawing) == "db-1"
    del drawing.statuses["db-1"]
    drawing.silence("db-1")
    assert (drawing.decision().reason, drawing.steps()) == ("QuorumLost", [])


def test_of_members_that_know_the_same_it_is_always_the_first() -> None:
    drawing = Drawing(app=app(members=5, force_quorum=True)).no_majority("db-0", "db-2", "db-4")
    assert survivor(drawing) == "db-1"
    drawing.statuses = dict(reversed(drawing.statuses.items()))
    assert survivor(drawing) == "db-1"


def test_a_forced_member_starts_only_when_no_other_can() -> None:
    drawing = Drawing(app=app(force_quorum=True)).no_majority("db-1", "db-2")
    drawing.place("db-0", MemberRecord("forced")).note(survivor="db-0")
    narrowed = applied(drawing.decision(), "StatefulSet")["spec"]
    assert (narrowed["replicas"], narrowed["ordinals"]) == (1, {"start": 0})
    drawing.scale(1)
    assert drawing.steps() == [], "the others' pods are still there"
    drawing.remove_pod("db-1").remove_pod("db-2")
    drawing.members = None
    assert drawing.decision().reason == "ForcingQuorum"


def alone(*, older: bool, answers: bool = True) -> Drawing:
    """db-0 went on alone, and its ledger says that it is forced no more; its pod is older than that, or not."""
    drawing = Drawing(app=app(force_quorum=True)).note(survivor="db-0").scale(1)
    drawing.remove_pod("db-1").remove_pod("db-2").off_the_list("db-1").off_the_list("db-2")
    drawing.files = drawing.seen().world.get("ConfigMap", "db-members")
    assert drawing.files is not None
    drawing.files["metadata"]["managedFields"] = [{"manager": "fleet-operator", "time": before(60)}]
    drawing.pods["db-0"]["metadata"]["creationTimestamp"] = before(90 if older else 30)
    return drawing if answers else drawing.no_majority("db-0")


def test_nobody_joins_a_survivor_whose_container_could_start_again_with_the_file_that_forces_it() -> None:
    """It would throw out who has joined, and they would go on without it."""
    assert alone(older=True).steps() == ["delete Pod db-0"]
    assert alone(older=False, answers=False).steps() == []
    assert alone(older=False).steps() == ["delete PersistentVolumeClaim data-db-1"]


# Space and volumes


def test_a_full_database_is_compacted_before_anything_else_is_changed() -> None:
    drawing = Drawing(app=FIVE, ran=app(), alarms=(Alarm(member_id(1), "NOSPACE"),))
    assert (drawing.decision().state, drawing.steps()) == (State.DEGRADED, ["free-space"])


def test_a_corrupt_member_goes_before_a_full_database_is_compacted() -> None:
    """etcd would not compact: it says that the cluster is corrupt."""
    drawing = Drawing().alarm("NOSPACE", member_id(1)).alarm("CORRUPT", member_id(2))
    assert drawing.steps() == [f"remove {member_id(2):x}"]


def full(live: float, wanted: Etcd | None = None) -> Drawing:
    drawing = Drawing(app=wanted or app()).alarm("NOSPACE", member_id(1))
    used = int(live * quota(drawing.app))
    drawing.statuses = {pod: replace(one, db_size_in_use=used) for pod, one in drawing.statuses.items()}
    return drawing


def test_a_lost_member_is_replaced_though_the_database_is_full_with_what_nobody_can_free() -> None:
    assert full(0.99).steps() == ["free-space"]
    drawing = full(0.99).crash("db-2", NO_DATA)
    assert drawing.steps() == [f"remove {member_id(2):x}"]
    drawing.off_the_list("db-2")
    assert drawing.steps() == ["apply ConfigMap db-members"]
    drawing.remove_pod("db-2").learner(2).claim("db-2", uid="new").place(
        "db-2", MemberRecord("joining", f"{member_id(2, 1):x}", PODS, "old")
    )
    assert drawing.steps() == ["free-space"], "the learner's pod starts, and meanwhile it is tried again"
    assert drawing.learner(2, started=True).steps() == [f"promote {member_id(2, 1):x} db-2"]


def test_space_that_can_be_freed_is_freed_before_a_lost_member_is_replaced() -> None:
    assert full(0.5).crash("db-2", NO_DATA).steps() == ["free-space"]


def test_volumes_grow_and_never_shrink() -> None:
    grown = Drawing(app=app(storage="10Gi"), ran=app())
    claim = applied(grown.decision(), "PersistentVolumeClaim")
    assert (claim["metadata"]["name"], claim["spec"]["resources"]["requests"]["storage"]) == ("data-db-0", "10Gi")
    assert Drawing(app=app(storage="1Gi"), ran=app()).steps() == []


def test_members_of_which_none_says_that_it_leads_are_not_called_ready() -> None:
    """They were not asked at one instant: the one that led when the others answered had handed over by its own turn."""
    seen = Drawing().seen()
    assert decided(seen).state is State.OK
    nobody = replace(seen, states={pod: replace(state, leads=False) for pod, state in seen.states.items()})
    decision = decided(nobody)
    assert (decision.state, decision.reason, decision.steps) == (State.PROGRESSING, "Electing", ())
    assert EtcdEngine(IMAGES).report(nobody, None).leader is None
