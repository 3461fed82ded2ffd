"""Whole operators on a real API server: what users of the package rely on."""

from __future__ import annotations

import asyncio
import inspect
import secrets
import textwrap
import time
from typing import Any

import aiohttp
import pytest

import fleet.kube.runtime as kube
from fleet.errors import ResourceError
from fleet.kube.objects import get
from fleet.kube.runtime.handlers import label
from fleet.testing import Cluster
from tests.kube.runtime.greeter import CONFIG_MAPS, DEFINITION, GREETINGS, controller, greet, greeting
from tests.kube.runtime.running import eventually, running
from tests.kube.with_client import agent
from tests.served import wait_served


async def text_of(client: kube.GuardedClient, namespace: str, name: str) -> str | None:
    found = await get(client, CONFIG_MAPS, namespace, name)
    return found["data"]["text"] if found else None


async def is_greeted(client: kube.GuardedClient, namespace: str, name: str, text: str) -> bool:
    found = await get(client, GREETINGS, namespace, name)
    told = found is not None and found.get("status", {}).get("text") == text
    return told and await text_of(client, namespace, name) == text


def test_the_example_of_the_package_works_as_it_stands(cluster: Cluster) -> None:
    """The documentation's code, executed; its kind is the one of these tests under the example's group."""
    definition: dict[str, Any] = {**DEFINITION, "metadata": {"name": "greetings.example.com"}}
    definition["spec"] = {**DEFINITION["spec"], "group": "example.com"}
    cluster.apply(definition)
    wait_served(cluster, "greetings.example.com")
    cluster.apply({**greeting("hello", cluster.namespace), "apiVersion": "example.com/v1"})
    example = inspect.getdoc(kube)
    assert example is not None
    start, end = example.index("    import fleet.kube.runtime"), example.index("What the runtime sees to")
    code = textwrap.dedent(example[start:end])
    assert "Controller(" in code and len([line for line in code.splitlines() if line.strip()]) <= 18
    names: dict[str, Any] = {"__name__": "example"}
    exec(code, names)

    async def run() -> None:
        async with running(cluster, names["operator"]) as client:
            await eventually("a ConfigMap", lambda: text_of(client, cluster.namespace, "hello"))

    asyncio.run(run())
    assert cluster.get("greetings.example.com", "hello")["status"] == {"text": "Hello, world!"}
    described = cluster.kubectl("describe", "greetings.example.com", "hello")
    assert "Greeted" in described and "Hello, world!" in described


def test_children_are_made_changed_and_made_again_and_what_is_right_costs_nothing(greetings: Cluster) -> None:
    greetings.apply(greeting("a", greetings.namespace), greeting("b", greetings.namespace, "moon"))
    passes: list[str] = []

    async def counted(request: kube.Request) -> kube.Result | None:
        passes.append(request.name.name)
        return await greet(request)

    async def run() -> None:
        operator = kube.Operator("greeter", [controller(greetings.namespace, reconcile=counted)])
        async with running(greetings, operator) as client:
            for name, to in (("a", "world"), ("b", "moon")):
                expected = f"Hello, {to}!"
                await eventually(name, lambda n=name, e=expected: is_greeted(client, greetings.namespace, n, e))  # type: ignore[misc]
            await asyncio.sleep(0.3)
            assert sorted(passes) == ["a", "b"], "own writes wake nobody"
            await asyncio.to_thread(greetings.apply, greeting("a", greetings.namespace, "Mars"))
            await eventually("the change", lambda: is_greeted(client, greetings.namespace, "a", "Hello, Mars!"))
            await asyncio.to_thread(greetings.kubectl, "delete", "configmap", "b")
            await eventually("the child made again", lambda: text_of(client, greetings.namespace, "b"))
            await asyncio.to_thread(
                greetings.kubectl, "patch", "configmap", "b", "--type=merge", "-p", '{"data":{"text":"spoilt"}}'
            )
            await eventually("drift undone", lambda: is_greeted(client, greetings.namespace, "b", "Hello, moon!"))

    asyncio.run(run())
    passes.clear()
    mark = greetings.audit.mark()

    async def again() -> None:
        operator = kube.Operator("greeter", [controller(greetings.namespace, reconcile=counted)])
        async with running(greetings, operator):
            await eventually("a look at each", lambda: len(passes) == 2)
            await asyncio.sleep(0.2)

    asyncio.run(again())
    written = [one for one in greetings.audit.writes(since=mark, agent=agent(greetings)) if one.resource != "events"]
    assert written == []


def test_a_change_in_the_middle_of_a_pass_is_not_taken_for_its_own(greetings: Cluster) -> None:
    """Somebody changes the spec right before the pass writes the status: both are in the answer to the pass."""
    names = [f"g{n}" for n in range(12)]
    greetings.apply(*(greeting(name, greetings.namespace, "first") for name in names))

    async def run() -> None:
        somebody = kube.GuardedClient(kubeconfig=greetings.kubeconfig, context=greetings.context)

        async def interrupted(request: kube.Request) -> None:
            found = request.object
            assert found is not None
            if found["spec"]["to"] == "first":
                path = GREETINGS.path(*request.name)
                patch = {"spec": {"to": "second"}}
                await somebody.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
            await request.write.status(GREETINGS, found, {"text": found["spec"]["to"]})

        def told() -> list[str]:
            return [one.get("status", {}).get("text", "") for one in operator.followers[0].cache]

        operator = kube.Operator("greeter", [controller(greetings.namespace, reconcile=interrupted, owns=())])
        async with somebody, running(greetings, operator):
            await eventually("the caches", lambda: operator.followers)
            await eventually("the last word", lambda: told() == ["second"] * len(names))

    asyncio.run(run())


def test_a_field_that_is_no_longer_wanted_is_taken_away_though_nothing_else_changed(greetings: Cluster) -> None:
    greetings.apply(greeting("a", greetings.namespace))
    extra = {"more": "yes"}
    passes = 0

    async def shrinking(request: kube.Request) -> None:
        nonlocal passes
        found = request.object
        assert found is not None
        await request.write.apply(CONFIG_MAPS, kube.child_of(found, data={"text": "x", **extra}))
        passes += 1

    async def run() -> None:
        before = passes
        async with running(greetings, kube.Operator("g", [controller(greetings.namespace, reconcile=shrinking)])):
            await eventually("a pass", lambda: passes > before)

    asyncio.run(run())
    assert greetings.get("configmap", "a")["data"] == {"text": "x", "more": "yes"}
    extra.clear()
    asyncio.run(run())
    assert greetings.get("configmap", "a")["data"] == {"text": "x"}


def test_failures_back_off_terminal_ones_wait_and_slow_ones_are_cut_off(greetings: Cluster) -> None:
    greetings.apply(*(greeting(name, greetings.namespace) for name in ("failing", "hopeless", "slow", "asking")))
    passes: dict[str, list[float]] = {}
    address: list[tuple[str, int]] = []

    async def work(request: kube.Request) -> kube.Result | None:
        passes.setdefault(request.name.name, []).append(time.monotonic())
        match request.name.name:
            case "failing" if request.attempt < 4:
                request.event("Failed", "no luck", warning=True)
                raise ResourceError("no luck")
            case "hopeless":
                raise kube.TerminalError("there is no such thing")
            case "slow" if request.attempt < 2:
                await asyncio.sleep(60)
            case "asking" if len(passes["asking"]) < 3:
                return kube.Result(requeue_after=0.1)
        return None

    async def run() -> str:
        options: dict[str, Any] = {"reconcile": work, "seconds": 0.5, "backoff": kube.Backoff(first=0.1)}
        operator = kube.Operator("greeter", [controller(greetings.namespace, **options)], metrics=("127.0.0.1", 0))
        async with running(greetings, operator), aiohttp.ClientSession() as session:
            await eventually(
                "all passes", lambda: [len(passes.get(n, ())) for n in ("failing", "slow", "asking")] == [4, 2, 3]
            )
            assert operator.address is not None
            address.append(operator.address)
            base = "http://{}:{}".format(*operator.address)
            for path, status in (("/healthz", 200), ("/readyz", 200), ("/nothing", 404)):
                async with session.get(base + path) as answer:
                    assert answer.status == status
            async with session.get(f"{base}/metrics") as answer:
                return await answer.text()

    metrics = asyncio.run(run())
    assert len(passes["hopeless"]) == 1
    first, second, third, fourth = passes["failing"]
    assert second - first >= 0.07 and third - second >= 0.14 and fourth - third >= 0.28
    samples = [line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#")]
    lines = {series: float(value) for series, value in samples}
    assert lines['controller_runtime_reconcile_total{controller="greeting",result="error"}'] == 5
    assert lines['controller_runtime_reconcile_total{controller="greeting",result="requeue_after"}'] == 2
    assert lines['controller_runtime_terminal_reconcile_errors_total{controller="greeting"}'] == 1
    assert lines['controller_runtime_reconcile_timeouts_total{controller="greeting"}'] == 1
    assert lines['controller_runtime_reconcile_time_seconds_count{controller="greeting"}'] == 10
    assert lines['workqueue_retries_total{controller="greeting",name="greeting"}'] == 4
    assert lines['controller_runtime_max_concurrent_reconciles{controller="greeting"}'] == 16
    assert lines["leader_election_master_status"] == 1
    assert 'rest_client_requests_total{code="201",method="POST"}' in lines
    events = [one for one in greetings.get("events.events.k8s.io")["items"] if one["reason"] == "Failed"]
    assert [one.get("series", {}).get("count") for one in events] == [3], "three failures are one event"


def test_a_stop_lets_passes_under_way_end_and_starts_no_more(greetings: Cluster) -> None:
    greetings.apply(*(greeting(f"g{n}", greetings.namespace) for n in range(6)))
    begun, ended = [], []

    async def slow(request: kube.Request) -> None:
        begun.append(request.name)
        await asyncio.sleep(0.4)
        assert request.object is not None
        await request.write.status(GREETINGS, request.object, {"text": "done"})
        ended.append(request.name)

    async def run() -> None:
        operator = kube.Operator("greeter", [controller(greetings.namespace, reconcile=slow, workers=2)])
        async with running(greetings, operator):
            await eventually("a beginning", lambda: len(begun) == 2)

    asyncio.run(run())
    assert len(begun) == len(ended) == 2
    told = [one for one in greetings.get("greetings.runtime.fleet.dev")["items"] if "status" in one]
    assert len(told) == 2


def test_children_without_owner_are_found_by_label_in_a_cache_of_that_label_only(greetings: Cluster) -> None:
    greetings.apply(greeting("a", greetings.namespace))
    chosen, lost = {"greets": "a", "by": "test"}, {"greets": "a"}
    for name, labels in (("mine", chosen), ("others", lost)):
        metadata = {"name": name, "labels": labels}
        greetings.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    seen: list[list[str]] = []

    async def look(request: kube.Request) -> None:
        seen.append([one["metadata"]["name"] for one in request.owned(CONFIG_MAPS)])
        assert request.cache(CONFIG_MAPS).by("initial", seen[-1][0][0])

    async def run() -> None:
        initial = {"initial": lambda found: [found["metadata"]["name"][0]]}
        watch = kube.Watch(CONFIG_MAPS, label("greets"), labels={"by": "test"}, indexes=initial)
        one = controller(greetings.namespace, reconcile=look, owns=(), watches=(watch,))
        async with running(greetings, kube.Operator("greeter", [one])):
            await eventually("a look", lambda: seen == [["mine"]])
            await asyncio.to_thread(greetings.kubectl, "label", "configmap", "others", "by=test")
            await eventually("a look at both", lambda: seen[-1] == ["mine", "others"])
            await asyncio.to_thread(greetings.kubectl, "delete", "configmap", "mine")
            await eventually("a look at the rest", lambda: seen[-1] == ["others"])

    asyncio.run(run())


async def answer(operator: kube.Operator, path: str) -> tuple[int, str]:
    assert operator.address is not None
    async with aiohttp.ClientSession() as session, session.get("http://{}:{}{}".format(*operator.address, path)) as got:
        return got.status, await got.text()


def test_a_kind_that_is_not_served_degrades_its_controller_and_no_other(greetings: Cluster) -> None:
    """It is said where people look: in the log, as an event, in a metric, and in what the process calls itself."""
    group = f"g{secrets.token_hex(3)}.fleet.dev"
    late = kube.Resource(group, "v1", "Greeting", "greetings", True)
    definition: dict[str, Any] = {**DEFINITION, "metadata": {"name": f"greetings.{group}"}}
    definition["spec"] = {**DEFINITION["spec"], "group": group}
    greetings.apply(greeting("early", greetings.namespace))
    looked: list[str] = []

    async def look(request: kube.Request) -> None:
        looked.append(request.name.name)

    async def metric(operator: kube.Operator, kind: str) -> float:
        _, text = await answer(operator, "/metrics")
        series = f'fleet_operator_kind_watched{{kind="{kind}"'
        return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(series))

    async def run() -> None:
        others = controller(greetings.namespace)
        missing = kube.Controller("missing", late, look, namespace=greetings.namespace)
        lease = kube.Lease(greetings.namespace, "greeter", seconds=5)
        operator = kube.Operator("g", [missing, others], lease=lease, metrics=("127.0.0.1", 0), sync_seconds=2)
        async with running(greetings, operator) as client:
            await eventually(
                "the other kind", lambda: is_greeted(client, greetings.namespace, "early", "Hello, world!")
            )
            status, text = await answer(operator, "/readyz")
            assert status == 503 and "greetings" in text
            assert await metric(operator, f"greetings.{group}") == 0
            assert await metric(operator, "greetings.runtime.fleet.dev") == 1

            def told() -> bool:
                events = greetings.get("events.events.k8s.io")["items"]
                notes = [one["note"] for one in events if one["reason"] == "NotWatched"]
                return any("cannot be watched" in note and group in note for note in notes)

            await eventually("an event", lambda: asyncio.to_thread(told))
            await asyncio.to_thread(greetings.apply, greeting("later", greetings.namespace))
            await eventually("another", lambda: is_greeted(client, greetings.namespace, "later", "Hello, world!"))
            await asyncio.to_thread(greetings.apply, definition)
            await asyncio.to_thread(wait_served, greetings, f"greetings.{group}")
            own = {**greeting("own", greetings.namespace), "apiVersion": f"{group}/v1"}
            await asyncio.to_thread(greetings.apply, own)
            await eventually("the kind that came late", lambda: looked == ["own"], 60)
            assert (await answer(operator, "/readyz"))[0] == 200
            assert await metric(operator, f"greetings.{group}") == 1

    try:
        asyncio.run(run())
    finally:
        greetings.kubectl("delete", "crd", f"greetings.{group}", "--ignore-not-found", "--wait=false")


def test_a_delete_takes_exactly_what_was_seen(greetings: Cluster) -> None:
    from fleet.errors import ConflictError

    metadata = {"name": "target"}
    greetings.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "1"}})

    async def run() -> None:
        async with kube.GuardedClient(kubeconfig=greetings.kubeconfig, context=greetings.context) as client:
            from fleet.kube.runtime.writer import Writer

            writer = Writer(client, "test", ())
            seen = await get(client, CONFIG_MAPS, greetings.namespace, "target")
            assert seen is not None
            await asyncio.to_thread(greetings.kubectl, "label", "configmap", "target", "a=b")
            with pytest.raises(ConflictError):
                await writer.delete(CONFIG_MAPS, seen)
            now = await get(client, CONFIG_MAPS, greetings.namespace, "target")
            assert now is not None
            assert await writer.delete(CONFIG_MAPS, now)
            assert not await writer.delete(CONFIG_MAPS, now)
            uid = {"uid": now["metadata"]["uid"], "name": "target", "namespace": greetings.namespace}
            with pytest.raises(ConflictError):
                await writer.apply(CONFIG_MAPS, {"metadata": uid, "data": {}})
            assert await get(client, CONFIG_MAPS, greetings.namespace, "target") is None

    asyncio.run(run())
