"""Two operators and one Lease: whatever becomes of the one that leads, the other finishes what was under way, and
nothing that the first wanted happens after the second has begun. Each has a user of its own, so the audit log tells.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
import pytest

from fleet.errors import FleetError
from fleet.kube.runtime import NotLeadingError
from fleet.testing import Cluster
from fleet.testing.audit import WRITES
from tests.operator.etcd.client import EtcdClient
from tests.operator.etcd.processes import EtcdCluster, programs
from tests.operator.etcd.under_test import ETCD
from tests.operator.operations import TINY, Operation, Story, expected, operations_of, stage

SECONDS = 9.0  # a machine that stands still for less than that changes nothing
BY_NAME = {operation.name: operation for operation in operations_of(ETCD)}


def user(cluster: Cluster, name: str, directory: Path) -> Path:
    """A kubeconfig of a service account of its own, which may do everything: rights are tested elsewhere."""
    cluster.kubectl("create", "serviceaccount", name)
    account = f"--serviceaccount={cluster.namespace}:{name}"
    cluster.kubectl(
        "create", "clusterrolebinding", f"{cluster.namespace}-{name}", "--clusterrole=cluster-admin", account
    )
    view = orjson.loads(
        cluster.kubectl("config", "view", "--raw", "--minify", f"--context={cluster.context}", "-o", "json")
    )
    view["users"][0]["user"] = {"token": cluster.kubectl("create", "token", name, "--duration=2h").strip()}
    found = directory / f"{name}.kubeconfig"
    found.write_bytes(orjson.dumps(view))
    return found


@dataclass(frozen=True)
class Write:
    received: str
    user: str
    what: str


def writes(cluster: Cluster, since: int) -> list[Write]:
    """All that two service accounts wanted to change in the namespace, in the order in which the server heard of it;
    all but the Lease, about which both have a say."""
    with cluster.audit.path.open("rb") as log:
        log.seek(since)
        events = [orjson.loads(line) for line in log if line.endswith(b"}\n")]
    prefix = f"system:serviceaccount:{cluster.namespace}:"
    found = [
        Write(
            one["requestReceivedTimestamp"],
            one["user"]["username"].removeprefix(prefix),
            f"{one['verb']} {one['objectRef']['resource']} {one['objectRef'].get('name', '')}",
        )
        for one in events
        if one.get("verb") in WRITES
        and one["user"]["username"].startswith(prefix)
        and one.get("objectRef", {}).get("resource") != "leases"
    ]
    return sorted(found, key=lambda one: one.received)


class Pair:
    """Two operators over one story."""

    def __init__(self, story: Story) -> None:
        self.story = story

    @contextmanager
    def replica(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        kubeconfig = user(self.story.cluster, name, self.story.directory)
        command = [part for part in self.story.product(kubeconfig) if part != "--no-lease"]
        lease = [f"--lease-seconds={SECONDS}", f"--lease-namespace={self.story.cluster.namespace}"]
        with self.story.running(*command, *lease) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGCONT)

    def leads(self, process: subprocess.Popen[bytes]) -> bool:
        holder = self.story.cluster.get("lease", "fleet-operator")["spec"].get("holderIdentity") or ""
        return f"_{process.pid}_" in holder


@pytest.fixture
def pair(real_cluster: Cluster, tmp_path: Path) -> Iterator[Pair]:
    stage(real_cluster, ETCD)
    story = Story(real_cluster, tmp_path / "pair", ETCD)
    try:
        yield Pair(story)
    finally:
        story.close()
        for name in ("first", "second"):
            with suppress(FleetError):
                real_cluster.kubectl("delete", "clusterrolebinding", f"{real_cluster.namespace}-{name}")


def members(story: Story) -> int:
    return len(story.app.status["members"])


@pytest.mark.real_nodes
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fate", "operation", "begins_with", "begun"),
    [
        pytest.param(  # in `make test` a leader is killed by tests/kube/runtime/test_leader.py
            signal.SIGKILL, BY_NAME["3 to 5"], 3, lambda story: members(story) > 3, marks=pytest.mark.full, id="killed"
        ),
        pytest.param(signal.SIGSTOP, BY_NAME["5 to 3"], 5, lambda story: members(story) < 5, id="frozen"),
    ],
)
def test_the_other_finishes_what_was_under_way_and_the_first_changes_nothing_more(
    pair: Pair, fate: signal.Signals, operation: Operation, begins_with: int, begun: Callable[[Story], bool]
) -> None:
    story, cluster = pair.story, pair.story.cluster
    mark = cluster.audit.mark()
    with pair.replica("first") as first:
        story.app.want(**TINY, version="3.4", members=begins_with)
        story.wait(story.app.is_ready, first)
        story.write()
        with pair.replica("second") as second:
            story.wait(partial(pair.leads, first), first)

            def run(done: Callable[[], bool]) -> None:
                story.wait(lambda: begun(story), first)
                os.kill(first.pid, fate)
                story.wait(partial(pair.leads, second), second)
                assert story.wait(done, second)
                if fate == signal.SIGSTOP:
                    os.kill(first.pid, signal.SIGCONT)
                    time.sleep(SECONDS)
                    assert first.poll() is None, "it stands by again"
                    assert pair.leads(second)

            did = story.go_through(operation, run)
            assert did == expected(operation)
    made = writes(cluster, mark)
    who = [one.user for one in made]
    assert who.count("first") > 10 and who.count("second") > 3
    begin = next(one for one in made if one.user == "second")
    late = [one for one in made if one.user == "first" and one.received > begin.received]
    assert not late, "after the first write of the second there is none of the first"


def test_a_command_to_etcd_is_held_back_when_the_right_to_it_ends_while_it_is_on_its_way(tmp_path: Path) -> None:
    """As a write to the API server is: a frozen process wakes up between the decision and the sending of it."""
    with EtcdCluster(programs("3.5"), tmp_path, 1) as cluster:
        asked = 0

        def late() -> None:
            nonlocal asked
            asked += 1
            if asked > 1:  # the first is before the request, the second when its body goes out
                raise NotLeadingError("another process may lead by now")

        async def work(etcd: EtcdClient) -> None:
            endpoint = cluster.founders[0].endpoint
            await etcd.put(endpoint, "key", "before")
            with pytest.raises(NotLeadingError):
                await etcd.guarded(late).put(endpoint, "key", "after")
            await asyncio.sleep(0.1)
            assert await etcd.get(endpoint, "key") == b"before"
            await etcd.guarded(lambda: None).put(endpoint, "key", "after")
            assert await etcd.get(endpoint, "key") == b"after"

        cluster.talk(work)
        assert asked >= 2
