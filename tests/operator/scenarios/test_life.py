"""The life of an etcd on real nodes, with a writer that counts what it was promised all the while."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.operator.app_on_nodes import App
from tests.operator.etcd.under_test import election
from tests.operator.writer import Writer

pytestmark = pytest.mark.timeout(1800)


def test_no_acknowledged_write_is_lost_through_the_life_of_an_etcd(app: App, pytestconfig: pytest.Config) -> None:
    """Resize, upgrade, loss of a pod, of a volume and of a data directory, new configuration: one after the other."""
    app.want(version="3.4", members=3)
    app.wait_ready()
    with app.writer() as writer:
        _resize(app, writer, 5)
        _resize(app, writer, 3)
        _upgrade(app, writer)
        _lose_the_leader(app, writer)
        _lose_a_volume(app, writer)
        _spoil_a_data_directory(app, writer)
        _configure(app, writer)
        numbers = writer.stop()
    app.has_all(numbers)
    app.every_member_has_all(numbers)
    writer.was_writing()
    assert len(writer.faults) == 7
    writer.was_dense(always=pytestconfig.getoption("--full"))


def test_a_scale_out_is_on_its_way_until_it_is_done(app: App) -> None:
    """Kubelets call a member of 3.5 ready some time after it joined, and the app is not at fault for that."""
    app.want(version="3.5", members=3)
    app.wait_ready()
    with app.writer() as writer:
        _resize(app, writer, 5)
        writer.stop()


def _after(app: App, writer: Writer, what: str, since: float) -> None:
    """Writes go on, and nothing is lost."""
    writer.goes_on()
    app.has_all(writer.acknowledged)
    took, outage = time.monotonic() - since, writer.outage(since)
    print(f"{what}: {took:.1f} s, longest time without an acknowledgement {outage:.2f} s")


def _resize(app: App, writer: Writer, members: int) -> None:
    before, since = app.uids(), app.found()["metadata"]["resourceVersion"]
    fault = writer.strike(f"resize to {members}", lambda: app.change(members=members))
    app.wait_ready()
    assert [one["name"] for one in app.status["members"]] == [f"registry-{number}" for number in range(members)]
    after = app.uids()
    assert len(after) == members
    assert all(after[pod] == before[pod] for pod in after if pod in before), "a resize restarts nobody"
    if members > len(before):
        healths = app.healths(since)
        assert ("Progressing" in dict(healths)) and healths[-1][0] == "Healthy", healths
        assert "Degraded" not in dict(healths), f"an ordinary scale-out pages nobody and is not rolled back: {healths}"
    _after(app, writer, fault.what, fault.at)


def _upgrade(app: App, writer: Writer) -> None:
    known, before = len(app.events()), election(app)
    fault = writer.strike("upgrade", lambda: _rolls(app, version="3.5"))
    assert {one["version"].rpartition(".")[0] for one in app.status["members"]} == {"3.5"}
    for snapshots in (6000, 7000, 8000):
        if _leader_last(app, known, before):
            break
        known, before = len(app.events()), election(app)
        _rolls(app, config={"snapshotCount": snapshots})
    else:
        raise AssertionError(f"members elect another leader in every roll: {app.events()[known:]}")
    _after(app, writer, fault.what, fault.at)


def _rolls(app: App, **change: Any) -> None:
    """All members are restarted for a change, and nobody before the one that was restarted before was ready again: for
    the first time, since a busy node may call a pod unready for a moment later on."""
    first: dict[str, str] = {}

    def rolled() -> bool:
        done = app.is_ready()
        for uid, since in app.ready_since().values():
            first.setdefault(uid, since)
        return done and set(app.uids().values()) <= set(first)

    before = app.uids()
    app.change(**change)
    app.wait("it is ready", rolled)
    assert set(app.uids().values()).isdisjoint(before.values())
    order = sorted((pod["metadata"] for pod in app.pods().values()), key=lambda one: str(one["creationTimestamp"]))
    for earlier, later in pairwise(order):
        assert first[earlier["uid"]] <= later["creationTimestamp"]


def _leader_last(app: App, known: int, before: tuple[int, str]) -> bool:
    """From what the operator said since: who was restarted did not lead, and the last one had led until right before.

    False if there were other elections than those that it asked for: then its words do not tell who led.
    """
    app.wait("each restart is told", lambda: app.reasons()[known:].count("Restarting") >= 3, 60)
    restarted = []
    told = [one for one in app.events()[known:] if one[0] in ("LeaderMoved", "Restarting")]
    elections, leader = before
    if election(app)[0] != elections + sum(reason == "LeaderMoved" for reason, _ in told):
        print(f"members elected a leader by themselves meanwhile: {told}")
        return False
    for reason, note in told:
        pod = note.split()[0]
        if reason == "LeaderMoved":
            leader = pod
            continue
        assert pod != leader, f"{pod} was restarted while it led: {told}"
        restarted.append(pod)
    assert sorted(restarted) == ["registry-0", "registry-1", "registry-2"], told
    handed_over = re.findall(r"takes over before (\S+) restarts", told[-2][1])
    assert handed_over == restarted[-1:], f"the leader was not the last one: {told}"
    return True


def _lose_the_leader(app: App, writer: Writer) -> None:
    """Somebody is elected; where its pod is there again sooner than the others give it up, that may be the same one."""
    elections, leader = election(app)
    before = app.uids()[leader]
    fault = writer.strike("loss of the leader's pod", app.lose_pod(leader))
    app.wait("its pod is another", lambda: app.uids().get(leader, before) != before)
    app.wait_ready()
    assert election(app)[0] > elections
    _after(app, writer, fault.what, fault.at)


def _lose_a_volume(app: App, writer: Writer) -> None:
    def lose() -> None:
        app.cluster.kubectl("delete", "pvc", f"data-{pod}", "--wait=false")
        app.delete_pod(pod)

    pod = next(name for name in sorted(app.uids()) if name != app.leader())
    _is_replaced(app, writer, pod, "loss of a volume", lose)


def _spoil_a_data_directory(app: App, writer: Writer) -> None:
    def spoil() -> None:
        for file in sorted(Path(app.volume(pod), "data", "member", "wal").glob("*.wal")):
            content = bytearray(file.read_bytes())
            content[64 : 64 + 4096] = b"\xa5" * 4096
            file.write_bytes(content)
        app.delete_pod(pod)

    pod = next(name for name in sorted(app.uids(), reverse=True) if name != app.leader())
    _is_replaced(app, writer, pod, "a spoiled data directory", spoil)


def _is_replaced(app: App, writer: Writer, pod: str, what: str, action: Callable[[], None]) -> None:
    """By a new member of the same name, with a new volume; the others are not touched."""
    members = {one["name"]: one["id"] for one in app.status["members"]}
    claim, others = app.cluster.get("pvc", f"data-{pod}")["metadata"]["uid"], app.restarts()
    fault = writer.strike(what, action)
    app.wait(
        f"{pod} is another member",
        lambda: {one["name"]: one["id"] for one in app.status["members"]}[pod] not in ("", members[pod]),
    )
    app.wait_ready()
    assert app.cluster.get("pvc", f"data-{pod}")["metadata"]["uid"] != claim
    after = app.restarts()
    assert all(after[name] == others[name] for name in others if name != pod)
    _after(app, writer, fault.what, fault.at)


def _configure(app: App, writer: Writer) -> None:
    fault = writer.strike("new configuration", lambda: _rolls(app, config={"snapshotCount": 5000}))
    _after(app, writer, fault.what, fault.at)
