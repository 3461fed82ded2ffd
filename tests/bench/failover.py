"""How long clients of an etcd cannot write after its leader is lost, and that nothing is lost with it.

Three members of etcd 3.5 with TLS on two real nodes, looked after by the operator. A writer makes numbered writes
through the members' own addresses, without a pause, and notes when each is acknowledged. Then the leader's process is
killed (SIGKILL: it cannot hand over) and its pod deleted by force in the same moment. The outage is the longest time
without an acknowledgement from right before that until the app is ready again. A write that had no answer after 0.4
to 0.8 s is given up and another member is asked, so an outage is seen up to that much longer than it was. etcd's own
part of it is the election: its timeout is 1 s, and up to twice that by chance.

`kubectl delete pod --force` is kinder than it sounds: the kubelet gives the process a moment to end, in which etcd
hands its leadership over. It is measured for comparison.

At the end every acknowledged write is looked for in every member. What this cannot show: all members, the test and
the disk share one kernel, and what a killed process has written the kernel still has. Whether a write that was
acknowledged survives a loss of power is decided by fsync and by the disk, and nothing here tests that.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fleet.lab import Lab
from fleet.lab.programs.process import identify
from fleet.testing import Cluster
from tests.bench.figure import Figure, at_least, at_most
from tests.operator.app_on_nodes import App, Operator, definitions
from tests.operator.etcd.under_test import ETCD, election
from tests.operator.writer import Writer

ROUNDS = 20
GOAL = 3.0  # seconds


def figures() -> Iterator[Figure]:
    if os.geteuid() != 0 or sys.platform != "linux":
        print("failover needs real nodes: Linux and root", file=sys.stderr)
        return
    lab = Lab.up(f"bench{os.getpid()}", ["c1"], nodes="real", owner=identify(os.getpid()))
    try:
        with tempfile.TemporaryDirectory() as directory:
            yield from _figures(_app(Cluster(lab, "c1", "failover"), Path(directory) / "operator.log"))
    finally:
        lab.down()


def _app(cluster: Cluster, log: Path) -> App:
    cluster.images("etcd:3.5")
    cluster.kubectl("create", "namespace", cluster.namespace)
    cluster.kubectl("apply", "--server-side", "-f", "-", input=definitions())
    cluster.wait("the kind is served", lambda: "items" in cluster.get("etcds"))
    return App(cluster, Operator(cluster, log, ETCD))


def _figures(app: App) -> Iterator[Figure]:
    app.operator.start()
    try:
        app.want(version="3.5", members=3)
        app.wait_ready()
        with app.writer() as writer:
            killed = [_lose(app, writer, app.lose_pod) for _ in range(ROUNDS)]
            deleted = [_lose(app, writer, _by_force(app)) for _ in range(ROUNDS)]
            numbers = writer.stop()
        writer.was_writing()
        app.every_member_has_all(numbers)  # or there is no figure at all
    finally:
        app.operator.stop()
    outages = [outage for outage, _ in killed]
    yield at_most("leader killed, its pod lost: writes stop for", outages, "s", GOAL)
    yield at_most("leader killed, its pod lost: the worst", [max(outages)], "s", GOAL, f"of {len(outages)}")
    yield Figure("leader killed, its pod lost: all members well again after", tuple(well for _, well in killed), "s")
    outages = [outage for outage, _ in deleted]
    yield at_most("leader's pod deleted by force: writes stop for", outages, "s", GOAL)
    yield at_most("leader's pod deleted by force: the worst", [max(outages)], "s", GOAL, f"of {len(outages)}")
    yield at_least(
        "acknowledged writes a second", [writer.rate()], "/s", 200, "median of all seconds, outages included"
    )
    yield at_most("acknowledged writes that are lost", [0.0], "writes", 0, f"of {len(numbers)}, in all three members")


def _by_force(app: App) -> Callable[[str], Callable[[], None]]:
    return lambda pod: lambda: app.delete_pod(pod)


def _lose(app: App, writer: Writer, way: Callable[[str], Callable[[], None]]) -> tuple[float, float]:
    """Seconds without an acknowledgement, and until all members were well again."""
    elections, leader = election(app)
    before = app.uids()[leader]
    fault = writer.strike(f"loss of {leader}", way(leader))
    app.wait("its pod is another", lambda: app.uids().get(leader, before) != before)
    app.wait("somebody is elected", lambda: election(app)[0] > elections)  # whose pod is quick may be so again
    app.wait_ready()
    well = time.monotonic() - fault.at
    writer.goes_on()
    time.sleep(2)  # so that the next loss meets an etcd at rest
    return writer.outage(fault.at), well
