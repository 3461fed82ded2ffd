"""What an etcd gets over on real nodes, and what it must not get over without a word."""

from __future__ import annotations

import asyncio
import time

import pytest

from fleet.errors import FleetError
from fleet.testing.faults import Faults
from fleet.testing.traffic import WriteRefusedError
from tests.operator.app_on_nodes import App, dead_webhook
from tests.operator.etcd.traffic import EtcdTraffic

pytestmark = pytest.mark.timeout(1800)


def test_an_etcd_whose_quota_is_full_lets_writes_in_again_by_itself(app: App) -> None:
    app.want(version="3.5", members=3, config={"quota": "16Mi"})
    app.wait_ready()
    before = app.restarts()
    refusal = asyncio.run(_fill(app))
    assert "space exceeded" in refusal
    with app.writer(rate=50) as writer:
        writer.goes_on(20)
        app.wait("it says why", lambda: "NoSpace" in app.reasons())
        app.wait_ready()
        writer.goes_on(20)
        numbers = writer.stop()
    app.has_all(numbers)
    assert app.restarts() == before
    assert not any(one["alarms"] for one in app.status["members"] if "alarms" in one)


async def _fill(app: App) -> str:
    """Write over one key until etcd has had enough; what it says then."""
    connection = await EtcdTraffic().connect(app.places()[0], app.tls())
    question = {"key": "a2V5", "value": "A" * 1_000_000}
    try:
        for _ in range(100):
            await connection.ask("kv/put", question)
    except WriteRefusedError as refused:
        return str(refused)
    finally:
        connection.close()
    return ""


def test_a_member_that_cannot_start_as_it_was_set_is_mended_by_a_change_in_git(app: App) -> None:
    """It is the lowest one, which a roll would come to last, and a roll waits for all to be well."""
    app.want(version="3.5", members=3, config={"options": {"log-outputs": '["stderr", "/var/lib/etcd/etcd.log"]'}})
    app.wait_ready()
    log = app.volume("registry-0") / "etcd.log"
    log.unlink()
    log.mkdir()
    with app.writer(rate=100) as writer:
        writer.goes_on()
        app.process("registry-0").kill()
        app.wait("it does not start", lambda: "ended" in app.condition("Degraded")["message"])
        serving = {pod: one for pod, one in app.restarts().items() if pod != "registry-0"}
        app.change(config={"options": None})
        app.wait("it gets the change", lambda: "Reviving" in app.reasons())
        app.wait("it starts", lambda: "registry-0" in app.ready_since())
        assert "QuorumLost" not in app.reasons()
        said = [note for reason, note in app.events() if reason == "Restarting"]
        restarted = [pod for pod, one in app.restarts().items() if pod in serving and one != serving[pod]]
        assert len(restarted) <= len(said), f"nobody who serves restarts but by the roll that follows: {said}"
        app.wait_ready()
        writer.goes_on()
        numbers = writer.stop()
    first = app.reasons().index("Reviving")
    assert "Restarting" not in app.reasons()[:first]
    app.every_member_has_all(numbers)


def test_a_webhook_that_is_down_for_one_kind_stops_no_step(app: App) -> None:
    """It is asked about CronJobs and refuses them as long as it does not answer: API servers say 500 then."""
    webhook = dead_webhook(app.namespace, "batch", "cronjobs")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "backups", "namespace": app.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "256Mi"}}},
    }
    app.want(version="3.5", members=1)
    app.wait_ready()
    app.cluster.apply(claim, webhook)
    try:
        app.wait("it is asked", lambda: "failed calling webhook" in _refused_cron_job(app))
        before = app.uids()["registry-0"]
        backup = {"schedule": "0 3 1 1 *", "to": {"claim": {"claim": "backups"}}}
        app.change(backup=backup, config={"snapshotCount": 5000})
        app.wait("its member is restarted with the change", lambda: app.uids().get("registry-0", before) != before, 90)
        app.wait("it says what is refused", lambda: app.condition("Attached").get("reason") == "Refused", 90)
        assert "CronJob registry-backup is refused" in app.condition("Attached")["message"]
        assert "failed calling webhook" in app.condition("Attached")["message"]
        app.wait("it is called a fault since it lasts", lambda: app.status["health"] == "Degraded")
    finally:
        app.cluster.kubectl("delete", "validatingwebhookconfiguration", webhook["metadata"]["name"])
    app.wait_ready()
    assert not app.condition("Attached")
    assert app.cluster.get("cronjobs")["items"]


def _refused_cron_job(app: App) -> str:
    """Return what the API server says about a CronJob that is tried only."""
    command = ["create", "cronjob", "asked", "--image=a", "--schedule=0 3 1 1 *", "--dry-run=server"]
    try:
        return app.cluster.kubectl(*command)
    except FleetError as refused:
        return str(refused)


@pytest.mark.full
def test_a_lost_majority_is_reported_and_healed_only_with_a_word_in_git(app: App) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    with app.writer() as writer:
        writer.goes_on(500)
        numbers = writer.stop()
    app.every_member_has_all(numbers)
    for pod in ("registry-1", "registry-2"):
        app.cluster.kubectl("delete", "pvc", f"data-{pod}", "--wait=false")
        app.delete_pod(pod)
    app.wait("it says so", lambda: app.condition("Blocked").get("reason") == "QuorumLost")
    assert app.status["health"] == "Failed"
    assert app.condition("Available")["status"] == "False"
    assert "force_quorum=True" in app.condition("Blocked")["message"]
    _nothing_is_touched(app, 15)
    app.change(forceQuorum=True)
    app.wait_ready()
    assert [one["name"] for one in app.status["members"]] == [f"registry-{number}" for number in range(3)]
    assert "ForcedQuorum" in app.reasons()
    app.every_member_has_all(numbers)


def _nothing_is_touched(app: App, seconds: float) -> None:
    """By the operator: what crashes may go on crashing."""
    mark, pods, claims = app.cluster.audit.mark(), app.uids(), app.claims()
    time.sleep(seconds)
    assert (app.uids(), app.claims()) == (pods, claims)
    written = [one for one in app.cluster.audit.writes(since=mark, agent="fleet-operator") if "/status" not in one.uri]
    assert [one for one in written if app.namespace in one.uri and "/events" not in one.uri] == []


def test_a_member_comes_back_on_another_node_when_its_node_is_lost_with_its_disks(
    app: App, pytestconfig: pytest.Config
) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    nodes = {name: pod["spec"]["nodeName"] for name, pod in app.pods().items()}
    lonely = min(set(nodes.values()), key=list(nodes.values()).count)
    assert list(nodes.values()).count(lonely) == 1, f"without {lonely} there is a majority: {nodes}"
    pod = next(name for name, node in nodes.items() if node == lonely)
    others = {name: uid for name, uid in app.uids().items() if name != pod}
    faults = Faults(app.cluster)
    try:
        with app.writer() as writer:
            fault = writer.strike("loss of a node", lambda: faults.lose(f"node/{lonely}"))
            app.cluster.kubectl("delete", "node", lonely)
            writer.goes_on()
            app.wait("it is replaced", lambda: "MemberReplaced" in app.reasons())
            app.wait_ready()
            numbers = writer.stop()
        print(f"{fault.what}: writes stopped for {writer.outage(fault.at):.2f} s")
        writer.was_writing()
        writer.was_dense(always=pytestconfig.getoption("--full"))
        app.every_member_has_all(numbers)
        after = app.pods()
        assert len(after) == 3
        assert lonely not in {found["spec"]["nodeName"] for found in after.values()}
        assert {name: found["metadata"]["uid"] for name, found in after.items() if name != pod} == others
    finally:
        faults.clear()  # a new node comes in its place for whoever is next
