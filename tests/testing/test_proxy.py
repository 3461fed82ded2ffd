"""A proxy in front of a real API server, with kubectl and with the project's own client and watches behind it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Callable

import orjson
import pytest

from fleet.kube.client.client import Client
from fleet.kube.objects import ObjectScope
from fleet.kube.resources import CONFIG_MAPS
from fleet.kube.watch import ListedObjects, watch_changes
from fleet.testing import Cluster
from fleet.testing.proxy import (
    Answer,
    Break,
    Cut,
    Delay,
    DelayEvents,
    DropEvents,
    Expire,
    Freeze,
    Kill,
    Lose,
    Match,
    Plan,
    Proxy,
    Rule,
    SkewLeases,
)
from tests.kube.runtime.running import eventually

MAPS = Match(resource="configmaps")
WATCHES = Match(verb="watch", resource="configmaps")


def kubectl(cluster: Cluster, proxy: Proxy, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cluster.run("kubectl", f"--kubeconfig={proxy.kubeconfig}", f"-n{cluster.namespace}", *arguments)


def config_map(cluster: Cluster, name: str, **data: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": cluster.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def create(proxy: Proxy, cluster: Cluster, name: str) -> int:
    """The status of the last answer; the client tries again where that is worth it."""

    async def run() -> int:
        async with Client.of(proxy.kubeconfig, proxy.context) as client:
            path = CONFIG_MAPS.collection(cluster.namespace)
            return (await client.request("POST", path, body=config_map(cluster, name), expect=(409,))).status

    return asyncio.run(run())


def test_requests_are_passed_on_recorded_and_counted(cluster: Cluster, api_proxy: Proxy) -> None:
    made = kubectl(cluster, api_proxy, "create", "configmap", "mine", "--from-literal=a=b")
    assert made.returncode == 0, made.stderr
    assert cluster.get("configmap", "mine")["data"] == {"a": "b"}
    assert api_proxy.count(Match(writes=True)) == 1
    recorded = orjson.loads(orjson.dumps(api_proxy.requests))
    (write,) = [one for one in recorded if one["call"]["verb"] == "create"]
    assert (write["status"], write["call"]["resource"], write["acts"]) == (201, "configmaps", [])
    assert write["call"]["namespace"] == cluster.namespace and write["call"]["agent"].startswith("kubectl/")
    assert 0 < write["seconds"] < 5


def test_a_deletion_that_is_only_tried_is_no_write(cluster: Cluster, api_proxy: Proxy) -> None:
    cluster.apply(config_map(cluster, "kept"))
    for arguments, writes in ((("--dry-run=server",), 0), ((), 1)):
        done = kubectl(cluster, api_proxy, "delete", "configmap", "kept", *arguments)
        assert done.returncode == 0, done.stderr
        assert api_proxy.count(Match(writes=True)) == writes


@pytest.mark.parametrize(
    ("status", "words"),
    [(429, "(TooManyRequests)"), (500, "(InternalError)"), (410, "(Expired)")],
)
def test_an_answer_of_the_plan_is_an_error_to_kubectl(
    cluster: Cluster, api_proxy: Proxy, status: int, words: str
) -> None:
    api_proxy.plan = Plan([Rule(MAPS, Answer(status, "so it is planned"))])
    failed = kubectl(cluster, api_proxy, "get", "configmaps")
    assert failed.returncode == 1 and words in failed.stderr and "so it is planned" in failed.stderr
    assert [one.status for one in api_proxy.requests if one.acts] == [status]
    assert kubectl(cluster, api_proxy, "get", "secrets").returncode == 0


def test_a_client_that_is_told_to_come_again_comes_again_then(cluster: Cluster, api_proxy: Proxy) -> None:
    api_proxy.plan = Plan([Rule(MAPS, Answer(429, retry_after=1), first=1)])
    begun = time.monotonic()
    assert create(api_proxy, cluster, "patient") == 201
    assert 1.0 <= time.monotonic() - begun < 30
    assert [one.status for one in api_proxy.requests if MAPS(one.call)] == [429, 201]


def test_a_delay_is_as_long_as_it_says(cluster: Cluster, api_proxy: Proxy) -> None:
    api_proxy.plan = Plan([Rule(MAPS, Delay(0.7))])
    create(api_proxy, cluster, "late")
    (recorded,) = [one for one in api_proxy.requests if MAPS(one.call)]
    assert 0.7 <= recorded.seconds < 30 and recorded.acts == ("delay",)


@pytest.mark.parametrize(("act", "last"), [(Break(), 201), (Lose(), 409), (Cut(after_bytes=20), 409)])
def test_what_breaks_before_the_server_hears_of_it_is_not_done_and_what_breaks_after_is(
    cluster: Cluster, api_proxy: Proxy, act: Break | Lose | Cut, last: int
) -> None:
    api_proxy.plan = Plan([Rule(Match(writes=True), act, nth=1)])
    assert create(api_proxy, cluster, "tried-twice") == last
    assert api_proxy.count(Match(writes=True)) == 2
    assert cluster.get("configmap", "tried-twice")


def test_a_frozen_answer_goes_on_with_another_plan(cluster: Cluster, api_proxy: Proxy) -> None:
    api_proxy.plan = Plan([Rule(MAPS, Freeze(after_bytes=10))])
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(create(api_proxy, cluster, "frozen")))
    waiting.start()
    cluster.wait("the server has it", lambda: bool(cluster.get("configmap", "frozen")))
    time.sleep(0.3)
    assert not done
    api_proxy.plan = Plan()
    waiting.join(30)
    assert done == [201]


def test_a_process_is_killed_at_the_request_that_is_named(cluster: Cluster, api_proxy: Proxy) -> None:
    manifests = [config_map(cluster, name) for name in ("a", "b", "c")]
    file = api_proxy.kubeconfig.with_name("maps.json")
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    command = [str(cluster.lab._binaries["kubectl"]), f"--kubeconfig={api_proxy.kubeconfig}", "create", "-f", str(file)]
    for before, there in ((True, {"a"}), (False, {"a", "b"})):
        killed = api_proxy.run(command, Plan([Rule(Match(writes=True), Kill(before), nth=2)]))
        assert killed.returncode == -9
        assert there == {one["metadata"]["name"] for one in cluster.get("configmaps")["items"]} & {"a", "b", "c"}
        cluster.kubectl("delete", "configmaps", *there)
    assert api_proxy.plan == Plan()


def test_a_body_longer_than_usual_servers_take_is_the_api_servers_to_refuse(cluster: Cluster, api_proxy: Proxy) -> None:
    async def run() -> tuple[int, str]:
        async with Client.of(api_proxy.kubeconfig, api_proxy.context) as client:
            body = config_map(cluster, "long", text="x" * 1_500_000)
            answer = await client.request("POST", CONFIG_MAPS.collection(cluster.namespace), body=body, expect=(422,))
            return answer.status, answer.body["message"]

    status, message = asyncio.run(run())
    assert status == 422 and "1048576" in message


class Watcher:
    """The project's own watch, through a proxy, while something is done."""

    def __init__(self, cluster: Cluster, proxy: Proxy, *, silence: float = 30.0) -> None:
        self._cluster, self._proxy, self._silence = cluster, proxy, silence
        self.lists = 0
        self.seen: list[tuple[str, float]] = []  # names and when

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.seen]

    def during(self, work: Callable[[], object], until: Callable[[], bool]) -> None:
        async def run() -> None:
            async with Client.of(self._proxy.kubeconfig, self._proxy.context) as client:
                watching = asyncio.create_task(self._watch(client))
                await eventually("a watch", lambda: self._proxy.count(WATCHES) > 0)
                await asyncio.to_thread(work)
                await eventually("what was done is seen", until)
                watching.cancel()
                await asyncio.wait([watching])

        asyncio.run(run())

    async def _watch(self, client: Client) -> None:
        scope = ObjectScope(CONFIG_MAPS, self._cluster.namespace, fields="metadata.name!=kube-root-ca.crt")
        async for event in watch_changes(client, scope, silence=self._silence):
            now = time.monotonic()
            found = event.objects if isinstance(event, ListedObjects) else [event.object]
            self.lists += isinstance(event, ListedObjects)
            self.seen += [(one["metadata"]["name"], now) for one in found]


def apply(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.apply(config_map(cluster, name))


def test_a_watch_that_says_410_is_begun_again_with_a_list(cluster: Cluster, api_proxy: Proxy) -> None:
    api_proxy.plan = Plan([Rule(WATCHES, Expire(after_events=1), nth=1)])
    watcher = Watcher(cluster, api_proxy)
    watcher.during(lambda: apply(cluster, "a", "b"), lambda: watcher.lists == 2 and "b" in watcher.names)


def test_a_watch_that_is_frozen_within_an_event_is_left_when_it_is_silent_for_long(
    cluster: Cluster, api_proxy: Proxy
) -> None:
    api_proxy.plan = Plan([Rule(WATCHES, Freeze(after_events=1, after_bytes=30), nth=1)])
    watcher = Watcher(cluster, api_proxy, silence=1.0)
    watcher.during(lambda: apply(cluster, "a", "b"), lambda: watcher.names == ["a", "b"])
    assert watcher.lists == 1 and api_proxy.count(WATCHES) > 1
    assert watcher.seen[1][1] - watcher.seen[0][1] >= 0.9


def test_events_can_be_dropped_and_nobody_notices(cluster: Cluster, api_proxy: Proxy) -> None:
    api_proxy.plan = Plan([Rule(WATCHES, DropEvents(nth=2))])
    watcher = Watcher(cluster, api_proxy)
    watcher.during(lambda: apply(cluster, "a", "b", "c"), lambda: "c" in watcher.names)
    assert watcher.names == ["a", "c"]


def test_events_can_be_late_all_by_the_same_time(cluster: Cluster, api_proxy: Proxy) -> None:
    api_proxy.plan = Plan([Rule(WATCHES, DelayEvents(1.0))])
    watcher = Watcher(cluster, api_proxy)
    begun: list[float] = []

    def work() -> None:
        begun.append(time.monotonic())
        cluster.apply(*(config_map(cluster, name) for name in ("a", "b", "c")))

    watcher.during(work, lambda: watcher.names == ["a", "b", "c"])
    seen = [moment for _, moment in watcher.seen]
    assert seen[0] - begun[0] >= 1.0
    assert seen[2] - seen[0] < 1.0, "one after the other they would be two seconds apart"


def test_leases_are_seen_with_another_time_and_kept_as_they_are(cluster: Cluster, api_proxy: Proxy) -> None:
    stored = "2026-01-01T00:00:00.000000Z"
    metadata = {"name": "mine", "namespace": cluster.namespace}
    spec = {"holderIdentity": "me", "acquireTime": stored, "renewTime": stored}
    cluster.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    api_proxy.plan = Plan([Rule(Match(), SkewLeases(-40))])
    seen = json.loads(kubectl(cluster, api_proxy, "get", "lease", "mine", "-o", "json").stdout)
    assert seen["spec"]["renewTime"] == "2025-12-31T23:59:20.000000Z"

    async def renew() -> None:
        """As a holder does it: what was read is written, with a new time of renewal."""
        async with Client.of(api_proxy.kubeconfig, api_proxy.context) as client:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/mine"
            found = (await client.request("GET", path)).body
            found["spec"]["renewTime"] = "2026-02-02T00:00:00.000000Z"
            await client.request("PUT", path, body=found)

    asyncio.run(renew())
    after = cluster.get("lease", "mine")["spec"]
    assert (after["acquireTime"], after["renewTime"]) == (stored, "2026-02-02T00:00:00.000000Z")


def test_a_kubeconfig_that_leads_nowhere_is_told_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    from fleet.errors import AccessError

    directory = tmp_path_factory.mktemp("nowhere")
    with pytest.raises(AccessError), Proxy(directory / "none", "nobody", directory):
        pass
