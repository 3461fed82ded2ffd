"""How a changed template goes through an etcd's members, and what of it is the same in every release. Data alone.

A changed byte in the template restarts every member of every etcd that the operator looks after, so it is held fast
here: if the hash below changes, the release that does it must say so, or find another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import yaml

from fleet import TLS, Resources
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.versions import NEWEST
from fleet.kit.members import Ledger, MemberRecord, founders
from fleet.kit.step import State
from fleet.kit.workload.files import files, revision
from fleet.kit.workload.pods import pod_template
from fleet.kit.workload.template import mark_of
from fleet.model.app import ROLL
from tests.operator.etcd.observations import IMAGES, Drawing, app, applied, before, file, member_id

OLD, NEW = app(version="3.4"), app(version="3.5")
PODS = ("db-0", "db-1", "db-2")
NEW_MARK = mark_of(pod_template(DRIVER, NEW, DRIVER.image(NEW, IMAGES)))


def upgrade(**drawn: int) -> Drawing:
    return Drawing(app=NEW, ran=OLD, **drawn)  # type: ignore[arg-type]


def partition(drawing: Drawing) -> int:
    spec = applied(drawing.decision(), "StatefulSet")["spec"]
    return int(spec["updateStrategy"]["rollingUpdate"]["partition"])


# The order


def test_the_template_comes_first_with_every_pod_held_where_it_is() -> None:
    drawing = upgrade()
    assert partition(drawing) == 3
    assert mark_of(applied(drawing.decision(), "StatefulSet")["spec"]["template"]) == NEW_MARK


def test_one_member_at_a_time_from_the_highest_ordinal() -> None:
    assert partition(upgrade().roll()) == 2
    assert partition(upgrade().roll("db-2", partition=2)) == 1
    assert partition(upgrade(leader=1).roll("db-2", "db-1", partition=1)) == 0


def test_when_all_are_through_every_pod_is_held_again() -> None:
    drawing = upgrade(leader=2).roll(*reversed(PODS), partition=0)
    assert drawing.steps() == [], "the StatefulSet has not seen it yet"
    assert drawing.set is not None
    drawing.set["status"] = {"currentRevision": "db-2", "updateRevision": "db-2"}
    assert partition(drawing) == 3
    assert drawing.partition(3).decision().state is State.OK


def test_a_roll_is_not_begun_and_does_not_go_on_while_a_member_is_unwell() -> None:
    begun = upgrade().silence("db-0")
    assert (begun.decision().reason, begun.steps()) == ("Waiting", [])
    under_way = upgrade().roll("db-2", partition=2).unready("db-2", since=10)
    assert (under_way.decision().reason, under_way.steps()) == ("Rolling", [])
    assert "waits for db-2" in under_way.decision().message


def test_a_member_that_restarts_is_waited_for() -> None:
    assert upgrade().roll(partition=2).remove_pod("db-2").steps() == []


def test_the_leader_hands_over_before_it_is_restarted() -> None:
    assert upgrade(leader=2).roll().steps() == ["lead db-0"]
    assert upgrade(leader=0).roll("db-2", "db-1", partition=1).steps() == ["lead db-1"]


def test_a_single_member_restarts_without_anybody_to_hand_over_to() -> None:
    assert partition(Drawing(app=app(version="3.5", members=1), ran=app(version="3.4", members=1)).roll()) == 0


def test_a_pod_that_leads_again_by_chance_is_asked_again() -> None:
    drawing = upgrade(leader=1).roll("db-2", partition=2)
    assert drawing.steps() == ["lead db-0"]


def test_scaling_comes_before_rolling() -> None:
    drawing = Drawing(app=app(version="3.5", members=5), ran=OLD)
    assert drawing.steps() == ["add https://db-3.db-peers.shop.svc:2380"]


def test_where_etcd_has_no_way_back_the_answer_is_no() -> None:
    decision = Drawing(app=OLD, ran=NEW).decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "NoWay", ())
    assert "restore a backup" in decision.message


@pytest.mark.parametrize("through", [(), ("db-2",), ("db-2", "db-1")])
def test_a_way_back_of_two_releases_is_refused_wherever_members_are_on_it(through: tuple[str, ...]) -> None:
    drawing = Drawing(app=app(version="3.5"), ran=app(version="3.6")).roll(*through, partition=3 - len(through))
    drawing.app = app(version="3.4.37")
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "NoWay", ())


@pytest.mark.parametrize("through", [("db-2",), ("db-2", "db-1")])
def test_a_downgrade_goes_on_to_its_end(through: tuple[str, ...]) -> None:
    drawing = Drawing(app=app(version="3.5"), ran=app(version="3.6")).roll(*through, partition=3 - len(through))
    assert [one for one in drawing.steps() if not one.startswith("lead")] in ([], ["apply StatefulSet db"])
    assert drawing.decision().reason == "Rolling"


def test_an_image_that_is_too_old_for_the_next_hop_is_told_and_not_called_well() -> None:
    decision = Drawing(app=app(version="3.6"), ran=NEW).decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "NoWay", ())
    told = "image example.test/etcd:3.5 gives 3.5.16, and git says 3.6; 3.6 needs at least 3.5.26 first"
    assert decision.message == told


def test_an_image_that_is_not_of_the_version_that_git_says_is_told() -> None:
    own = "example.test/etcd:mine"
    decision = Drawing(app=app(version="3.5", image=own), ran=app(version="3.4", image=own)).decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "NoWay", ())
    assert decision.message == f"image {own} gives 3.4.23, and git says 3.5"


@pytest.mark.parametrize("through", [(), ("db-2",)])
def test_a_downgrade_that_git_takes_back_is_taken_back_in_etcd_before_anything_rolls(through: tuple[str, ...]) -> None:
    drawing = Drawing(app=app(version="3.6"))
    for pod, status in drawing.statuses.items():
        went = pod in through
        drawing.statuses[pod] = replace(
            status, version="3.5.26" if went else "3.6.1", downgrading_to="" if went else "3.5.0"
        )
    assert drawing.steps() == ["no-downgrade"]
    drawing.app = app(version="3.5")
    assert "no-downgrade" not in drawing.steps()


# What fails is taken back


def broken() -> Drawing:
    return upgrade().roll("db-2", partition=2).crash("db-2", "panic: no such flag", restarts=3)


def test_a_template_that_a_member_does_not_start_with_is_noted_before_it_is_taken_back() -> None:
    drawing = broken()
    assert (drawing.decision().reason, drawing.steps()) == ("RollFailed", ["apply ConfigMap db-members"])
    drawing.note(failed=NEW_MARK, failure="upgrade: db-2 does not start")
    assert drawing.steps() == ["revert"]


def test_after_it_the_pod_that_has_it_goes_back_and_those_that_never_had_it_stay() -> None:
    drawing = broken().note(failed=NEW_MARK, failure="upgrade: db-2 does not start")
    assert drawing.set is not None
    drawing.set["spec"]["template"] = drawing.template
    drawing.set["status"] = {"currentRevision": "db-1", "updateRevision": "db-1"}
    assert drawing.partition(3).steps() == ["delete Pod db-2"]
    drawing.pods["db-2"]["metadata"]["deletionTimestamp"] = before(1)
    assert drawing.steps() == []


def latched(wanted: Etcd) -> Drawing:
    return Drawing(app=wanted, ran=OLD).note(failed=NEW_MARK, failure="upgrade: db-2 does not start")


def test_what_failed_is_not_tried_again_until_something_else_is_wanted() -> None:
    decision = latched(NEW).decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "RollFailed", ())
    other = app(version="3.5", resources=Resources(memory="1Gi"))
    assert latched(other).steps() == ["apply StatefulSet db"]


def test_going_back_to_what_runs_ends_it() -> None:
    drawing = latched(OLD)
    assert drawing.steps() == ["apply ConfigMap db-members"]
    assert drawing.note(failed="", failure="").decision().state is State.OK


def test_a_member_has_five_minutes_to_come_back() -> None:
    drawing = upgrade().roll("db-2", partition=2).silence("db-2")
    drawing.pods["db-2"]["metadata"]["creationTimestamp"] = before(200)
    drawing.unready("db-2", since=200)
    assert drawing.steps() == []
    drawing.pods["db-2"]["metadata"]["creationTimestamp"] = before(400)
    drawing.unready("db-2", since=400)
    assert drawing.decision().reason == "RollFailed"


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_an_image_that_is_not_to_be_had_at_the_moment_has_these_minutes_too(reason: str) -> None:
    drawing = upgrade().roll("db-2", partition=2).silence("db-2").unready("db-2", since=200)
    waiting = {"name": "etcd", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": "no registry"}}}
    drawing.pods["db-2"]["status"]["containerStatuses"] = [waiting]
    assert (drawing.decision().reason, drawing.steps()) == ("Rolling", [])
    drawing.unready("db-2", since=400)
    assert drawing.decision().reason == "RollFailed"
    assert "no registry" in drawing.decision().message


def test_an_image_that_no_registry_can_have_is_given_up_at_once() -> None:
    drawing = upgrade().roll("db-2", partition=2).silence("db-2").unready("db-2", since=2)
    waiting = {"name": "etcd", "restartCount": 0, "state": {"waiting": {"reason": "InvalidImageName"}}}
    drawing.pods["db-2"]["status"]["containerStatuses"] = [waiting]
    assert drawing.decision().reason == "RollFailed"


def test_a_member_that_recovers_is_not_rolled_back_while_it_does() -> None:
    """To begin anew would cost it what it has recovered so far, and the next one takes as long."""
    drawing = upgrade().roll("db-2", partition=2).unready("db-2", since=7200)
    drawing.statuses["db-2"] = replace(drawing.statuses["db-2"], raft_applied_index=0)
    drawing.statuses["db-0"] = replace(drawing.statuses["db-0"], raft_index=1_000_000)
    assert drawing.decision().reason != "RollFailed", "it has a leader and catches up"
    drawing.statuses["db-2"] = replace(drawing.statuses["db-2"], leader=0)
    assert drawing.decision().reason == "RollFailed", "it is in touch with nobody"


@pytest.mark.parametrize(("size", "since", "failed"), [(0, 400, True), (8 << 30, 1200, False), (8 << 30, 1400, True)])
def test_a_silent_member_has_the_time_that_its_data_takes(size: int, since: float, failed: bool) -> None:
    drawing = upgrade().roll("db-2", partition=2).silence("db-2").unready("db-2", since=since)
    drawing.statuses = {pod: replace(one, db_size=size) for pod, one in drawing.statuses.items()}
    assert (drawing.decision().reason == "RollFailed") is failed


@pytest.mark.parametrize("silent", [("db-2",), PODS])
def test_a_template_is_not_given_up_because_the_operator_is_cut_off(silent: tuple[str, ...]) -> None:
    """The kubelet says that the members are ready: who does not reach them is the operator."""
    drawing = upgrade().roll("db-2", partition=2).silence(*silent, ready=True)
    if len(silent) == len(PODS):
        drawing.members = None
    assert drawing.steps() == []


def test_pods_are_not_sent_back_because_the_operator_is_cut_off() -> None:
    drawing = latched(NEW).roll("db-2", "db-1", partition=3)
    assert drawing.set is not None
    drawing.set["spec"]["template"] = drawing.template
    drawing.no_majority(*PODS, ready=True)
    assert drawing.steps() == []


def test_a_member_with_spoiled_data_is_replaced_and_not_taken_for_a_failed_roll() -> None:
    torn = '{"level":"panic","msg":"failed to read WAL","error":"wal: crc mismatch"}'
    drawing = upgrade().roll("db-2", partition=2).crash("db-2", torn)
    assert drawing.steps() == [f"remove {member_id(2):x}"]


# The files


def content(place: MemberRecord, pod: str = "db-0", made: Etcd = NEW) -> dict[str, object]:
    found = yaml.safe_load(file(files(DRIVER, made, Ledger(places={pod: place}), {}, ()), made, pod))
    assert isinstance(found, dict)
    return found


def test_founders_begin_together_and_a_joining_member_comes_to_what_there_is() -> None:
    founding = content(founders(PODS).places["db-0"])
    assert founding["initial-cluster-state"] == "new"
    assert str(founding["initial-cluster"]).count("db-peers.shop.svc:2380") == 3
    joining = content(MemberRecord("joining", "a3", ("db-0", "db-3")), "db-3")
    assert joining["initial-cluster-state"] == "existing"
    assert [one.partition("=")[0] for one in str(joining["initial-cluster"]).split(",")] == ["db-0", "db-3"]


@pytest.mark.parametrize("made", [NEW, app(tls=TLS(enabled=False))])
def test_the_file_of_a_settled_member_cannot_begin_anything(made: Etcd) -> None:
    """Without its data it finds itself in no cluster, and ends."""
    settled = content(MemberRecord("settled", "a0"), made=made)
    assert settled["initial-cluster-state"] == "existing"
    assert "db-" not in str(settled["initial-cluster"]) and ".invalid:" in str(settled["initial-cluster"])
    assert "force-new-cluster" not in settled


def test_only_the_survivor_of_a_lost_quorum_is_told_to_go_on_alone() -> None:
    ledger = Ledger(places={"db-0": MemberRecord("forced"), "db-1": MemberRecord("settled", "a1")})
    written = files(DRIVER, NEW, ledger, {}, ())
    assert yaml.safe_load(file(written, NEW, "db-0"))["force-new-cluster"] is True
    assert "force-new-cluster" not in yaml.safe_load(file(written, NEW, "db-1"))
    over = ledger.with_place("db-0", MemberRecord("settled", "a0"))
    for wanted in (NEW, app(config=EtcdConfig(log_level="debug"))):  # its own file, and one that is kept for its pod
        again = files(DRIVER, wanted, over, written, {revision(DRIVER, NEW)})
        assert "force-new-cluster" not in yaml.safe_load(file(again, NEW, "db-0"))


def test_a_pod_keeps_the_configuration_that_it_was_made_with_until_it_is_rolled() -> None:
    chatty = app(config=EtcdConfig(log_level="debug"))
    ledger = founders(PODS)
    both = files(DRIVER, chatty, ledger, files(DRIVER, NEW, ledger, {}, ()), {revision(DRIVER, NEW)})
    assert yaml.safe_load(file(both, NEW, "db-1"))["log-level"] == "info"
    assert yaml.safe_load(file(both, chatty, "db-1"))["log-level"] == "debug"
    assert set(files(DRIVER, chatty, ledger, both, ())) == {f"{pod}.{revision(DRIVER, chatty)}.yaml" for pod in PODS}


@pytest.mark.parametrize("named", ["/etc/etcd/config", "/etc/etcd/etcd.conf.yaml", "/conf/$(HOSTNAME).0123456789.yaml"])
def test_files_that_others_wrote_are_none_of_ours(named: str) -> None:
    drawing = Drawing().crash("db-2", '{"level":"fatal","msg":"couldn\'t find local name"}').off_the_list("db-2")
    wanted = set(applied(drawing.decision(), "ConfigMap")["data"])
    drawing.pods["db-1"]["spec"]["containers"][0]["args"] = [f"--config-file={named}"]
    assert set(applied(drawing.decision(), "ConfigMap")["data"]) == wanted


# What restarts members


@pytest.mark.parametrize(
    ("made", "mark", "configuration"),
    [
        (Etcd("db", namespace="shop", version="3.5"), "8f343b3c4a", "b642c85b94"),
        (
            Etcd(
                "db",
                namespace="shop",
                version="3.4",
                members=5,
                tls=TLS(enabled=False),
                resources=Resources(cpu="1", memory="1Gi", cpu_limit="2"),
                config=EtcdConfig(quota="2Gi", options={"max-txn-ops": "256"}),
            ),
            "68709e6fc6",
            "8f01568b98",
        ),
    ],
)
def test_a_release_of_the_operator_restarts_nobody(made: Etcd, mark: str, configuration: str) -> None:
    assert revision(DRIVER, made) == configuration, "the members' configuration is not what it was"
    assert mark_of(pod_template(DRIVER, made, DRIVER.image(made, IMAGES))) == mark, (
        "the pods' template is not what it was"
    )


def ran_before(monkeypatch: pytest.MonkeyPatch, ran: Etcd, wanted: Etcd, images: Mapping[str, str]) -> Drawing:
    """Made by a release of fleet that knew no newer patches than these."""
    with monkeypatch.context() as then:
        for series in NEWEST:
            then.setitem(NEWEST, series, f"{series}.30")
        return Drawing(app=wanted, ran=ran, images=images)


def rolled_by(word: str) -> Etcd:
    made = app()
    return Etcd.from_manifest(
        {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Etcd",
            "metadata": {"name": "db", "namespace": "shop", "annotations": {ROLL: word}},
            "spec": made.spec(),
        }
    )


OFFICIAL: dict[str, str] = {}
MIRROR = {"etcd": "10.1.2.3:5000/etcd-{series}/etcd:v{version}"}


@pytest.mark.parametrize("images", [OFFICIAL, MIRROR, IMAGES], ids=["official", "mirror", "series"])
def test_a_release_that_knows_a_newer_patch_restarts_nobody(
    monkeypatch: pytest.MonkeyPatch, images: dict[str, str]
) -> None:
    drawing = ran_before(monkeypatch, NEW, NEW, images)
    assert (drawing.decision().reason, drawing.steps()) == ("Healthy", [])
    drawing.set = None
    if images is not IMAGES:
        made = applied(drawing.decision(), "StatefulSet")
        assert made["spec"]["template"]["spec"]["containers"][0]["image"].endswith("v3.5.30"), "also by a new set"


def wanted_image(drawing: Drawing) -> str:
    made = applied(drawing.decision(), "StatefulSet")["spec"]["template"]
    return str(made["spec"]["containers"][0]["image"])


@pytest.mark.parametrize(
    ("wanted", "tag"),
    [
        (app(resources=Resources(memory="1Gi")), "v3.5.30"),  # what git did not say anything about stays
        (app(config=EtcdConfig(log_level="debug")), "v3.5.30"),
        (app(version="3.5.35"), "v3.5.35"),
        (app(version="3.5.21"), "v3.5.21"),
        (app(version="3.6"), f"v{NEWEST['3.6']}"),
    ],
)
def test_another_patch_comes_when_git_names_it(monkeypatch: pytest.MonkeyPatch, wanted: Etcd, tag: str) -> None:
    drawing = ran_before(monkeypatch, NEW, wanted, OFFICIAL)
    drawing.statuses = {pod: replace(one, version="3.5.30") for pod, one in drawing.statuses.items()}
    assert wanted_image(drawing) == f"quay.io/coreos/etcd:{tag}"


def test_a_restart_that_is_asked_for_brings_the_newest_patch_to_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = rolled_by("1")
    drawing = ran_before(monkeypatch, NEW, asked, OFFICIAL)
    assert wanted_image(drawing) == f"quay.io/coreos/etcd:v{NEWEST['3.5']}"
    drawing.roll("db-2", partition=2)
    monkeypatch.setitem(NEWEST, "3.5", "3.5.99")
    assert wanted_image(drawing).endswith(drawing.pods["db-2"]["spec"]["containers"][0]["image"]), "and no newer one"


def test_an_image_that_git_does_not_name_any_more_goes() -> None:
    own = app(image="example.test/etcd:v3.5.16")
    assert wanted_image(Drawing(app=app(), ran=own, images=OFFICIAL)) == f"quay.io/coreos/etcd:v{NEWEST['3.5']}"


def test_what_is_no_part_of_a_pod_restarts_nobody() -> None:
    first = mark_of(pod_template(DRIVER, NEW, "image"))
    for other in (app(members=5), app(storage="20Gi"), app(force_quorum=True), app(paused=True)):
        assert mark_of(pod_template(DRIVER, other, "image")) == first
    assert mark_of(pod_template(DRIVER, NEW, "another")) != first
