"""Operators that have rights on other kinds only where their own objects are, on a real API server with RBAC."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fleet.kube.runtime as kube
from fleet.testing import Cluster
from tests.kube.client.test_client import as_user
from tests.kube.runtime.greeter import CONFIG_MAPS, GREETINGS, greet, greeting
from tests.kube.runtime.running import eventually, running
from tests.kube.with_client import agent, make

RBAC = "rbac.authorization.k8s.io"
NODES = kube.Resource("", "v1", "Node", "nodes", namespaced=False)


@dataclass(frozen=True, slots=True)
class Site:
    """Two namespaces and a user that may do nothing but look at greetings and nodes, and tell greetings' status."""

    cluster: Cluster
    other: str
    kubeconfig: Path

    @property
    def here(self) -> str:
        return self.cluster.namespace

    def allow(self, namespace: str) -> None:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "patch", "create"]}]
        make(self.cluster, *bound("Role", {"name": "greeter", "namespace": namespace}, rules, self.here))

    def greeting(self, name: str, namespace: str) -> dict[str, Any]:
        """Labelled, since those of other tests may still be on their way out."""
        return greeting(name, namespace, site=self.here)

    def controller(self, reconcile: Any = greet, **options: Any) -> kube.Controller:
        options = {"name": "greeting", "labels": {"site": self.here}, "per_namespace": True, **options}
        return kube.Controller(resource=GREETINGS, reconcile=reconcile, owns=(CONFIG_MAPS,), **options)

    def text(self, namespace: str, name: str) -> str:
        found = self.cluster.get("greetings.runtime.fleet.dev", name, f"--namespace={namespace}")
        return str(found.get("status", {}).get("text", ""))

    def watches(self, since: int) -> Counter[str]:
        """Watches of ConfigMaps that were granted, by namespace: 1 for one under way, 2 when it has ended."""
        asked = self.cluster.audit.requests(since=since, agent=agent(self.cluster))
        return Counter(
            one.namespace or "all namespaces"
            for one in asked
            for _ in range(1 + one.is_over)
            if one.resource == "configmaps" and one.verb == "watch" and one.code == 200
        )


def bound(kind: str, metadata: dict[str, str], rules: list[dict[str, Any]], account: str) -> Iterator[dict[str, Any]]:
    """A role, given to the default service account of a namespace."""
    own = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    yield {**own, "kind": kind, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": account}
    role = {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]}
    yield {**own, "kind": f"{kind}Binding", "roleRef": role, "subjects": [subject]}


@pytest.fixture
def site(greetings: Cluster, tmp_path: Path) -> Iterator[Site]:
    other = f"other-{secrets.token_hex(4)}"
    name = greetings.namespace
    rules: list[dict[str, Any]] = [
        {"apiGroups": [GREETINGS.group], "resources": ["greetings"], "verbs": ["list", "watch"]},
        {"apiGroups": [GREETINGS.group], "resources": ["greetings/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    ]
    greetings.kubectl("create", "namespace", other)
    make(greetings, *bound("ClusterRole", {"name": name}, rules, name))
    token = greetings.kubectl("create", "token", "default").strip()
    yield Site(greetings, other, as_user(greetings, tmp_path / "config", {"token": token}))
    greetings.kubectl("delete", f"clusterrole/{name}", f"clusterrolebinding/{name}")
    greetings.kubectl("delete", "namespace", other, "--wait=false")


async def told(request: kube.Request) -> None:
    """Greets where it can, and says why where it cannot."""
    found = request.object
    if found is not None and request.blocked is not None:
        await request.write.status(GREETINGS, found, {"text": request.blocked.message})
    elif found is not None:
        await greet(request)


def test_rights_in_one_namespace_are_used_there_and_missed_in_the_other_until_they_come(site: Site) -> None:
    site.allow(site.here)
    make(site.cluster, site.greeting("a", site.here), site.greeting("b", site.other))
    mark = site.cluster.audit.mark()
    blocked: list[Exception] = []
    words = (
        f'configmaps is forbidden: User "system:serviceaccount:{site.here}:default" cannot watch resource "configmaps" '
        f'in API group "" in the namespace "{site.other}"'
    )

    async def seen(request: kube.Request) -> None:
        if request.blocked is not None:
            blocked.append(request.blocked)
            with pytest.raises(kube.NoRightsError):
                request.owned(CONFIG_MAPS)
        else:
            found = [*request.cache(CONFIG_MAPS), *request.owned(CONFIG_MAPS)]
            assert {one["metadata"]["namespace"] for one in found} <= {request.name.namespace}
        await told(request)

    async def run() -> None:
        async with running(site.cluster, kube.Operator("greeter", [site.controller(seen)]), kubeconfig=site.kubeconfig):
            await eventually("a", lambda: asyncio.to_thread(lambda: site.text(site.here, "a") == "Hello, world!"))
            await eventually("a report", lambda: asyncio.to_thread(lambda: "no right" in site.text(site.other, "b")))
            assert await asyncio.to_thread(site.text, site.other, "b") == (
                f"no right to list and watch configmaps in namespace {site.other}: {words}"
            )
            (problem,) = blocked
            assert isinstance(problem, kube.NoRightsError)
            assert (problem.namespace, problem.kinds) == (site.other, ("configmaps",))
            assert problem.reason == words
            await asyncio.to_thread(site.allow, site.other)
            await eventually("b", lambda: asyncio.to_thread(lambda: site.text(site.other, "b") == "Hello, world!"), 90)
            assert len(blocked) == 1, "told once"

    asyncio.run(run())
    assert set(site.watches(mark)) == {site.here, site.other}


def test_a_reconcile_that_does_not_look_at_what_blocks_it_fails_safely_and_backs_off(site: Site) -> None:
    make(site.cluster, site.greeting("b", site.other))
    tries: list[int] = []

    async def careless(request: kube.Request) -> None:
        tries.append(request.attempt)
        assert request.object is not None
        if not request.owned(CONFIG_MAPS):
            await request.write.apply(CONFIG_MAPS, kube.child_of(request.object, data={}))

    async def run() -> None:
        async with running(
            site.cluster, kube.Operator("greeter", [site.controller(careless)]), kubeconfig=site.kubeconfig
        ):
            await eventually("two tries", lambda: len(tries) >= 2)

    asyncio.run(run())
    assert tries[:2] == [1, 2]


def test_the_watch_ends_after_the_last_object_and_begins_again_with_the_next(site: Site) -> None:
    for namespace in (site.here, site.other):
        site.allow(namespace)
    make(site.cluster, site.greeting("a", site.here), site.greeting("b", site.other), site.greeting("c", site.other))
    mark = site.cluster.audit.mark()

    async def run() -> None:
        operator = kube.Operator("greeter", [site.controller(linger=0.5)])
        async with running(site.cluster, operator, kubeconfig=site.kubeconfig):
            for namespace, name in ((site.here, "a"), (site.other, "b"), (site.other, "c")):
                await eventually(
                    name,
                    lambda where=namespace, name=name: asyncio.to_thread(lambda: site.text(where, name) != ""),  # type: ignore[misc]
                )
            delete = ("delete", "greetings.runtime.fleet.dev", f"--namespace={site.other}")
            await asyncio.to_thread(site.cluster.kubectl, *delete, "b")
            await asyncio.sleep(1)
            assert await asyncio.to_thread(site.watches, mark) == {site.here: 1, site.other: 1}, "one object is left"
            await asyncio.to_thread(site.cluster.kubectl, *delete, "c")
            await eventually(
                "the end of the watch",
                lambda: asyncio.to_thread(lambda: site.watches(mark) == {site.here: 1, site.other: 2}),
            )
            await asyncio.to_thread(make, site.cluster, site.greeting("d", site.other))
            await eventually("d", lambda: asyncio.to_thread(lambda: site.text(site.other, "d") != ""))
            assert (await asyncio.to_thread(site.watches, mark))[site.other] == 3
            assert len(operator.followers) == 1, "of what is followed everywhere, there are greetings only"

    asyncio.run(run())


def test_a_change_of_a_child_wakes_its_owner_and_kinds_of_the_cluster_are_seen_as_ever(site: Site) -> None:
    site.allow(site.here)
    make(site.cluster, site.greeting("a", site.here))
    nodes: list[int] = []

    async def seen(request: kube.Request) -> None:
        nodes.append(len(request.cache(NODES)))
        await greet(request)

    async def run() -> None:
        everybody = kube.Watch(NODES, lambda node: ())
        operator = kube.Operator("greeter", [site.controller(seen, watches=(everybody,))])
        async with running(site.cluster, operator, kubeconfig=site.kubeconfig):
            await eventually("a", lambda: asyncio.to_thread(lambda: site.text(site.here, "a") != ""))
            spoil = ("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"text":"spoilt"}}')
            await asyncio.to_thread(site.cluster.kubectl, *spoil)
            await eventually("drift noticed", lambda: len(nodes) >= 2)

    asyncio.run(run())
    assert set(nodes) == {len(site.cluster.node_names)}
    assert site.cluster.get("configmap", "a")["data"] == {"text": "Hello, world!"}


def test_two_controllers_share_what_they_follow_in_a_namespace(site: Site) -> None:
    site.allow(site.here)
    make(site.cluster, site.greeting("a", site.here))
    mark = site.cluster.audit.mark()
    looks: list[str] = []

    async def look(request: kube.Request) -> None:
        looks.extend(one["metadata"]["name"] for one in request.owned(CONFIG_MAPS))

    async def run() -> None:
        second = site.controller(look, name="second")
        async with running(site.cluster, kube.Operator("x", [site.controller(), second]), kubeconfig=site.kubeconfig):
            await eventually("the other's look at the child of the first", lambda: "a" in looks)

    asyncio.run(run())
    site.cluster.wait("the end of the watch", lambda: site.watches(mark)[site.here] >= 2)
    time.sleep(1)
    assert site.watches(mark)[site.here] == 2, "one watch, which has ended with the operator"
