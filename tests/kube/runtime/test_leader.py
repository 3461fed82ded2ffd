"""Two real processes and one Lease: one leads, and whatever happens to it, its writes end before the other's begin."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

import fleet.kube.runtime as kube
from fleet.kube.runtime.leader import Election
from fleet.testing import Cluster
from fleet.testing.proxy import Freeze, Match, Plan, Proxy, Rule
from tests.kube.runtime.greeter import CONFIG_MAPS, controller, greet, greeting
from tests.kube.runtime.running import eventually, running

SECONDS = 9.0  # a machine that stands still for less than that changes nothing


@contextlib.contextmanager
def process(cluster: Cluster, identity: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.kube.runtime.greeter", str(cluster.kubeconfig), cluster.context]
    with subprocess.Popen([*command, cluster.namespace, identity, str(SECONDS)], stderr=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            with contextlib.suppress(ProcessLookupError):
                started.send_signal(signal.SIGCONT)
            started.kill()


def lease(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("lease", "greeter")["spec"]
    return found


def beat(cluster: Cluster) -> int:
    return int(cluster.get("configmap", "a")["data"]["beat"])


def writes(cluster: Cluster, since: int) -> list[tuple[str, str]]:
    """Who wrote the beat when, as the server saw it: (time of arrival, agent), successes only."""
    with cluster.audit.path.open("rb") as log:
        log.seek(since)
        events = [orjson.loads(line) for line in log if line.endswith(b"}\n")]
    return sorted(
        (one["requestReceivedTimestamp"], one["userAgent"])
        for one in events
        if one.get("verb") == "patch"
        and one.get("objectRef", {}).get("namespace") == cluster.namespace
        and one["objectRef"]["resource"] == "configmaps"
        and one.get("responseStatus", {}).get("code", 500) < 300
    )


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_the_other_takes_over_and_the_old_one_writes_no_more(greetings: Cluster, fate: signal.Signals) -> None:
    greetings.apply(greeting("a", greetings.namespace))
    mark = greetings.audit.mark()
    with process(greetings, "first") as first:
        greetings.wait("the first leading", lambda: beat(greetings) > 2, 40)
        with process(greetings, "second"):
            time.sleep(1.5)
            assert lease(greetings)["holderIdentity"] == "first"
            os.kill(first.pid, fate)
            struck = time.monotonic()
            greetings.wait("a change of the lead", lambda: lease(greetings)["holderIdentity"] == "second", 60)
            taken = time.monotonic() - struck
            reached = beat(greetings)
            greetings.wait("the second at work", lambda: beat(greetings) > reached + 2, 30)
            if fate == signal.SIGSTOP:
                os.kill(first.pid, signal.SIGCONT)
                time.sleep(SECONDS / 2)
                assert first.poll() is None, "it stands by again"
            assert lease(greetings)["holderIdentity"] == "second" and lease(greetings)["leaseTransitions"] == 1
    assert taken > SECONDS / 2, "not before the Lease was over"
    writers = [agent for _, agent in writes(greetings, mark)]
    assert writers.count("first") > 2 and writers.count("second") > 2
    assert writers == sorted(writers), "after the first write of the second there is none of the first"


def test_an_orderly_end_hands_over_without_waiting(greetings: Cluster) -> None:
    greetings.apply(greeting("a", greetings.namespace))
    with process(greetings, "first") as first:
        greetings.wait("the first leading", lambda: beat(greetings) > 0, 40)
        first.terminate()
        assert first.wait(20) == 0
        assert lease(greetings)["holderIdentity"] == ""
        with process(greetings, "second"):
            greetings.wait("the second leading", lambda: lease(greetings)["holderIdentity"] == "second", 40)


def test_a_lease_that_is_taken_away_stops_the_work_and_won_again_starts_it(greetings: Cluster) -> None:
    """In one process: passes under way are cancelled, nothing is written, and caches stay warm meanwhile."""
    greetings.apply(greeting("a", greetings.namespace))
    cancelled = 0

    async def long(request: kube.Request) -> kube.Result | None:
        nonlocal cancelled
        await greet(request)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not cancelled:  # by the loss of the Lease; later ones are by the end of the test
                with pytest.raises(kube.NotLeadingError):
                    await request.client.request("DELETE", CONFIG_MAPS.path(greetings.namespace, "a"))
            cancelled += 1
            raise
        return None

    async def run() -> None:
        held = kube.Lease(greetings.namespace, "greeter", seconds=6, identity="here")
        operator = kube.Operator("greeter", [controller(greetings.namespace, reconcile=long, grace=0.1)], lease=held)
        async with running(greetings, operator) as client:
            await eventually("the caches", lambda: len(operator.followers) == 2)
            children = operator.followers[1].cache
            await eventually("leading", lambda: client.guard.is_open and children.get(greetings.namespace, "a"))
            stolen = '{"spec":{"holderIdentity":"thief","leaseDurationSeconds":1}}'
            await asyncio.to_thread(greetings.kubectl, "patch", "lease", "greeter", "--type=merge", "-p", stolen)
            await eventually("giving up", lambda: cancelled == 1, 60)
            assert not client.guard.is_open
            await asyncio.to_thread(greetings.apply, greeting("b", greetings.namespace))
            await eventually("leading again", lambda: client.guard.is_open, 60)
            await eventually("the work of it", lambda: children.get(greetings.namespace, "b"))
            assert [follower.lists for follower in operator.followers] == [1, 1]

    asyncio.run(run())


def test_a_leader_writes_its_annotations_beside_those_that_are_there(greetings: Cluster) -> None:
    def annotations() -> dict[str, str]:
        lease = greetings.get("lease", "greeter")
        found: dict[str, str] = lease["metadata"].get("annotations") or {}
        return found

    async def run(**said: str) -> None:
        held = kube.Lease(greetings.namespace, "greeter", seconds=SECONDS, annotations=said)
        operator = kube.Operator("greeter", [controller(greetings.namespace)], lease=held)
        async with running(greetings, operator) as client:
            await eventually("leading", lambda: client.guard.is_open)
            assert (await asyncio.to_thread(annotations)).items() >= said.items()

    asyncio.run(run(knows="little"))
    greetings.kubectl("annotate", "lease", "greeter", "mine=stays")
    asyncio.run(run(knows="more"))
    assert annotations() == {"knows": "more", "mine": "stays"}


def test_a_renewal_that_is_answered_too_late_changes_no_leader(greetings: Cluster, api_proxy: Proxy) -> None:
    """The server stored it, and refuses the next one, which is about a Lease that is no more."""
    renewal = Match(verb="update", resource="leases", name="greeter")
    api_proxy.plan = Plan([Rule(renewal, Freeze(), nth=2)])
    begun = 0

    async def run() -> None:
        async with kube.GuardedClient(kubeconfig=api_proxy.kubeconfig, context=greetings.context) as client:
            election = Election(client, kube.Lease(greetings.namespace, "greeter", seconds=SECONDS))
            stop = asyncio.Event()

            async def lead() -> None:
                nonlocal begun
                begun += 1
                await stop.wait()

            task = asyncio.create_task(election.run(lead, stop))
            await eventually("a renewal after the late one", lambda: api_proxy.count(renewal) >= 6, 60)
            assert client.guard.is_open
            stop.set()
            await asyncio.wait_for(task, 60)

    asyncio.run(run())
    assert begun == 1
    assert not lease(greetings).get("holderIdentity"), "it was given back"


def test_what_is_on_its_way_out_when_the_guard_shuts_is_held_back(greetings: Cluster) -> None:
    """Frozen between the decision to write and the sending of it, a process wakes up and must not send."""

    async def run() -> None:
        options: dict[str, Any] = {"kubeconfig": greetings.kubeconfig, "context": greetings.context}
        async with kube.GuardedClient(**options) as client:
            asked = 0

            def late(method: str, path: str) -> None:
                nonlocal asked
                asked += 1
                if asked == 2:  # the first is before the request, the second when its body goes out
                    client.guard.shut()
                kube.Guard.check(client.guard, method, path)

            client.guard.check = late  # type: ignore[method-assign]
            body = {"metadata": {"name": "x"}}
            with pytest.raises(kube.NotLeadingError):
                await client.request("POST", CONFIG_MAPS.collection(greetings.namespace), body=body)
            assert asked >= 2

    asyncio.run(run())
    left = [one["metadata"]["name"] for one in greetings.get("configmaps")["items"]]
    assert "x" not in left
