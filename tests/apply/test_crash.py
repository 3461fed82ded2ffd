"""A sync that is killed at any of its requests: the next one converges, nothing is orphaned, nothing wrong is deleted.

With `--full` it is killed at every single request, before and after it reaches the server; without, at a sample of
them, the ends and the writes among them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet.apply.steps import StepOutcome
from fleet.kube.client.client import Client
from fleet.plan.step import Verb
from fleet.testing import Cluster
from fleet.testing.proxy import Kill, Lose, Match, Plan, Proxy, Rule
from tests.apply.one_sync import STACK, sync, wanted

SYNC = str(Path(__file__).with_name("one_sync.py"))
KINDS = "configmaps,secrets,serviceaccounts,services"
ANY, WRITES = Match(), Match(writes=True)


def manifest(namespace: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}


class Stack:
    """A stack that is synced in processes of its own, through a proxy that can kill them."""

    def __init__(self, cluster: Cluster, proxy: Proxy, directory: Path, *, full: bool) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.name = cluster.namespace
        self.file = directory / "desired.json"
        self.full = full

    def sync(self, manifests: list[dict[str, Any]]) -> StepOutcome | None:
        """To its end, in this process: starting one takes longer than a sync."""

        async def run() -> StepOutcome | None:
            async with Client.of(self.proxy.kubeconfig, self.proxy.context) as client:
                return await sync(client, wanted(self.name, *manifests), wait=5.0)

        self.proxy.requests.clear()
        outcome = asyncio.run(run())
        assert outcome is None or outcome.ok, [str(one.error or one) for one in outcome.results if not one.ok]
        return outcome

    def killed_sync(self, manifests: list[dict[str, Any]], at: int, *, of: Match = ANY, before: bool = False) -> bool:
        """In a process of its own, killed at a request. False when it had fewer and went to its end."""
        self.file.write_text(json.dumps({"stack": self.name, "manifests": manifests}))
        command = [sys.executable, SYNC, str(self.proxy.kubeconfig), self.proxy.context, str(self.file)]
        done = self.proxy.run(command, Plan([Rule(of, Kill(before), nth=at)]))
        assert done.returncode in (0, -9), done.stderr
        return done.returncode == -9

    def crash_points(self, *, every: int) -> list[int]:
        """Requests of the last sync to be killed at, counted from 1."""
        total = len(self.proxy.requests)
        return list(range(1, total + 1)) if self.full else sorted({1, total, *range(2, total, every)})

    def before(self) -> list[dict[str, Any]]:
        """Two objects to stay as they are, two to be changed, two to be deleted in an order."""
        space = self.cluster.namespace
        return [
            manifest(space, "ConfigMap", "same", data={"a": "1"}),
            manifest(space, "ConfigMap", "changed", data={"a": "1", "gone": "1"}),
            manifest(space, "Service", "changed", spec={"clusterIP": "None", "ports": [{"port": 80}]}),
            manifest(space, "Secret", "deleted", stringData={"a": "1"}),
            manifest(space, "ConfigMap", "deleted", data={"a": "1"}, depends_on=["deleted"]),
        ]

    def after(self) -> list[dict[str, Any]]:
        space = self.cluster.namespace
        return [
            manifest(space, "ConfigMap", "same", data={"a": "1"}),
            manifest(space, "ConfigMap", "changed", data={"a": "2"}),
            manifest(space, "Service", "changed", spec={"clusterIP": "None", "ports": [{"port": 81}]}),
            manifest(space, "ServiceAccount", "created"),
            manifest(space, "ConfigMap", "created", data={"a": "1"}, depends_on=["created"]),
        ]

    def there(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Everything in the namespace that carries the stack's label."""
        found = self.cluster.get(KINDS, "-l", f"{STACK}={self.name}")["items"]
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    def recorded(self) -> dict[tuple[str, str], str]:
        """Kind and name → uid, of the inventory as it stands in the cluster."""
        found = self.cluster.get("configmaps", "-n", "fleet-system", "-l", f"fleet.dev/inventory={self.name}")["items"]
        lines = [line.split("\t") for one in found for line in one["data"]["entries"].splitlines()[1:]]
        return {(cells[2], cells[4]): cells[5] for cells in lines}

    def nothing_is_orphaned(self) -> None:
        orphans = self.there().keys() - self.recorded().keys()
        assert not orphans, f"labelled as ours and in no inventory: {orphans}"

    def is_exactly(self, manifests: list[dict[str, Any]]) -> None:
        there = self.there()
        assert there.keys() == {(one["kind"], one["metadata"]["name"]) for one in manifests}
        for one in manifests:
            found = there[one["kind"], one["metadata"]["name"]]
            if "data" in one:
                assert found["data"] == one["data"]
        assert self.recorded() == {key: one["metadata"]["uid"] for key, one in there.items()}


@pytest.fixture
def stack(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
        yield Stack(cluster, proxy, tmp_path, full=request.config.getoption("--full"))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_a_sync_killed_at_any_request_is_finished_by_the_next(stack: Stack, before: bool) -> None:
    stranger = manifest(stack.cluster.namespace, "ConfigMap", "stranger", data={"whose": "not ours"})
    stack.cluster.apply(stranger)
    stack.sync(stack.before())
    outcome = stack.sync(stack.after())
    assert outcome and {one.step.verb for one in outcome.results} == {
        Verb.CREATE,
        Verb.UPDATE,
        Verb.DELETE,
        Verb.UNCHANGED,
    }
    total = len(stack.proxy.requests)
    kills = 0
    points = stack.crash_points(every=4)
    for k in points:
        stack.sync(stack.before())
        kills += stack.killed_sync(stack.after(), k, before=before)
        stack.nothing_is_orphaned()
        stack.sync(stack.after())
        stack.is_exactly(stack.after())
        assert stack.sync(stack.after()) is None
        assert stack.proxy.count(WRITES) == 0
    # Requests are concurrent, so a run may need one or two fewer than the one that was counted.
    assert kills >= len(points) - 2
    print(f"killed at {kills} of {total} requests, and every time the next sync converged")
    assert stack.cluster.get("configmap", "stranger")["data"] == {"whose": "not ours"}


@pytest.mark.timeout(1800)
def test_what_a_killed_sync_made_is_taken_back_when_it_is_no_longer_wanted(stack: Stack) -> None:
    """The hard case for orphans: created, killed, and the next sync does not want it any more."""
    stack.sync(stack.before())
    stack.sync(stack.after())
    total = len(stack.proxy.requests)
    kills = 0
    for k in stack.crash_points(every=5):
        stack.sync(stack.before())
        kills += stack.killed_sync(stack.after(), k)
        stack.sync(stack.before())
        stack.is_exactly(stack.before())
    print(f"killed at {kills} of {total} requests, and every time all of it was taken back")


def test_a_sync_killed_during_its_first_apply_leaves_no_object_that_is_not_recorded(stack: Stack) -> None:
    space = stack.cluster.namespace
    many = [manifest(space, "ConfigMap", f"c{n}", data={"n": str(n)}) for n in range(20)]
    assert stack.killed_sync(many, 8, of=WRITES)
    stack.nothing_is_orphaned()
    assert stack.there(), "the test is void: nothing was made before the kill"
    stack.sync(many)
    stack.is_exactly(many)
    stack.sync([])
    assert (stack.there(), stack.recorded()) == ({}, {})


def test_answers_that_are_lost_on_the_way_change_nothing_in_the_outcome(stack: Stack) -> None:
    """Every other write reaches the server and its answer does not come back: the next try finds its own work."""
    stack.proxy.plan = Plan([Rule(WRITES, Lose(), every=2)])
    stack.sync(stack.before())
    stack.is_exactly(stack.before())
    stack.sync(stack.after())
    stack.is_exactly(stack.after())
    stack.sync([])
    assert (stack.there(), stack.recorded()) == ({}, {})
