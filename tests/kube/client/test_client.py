"""The client against a real API server, and against servers that misbehave in ways a healthy one does not."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from aiohttp import web

from fleet.errors import AccessError, NotFoundError, ResourceError
from fleet.kube.client.client import USER_AGENT, Client, Response
from fleet.kube.client.limits import Patience
from fleet.kube.live import read_live
from fleet.objects.desired import Key
from fleet.testing import Cluster
from tests.kube.with_client import connected

SWIFT = Patience(seconds=5.0, first=0.01, most=0.05)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubeconfig(path: Path, server: str, user: dict[str, Any] | None = None) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "ctx",
    }
    path.write_text(json.dumps(document))
    return path


def as_user(cluster: Cluster, path: Path, user: dict[str, Any]) -> Path:
    """The cluster's kubeconfig with other credentials."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for one in document["users"]:
        one["user"] = user
    path.write_text(json.dumps(document))
    return path


def answered_by(handler: Handler, tmp_path: Path, work: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """`work` with a client of a small HTTP server that answers by `handler`."""

    async def run() -> Any:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        path = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{runner.addresses[0][1]}")
        try:
            async with Client.of(path, "ctx", **{"patience": SWIFT, **options}) as client:
                return await work(client)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


class Says(NamedTuple):
    status: int = 200
    message: str = ""
    retry_after: str = ""


def scripted(*script: Says | None) -> tuple[Handler, list[web.Request]]:
    """Answers in turn; None drops the connection without one."""
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        answer = script[min(len(seen), len(script)) - 1]
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = {"Retry-After": answer.retry_after} if answer.retry_after else {}
        return web.json_response({"kind": "Status", "message": answer.message}, status=answer.status, headers=headers)

    return handler, seen


async def patch(client: Client) -> Response:
    return await client.request("PATCH", "/api/v1/namespaces/n/configmaps/a", body={"a": 1})


def test_it_says_who_it_is(cluster: Cluster) -> None:
    mark, path = cluster.audit.mark(), f"/api/v1/namespaces/{cluster.namespace}/secrets"
    connected(cluster, lambda client: client.request("GET", path), agent=USER_AGENT)
    assert [one.verb for one in cluster.audit.requests(since=mark, agent="fleet/") if one.uri == path] == ["list"]


def test_what_the_server_says_no_to_names_the_verb_and_how_to_check(cluster: Cluster, tmp_path: Path) -> None:
    token = cluster.kubectl("create", "token", "default").strip()
    config = as_user(cluster, tmp_path / "config", {"token": token})

    async def run() -> None:
        async with Client.of(config, cluster.context) as client:
            await read_live(client, [Key("", "ConfigMap", cluster.namespace, "a")])

    with pytest.raises(AccessError) as raised:
        asyncio.run(run())
    assert f"no right to get configmaps {cluster.namespace}/a" in raised.value.message
    assert f"kubectl auth can-i get configmaps -n {cluster.namespace}" in str(raised.value.hint)


def test_credentials_that_are_refused_are_an_access_error(cluster: Cluster, tmp_path: Path) -> None:
    config = as_user(cluster, tmp_path / "config", {"token": "wrong"})

    async def run() -> None:
        async with Client.of(config, cluster.context) as client:
            await client.request("GET", "/api/v1/nodes")

    with pytest.raises(AccessError, match="credentials were refused"):
        asyncio.run(run())


def test_an_exec_plugin_gives_the_token_and_is_asked_again_when_that_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The first token is a wrong one, as after a rotation on the server's side."""
    good = cluster.kubectl("create", "token", "default").strip()
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "first = not count.exists()\n"
        "count.write_text(str(1 if first else int(count.read_text()) + 1))\n"
        f"token = 'wrong' if first else {good!r}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', "
        "'status': {'token': token, 'expirationTimestamp': '2099-01-01T00:00:00Z'}}))\n"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    exec_user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    }
    config = as_user(cluster, tmp_path / "config", exec_user)

    async def run() -> str:
        async with Client.of(config, cluster.context) as client:
            answers = await asyncio.gather(*(client.request("POST", REVIEW, body=WHO) for _ in range(5)))
            return str(answers[0].body["status"]["userInfo"]["username"])

    review_kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    WHO, REVIEW = review_kind, "/apis/authentication.k8s.io/v1/selfsubjectreviews"  # noqa: N806
    assert asyncio.run(run()) == f"system:serviceaccount:{cluster.namespace}:default"
    assert (tmp_path / "count").read_text() == "2"


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 3", "returned 3"), ("echo '{}'", "missing key"), ("echo nothing", "failed to decode")],
)
def test_an_exec_plugin_that_fails_is_an_access_error_with_its_words(tmp_path: Path, script: str, words: str) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    config = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", {"exec": {**plugin, "installHint": "buy one"}})

    async def run() -> None:
        async with Client.of(config, "ctx"):
            pass

    with pytest.raises(AccessError, match=words) as raised:
        asyncio.run(run())
    assert raised.value.hint == "buy one"


def test_a_kubeconfig_or_context_that_is_not_there_is_a_matter_of_access(tmp_path: Path) -> None:
    async def run(path: Path, context: str) -> None:
        async with Client.of(path, context):
            pass

    with pytest.raises(AccessError, match="there is no kubeconfig at"):
        asyncio.run(run(tmp_path / "none", "a"))
    with pytest.raises(AccessError, match="nowhere"):
        asyncio.run(run(kubeconfig(tmp_path / "config", "https://127.0.0.1:1"), "nowhere"))


def test_a_cluster_that_does_not_answer_is_named_soon(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused for sure
        config = kubeconfig(tmp_path / "config", f"https://127.0.0.1:{taken.getsockname()[1]}")

        async def run() -> None:
            async with Client.of(config, "ctx", cluster="eu-1") as client:
                await read_live(client, [Key("", "ConfigMap", "n", "a")])

        begun = time.monotonic()
        with pytest.raises(ResourceError) as raised:
            asyncio.run(run())
        assert time.monotonic() - begun < 20, "not as long as one that was reached before"
        for word in ("eu-1", "https://127.0.0.1:", "context ctx"):
            assert word in raised.value.message


def test_a_server_with_a_certificate_of_another_authority_is_not_trusted(cluster: Cluster, tmp_path: Path) -> None:
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for one in document["clusters"]:
        one["cluster"].pop("certificate-authority", None)
        one["cluster"].pop("certificate-authority-data", None)
    (tmp_path / "config").write_text(json.dumps(document))

    async def run() -> None:
        async with Client.of(tmp_path / "config", cluster.context) as client:
            await client.request("GET", "/version")

    with pytest.raises(AccessError, match="cannot trust"):
        asyncio.run(run())


def test_a_busy_server_is_asked_again_when_it_says(tmp_path: Path) -> None:
    handler, seen = scripted(Says(429, retry_after="1"), Says())
    begun = time.monotonic()
    answer = answered_by(handler, tmp_path, patch)
    assert (answer.status, len(seen), answer.repeated) == (200, 2, False)
    assert time.monotonic() - begun >= 1.0


@pytest.mark.parametrize("trouble", [None, Says(503), Says(504)])
def test_a_write_without_a_certain_answer_is_sent_again_and_says_so(tmp_path: Path, trouble: Says | None) -> None:
    handler, seen = scripted(trouble, trouble, Says())
    answer = answered_by(handler, tmp_path, patch)
    assert (answer.status, len(seen), answer.repeated) == (200, 3, True)


def test_a_server_that_never_recovers_is_an_error_in_the_end(tmp_path: Path) -> None:
    handler, seen = scripted(Says(503, "etcd is down"))
    with pytest.raises(ResourceError, match="patch configmaps n/a failed: etcd is down"):
        answered_by(handler, tmp_path, patch, patience=Patience(seconds=3, first=0.05, most=0.1))
    assert len(seen) > 3


def test_a_refusal_is_not_repeated(tmp_path: Path) -> None:
    handler, seen = scripted(Says(422, "not valid"))
    with pytest.raises(ResourceError, match="not valid"):
        answered_by(handler, tmp_path, patch)
    assert len(seen) == 1


def test_no_more_requests_are_under_way_than_allowed(tmp_path: Path) -> None:
    inside = most = 0
    full = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        early = not full.is_set()
        if inside == 7:
            full.set()
        await asyncio.wait_for(full.wait(), 20)
        await asyncio.sleep(0.3 if early else 0.005)  # for an eighth to come in
        inside -= 1
        return web.json_response({})

    async def many(client: Client) -> None:
        await asyncio.gather(*(client.request("GET", "/version") for _ in range(40)))

    answered_by(handler, tmp_path, many, concurrency=7)
    assert most == 7


def test_a_kind_that_is_not_served_is_not_found_with_a_hint(cluster: Cluster) -> None:
    async def ask(client: Client) -> None:
        (await client.discovery()).resource(Key("nowhere.io", "Thing", "n", "a"))

    with pytest.raises(NotFoundError, match=r"Thing\.nowhere\.io"):
        connected(cluster, ask)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://api.example.com:6443", "http://proxy:3128"),
        ("https://10.1.2.3:6443", None),
        ("https://11.1.2.3:6443", "http://proxy:3128"),
        ("https://api.internal:6443", None),
        ("https://127.0.0.1:6443", None),
        ("https://localhost:6443", None),
    ],
)
def test_proxies_of_the_environment_are_used_as_kubectl_does(
    monkeypatch: pytest.MonkeyPatch, server: str, expected: str | None
) -> None:
    from fleet.kube.client.proxy import choose_proxy

    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,.internal")
    assert choose_proxy(server, "", os.environ) == expected
