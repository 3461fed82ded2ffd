"""One answer to "which connection does this context mean": kubectl's. It is run beside ours, and both are recorded."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import AccessError, FleetError, ResourceError
from fleet.kube.client.client import Client, StreamRefusedError, impersonate
from fleet.kube.client.credentials import Credentials
from fleet.kube.client.proxy import choose_proxy
from fleet.kube.runtime.guard import GuardedClient
from fleet.lab.cluster.certificates import LabAuthority
from tests.kube.client.recording_server import Identity, Recording, config, data, kubectl, recording
from tests.kube.client.tunnel import tunnels

WATCH = "/api/v1/namespaces/n/configmaps?watch=1"
COMMAND = "/api/v1/namespaces/n/pods/p/exec?command=a&container=c&stdout=true"
OBJECT = "/api/v1/namespaces/n/configmaps/a"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    authority = LabAuthority(tmp_path_factory.mktemp("authority"))
    authority.make()
    for name in ("alice", "bob"):
        authority.issue(name, name)
    return authority


@pytest.fixture
def two(authority: LabAuthority, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Recording, Recording]]:
    """Two servers: which of them is asked is a part of the answer."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with recording(authority) as first, recording(authority) as second:
        yield first, second


class Case:
    """A directory to write kubeconfigs into, and what they may name."""

    def __init__(self, directory: Path, authority: LabAuthority, servers: tuple[Recording, Recording]) -> None:
        self.directory = directory
        self.authority = authority
        self.first, self.second = servers
        self.trusted = {"server": self.first.address, "certificate-authority": str(authority.certificate_file)}
        self.other = {**self.trusted, "server": self.second.address}

    def pair(self, name: str) -> tuple[str, str]:
        certificate, key = self.authority.pair(name)
        return str(certificate), str(key)

    def one(self, user: Any = None, **cluster: Any) -> str:
        return str(config(self.directory / "config", {**self.trusted, **cluster}, user or {}))

    def file(self, name: str, text: str | bytes) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def plugin(self, name: str, token: str) -> str:
        """A plugin that answers with this token, and with what it was told of the cluster."""
        status = f'{{"token": "{token}-" + str(bool(told["spec"].get("cluster", {{}}).get("server")))}}'
        path = Path(
            self.file(
                name,
                f"#!{sys.executable}\nimport json, os\ntold = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
                f"told['status'] = {status}\nprint(json.dumps(told))\n",
            )
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def paths(self, *paths: str) -> str:
        return os.pathsep.join(paths)


def _certificate(case: Case) -> str:
    certificate, key = case.pair("alice")
    return case.one({"client-certificate": certificate, "client-key": key})


def _certificate_in_data_among_comments(case: Case) -> str:
    certificate, key = (Path(each) for each in case.pair("bob"))
    commented = Path(case.file("bob.crt", b"# f\xc3\xbcr bob\n" + certificate.read_bytes()))
    return case.one({"client-certificate-data": data(commented), "client-key-data": data(key)})


def _relative_paths_of_their_own_files(case: Case) -> str:
    """The user of the second file names a token beside it, the cluster of the first an authority beside that."""
    case.file("one/ca.crt", case.authority.certificate_file.read_bytes())
    case.file("two/token", "of-two")
    case.file("one/token", "of-one")
    first = config(case.directory / "one/config", {**case.trusted, "certificate-authority": "ca.crt"}, {"token": "no"})
    second = config(case.directory / "two/config", case.other, {"tokenFile": "token"}, by="u2")
    text = json.loads(first.read_text())
    text["contexts"][0]["context"]["user"] = "u2"
    first.write_text(json.dumps(text))
    return case.paths(str(first), str(second))


def _one_name_twice(case: Case) -> str:
    text = json.loads(Path(case.one({"token": "abc"})).read_text())
    text["clusters"].append({"name": "c", "cluster": case.other})
    return case.file("config", json.dumps(text))


def _plugin_of_the_right_file(case: Case) -> str:
    """Both files have a user `u` with a plugin, and a cluster `c`: the first file wins for each."""
    case.plugin("one/bin/plugin", "of-one")
    case.plugin("two/bin/plugin", "of-two")
    user = {"exec": {**EXEC, "command": "bin/plugin"}}
    first = config(case.directory / "one/config", case.trusted, user, context="one")
    second = config(case.directory / "two/config", case.other, user, context="ctx")
    return case.paths(str(first), str(second))


def _plugin_whose_cluster_is_in_the_other_file(case: Case) -> str:
    """The user is in the second file only; the current context of the first file is of the other cluster."""
    case.plugin("two/bin/plugin", "of-two")
    first = config(case.directory / "one/config", case.other, {"token": "no"}, context="other", of="d", by="v")
    user = {"exec": {**EXEC, "command": "./bin/plugin", "provideClusterInfo": True}}
    second = config(case.directory / "two/config", case.trusted, user, context="ctx")
    return case.paths(str(first), str(second))


CASES: dict[str, Callable[[Case], str]] = {
    "token": lambda case: case.one({"token": "abc"}),
    "token-file": lambda case: case.one({"tokenFile": case.file("token", "of-a-file\n")}),
    "token and token-file": lambda case: case.one({"token": "abc", "tokenFile": case.file("token", "of-a-file")}),
    "token and no token-file": lambda case: case.one({"token": "abc", "tokenFile": str(case.directory / "none")}),
    "token-file that is not there": lambda case: case.one({"tokenFile": str(case.directory / "none")}),
    "password": lambda case: case.one({"username": "me", "password": "it"}),
    "user without a password": lambda case: case.one({"username": "me"}),
    "token and password": lambda case: case.one({"token": "abc", "username": "me", "password": "it"}),
    "token-file and password": lambda case: case.one(
        {"tokenFile": case.file("token", "of-a-file"), "username": "me", "password": "it"}
    ),
    "certificate": _certificate,
    "certificate in data among comments": _certificate_in_data_among_comments,
    "certificate without a key": lambda case: case.one({"client-certificate": case.pair("alice")[0]}),
    "certificate twice": lambda case: case.one(
        {
            "client-certificate": case.pair("alice")[0],
            "client-certificate-data": data(Path(case.pair("bob")[0])),
            "client-key": case.pair("alice")[1],
        }
    ),
    "authority with comments": lambda case: case.one(
        {"token": "abc"},
        **{
            "certificate-authority": case.file(
                "ca.crt", "# gültig für uns\n".encode() + case.authority.certificate_file.read_bytes() + b"\n# end\n"
            )
        },
    ),
    "authority with latin-1": lambda case: case.one(
        {"token": "abc"},
        **{"certificate-authority": case.file("ca.crt", b"# f\xfcr\n" + case.authority.certificate_file.read_bytes())},
    ),
    "authority that is none": lambda case: case.one(
        {"token": "abc"}, **{"certificate-authority": case.file("ca.crt", "# nothing")}
    ),
    "authority twice": lambda case: case.one(
        {"token": "abc"}, **{"certificate-authority-data": data(case.authority.certificate_file)}
    ),
    "authority in data": lambda case: case.one(
        {"token": "abc"},
        **{"certificate-authority": "", "certificate-authority-data": data(case.authority.certificate_file)},
    ),
    "unverified": lambda case: case.one(
        {"token": "abc"}, **{"certificate-authority": "", "insecure-skip-tls-verify": True}
    ),
    "unverified in words": lambda case: case.one(
        {"token": "abc"}, **{"certificate-authority": "", "insecure-skip-tls-verify": "false"}
    ),
    "compression disabled": lambda case: case.one({"token": "abc"}, **{"disable-compression": True}),
    "compression disabled by a number": lambda case: case.one({"token": "abc"}, **{"disable-compression": 1}),
    "unverified with an authority": lambda case: case.one({"token": "abc"}, **{"insecure-skip-tls-verify": True}),
    "name in the certificate": lambda case: case.one({"token": "abc"}, **{"tls-server-name": "cluster.test"}),
    "name not in the certificate": lambda case: case.one({"token": "abc"}, **{"tls-server-name": "another.test"}),
    "as": lambda case: case.one({"token": "abc", "as": "jürgen"}),
    "as with all": lambda case: case.one(
        {
            "token": "abc",
            "as": "carol",
            "as-uid": "17",
            "as-groups": ["a", "b,c", "system:authenticated"],
            "as-user-extra": {"acme.com/project": ["x", "y"], "Scopes": ["z"]},
        }
    ),
    "as-groups without as": lambda case: case.one({"token": "abc", "as-groups": ["a"]}),
    "plugin": lambda case: case.one({"exec": {**EXEC, "command": case.plugin("plugin", "given")}}),
    "plugin and token": lambda case: case.one(
        {"token": "abc", "exec": {**EXEC, "command": case.plugin("plugin", "given")}}
    ),
    "plugin and certificate": lambda case: case.one(
        {
            **dict(zip(("client-certificate", "client-key"), case.pair("alice"), strict=True)),
            "exec": {**EXEC, "command": case.plugin("plugin", "given")},
        }
    ),
    "plugin of an old version": lambda case: case.one(
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": case.plugin("plugin", "given"),
            }
        }
    ),
    "plugin of the right file": _plugin_of_the_right_file,
    "plugin whose cluster is in the other file": _plugin_whose_cluster_is_in_the_other_file,
    "relative paths of their own files": _relative_paths_of_their_own_files,
    "cloud that is no more": lambda case: case.one({"auth-provider": {"name": "gcp", "config": {}}}),
    "a list with one name twice": _one_name_twice,
    "a token that is a number": lambda case: case.one({"token": 123}),
    "proxy without a scheme": lambda case: case.one({"token": "abc"}, **{"proxy-url": "127.0.0.1:1"}),
    "proxy of another kind": lambda case: case.one({"token": "abc"}, **{"proxy-url": "ftp://127.0.0.1:1"}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_request_is_made_as_kubectl_makes_it_or_none_is(
    tmp_path: Path,
    authority: LabAuthority,
    two: tuple[Recording, Recording],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(tmp_path, authority, two)
    paths = CASES[name](case)
    done = kubectl("--context=ctx", "get", "--raw", "/version", KUBECONFIG=paths)
    original = [identity for server in two for identity in server.identities]
    assert bool(original) == (done.returncode == 0), done.stderr
    for server in two:
        server.requests.clear()

    monkeypatch.setenv("KUBECONFIG", paths)
    try:
        asyncio.run(_ask())
    except FleetError as problem:
        assert not original, problem
    ours = [identity for server in two for identity in server.identities]
    assert ours == original * len(ours), "none is made otherwise"
    assert len(ours) == (REQUESTS if original else 0)
    assert [identity for server in two for identity in server.handshakes] == original


@pytest.mark.parametrize("user", ["", "me:it@"], ids=["", "with a password"])
@pytest.mark.parametrize("name", ["token", "as", "as with all", "certificate", "name in the certificate", "plugin"])
def test_every_request_through_a_proxy_is_made_as_kubectl_makes_it(
    tmp_path: Path,
    authority: LabAuthority,
    two: tuple[Recording, Recording],
    name: str,
    user: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is at the same server in the same name, through a tunnel whose proxy is told nothing of who asks there."""
    path = Path(CASES[name](Case(tmp_path, authority, two)))
    with tunnels() as proxy:
        document = json.loads(path.read_text())
        document["clusters"][0]["cluster"]["proxy-url"] = proxy.address.replace("//", f"//{user}")
        path.write_text(json.dumps(document))
        done = kubectl("--context=ctx", "get", "--raw", "/version", KUBECONFIG=str(path))
        [original] = two[0].identities
        assert done.returncode == 0, done.stderr
        monkeypatch.setenv("KUBECONFIG", str(path))
        asyncio.run(_ask())
    assert two[0].identities == [original] * (1 + REQUESTS)
    assert two[0].handshakes == [original]
    assert two[1].requests == []
    assert set(proxy.targets) == {f"127.0.0.1:{two[0].port}"}
    assert len(proxy.targets) == 4, "kubectl, two clients that keep their tunnel, and a websocket"
    told = [
        {name: value for name, value in headers.items() if "auth" in name or "imp" in name} for headers in proxy.headers
    ]
    assert told == [{"proxy-authorization": "Basic bWU6aXQ="} if user else {}] * len(proxy.targets)


@pytest.mark.parametrize("disabled", [None, False, True])
def test_answers_to_reads_may_be_compressed_where_those_to_kubectl_may(
    tmp_path: Path, authority: LabAuthority, two: tuple[Recording, Recording], disabled: bool | None
) -> None:
    path = Case(tmp_path, authority, two).one({"token": "abc"}, **{"disable-compression": disabled})
    done = kubectl("--context=ctx", "get", "--raw", "/version", KUBECONFIG=path)
    assert done.returncode == 0, done.stderr

    async def read() -> None:
        async with Client.of(Path(path), "ctx") as client:
            await client.request("GET", "/version")

    asyncio.run(read())
    assert two[0].encodings == [None if disabled else "gzip"] * 2


REQUESTS = 6  # of `_ask`: a read, a write, a watch, a command in a pod and why not, and a write of the operator's


async def _ask() -> None:
    async with Client.of(None, "ctx") as client:
        await client.request("GET", "/version")
        await client.request("PATCH", OBJECT, body={})
        async with client.stream(WATCH, silence=5) as body:
            await body.read()
        with pytest.raises(FleetError, match="HTTP 200"):  # no websocket; the client then asks for the reason
            async with client.websocket(COMMAND, ["v5.channel.k8s.io"]):
                pass
    async with GuardedClient.of(None, "ctx") as client:
        await client.request("PATCH", OBJECT, body={})


def test_watches_and_commands_are_made_in_the_name_of_the_account_as_reads_and_writes_are(
    tmp_path: Path, authority: LabAuthority, two: tuple[Recording, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the kubeconfig takes on an identity of its own, of which then nothing is left."""
    case = Case(tmp_path, authority, two)
    monkeypatch.setenv("KUBECONFIG", case.one({"token": "abc", "as": "carol", "as-groups": ["a", "b"]}))
    with impersonate("tenants/orders"):
        asyncio.run(_ask())
    account = ("impersonate-user", "system:serviceaccount:tenants:orders")
    expected = Identity(two[0].port, (("authorization", "Bearer abc"), account), "", None)
    assert two[0].identities == [expected] * REQUESTS
    assert two[0].handshakes == [expected]


@pytest.mark.parametrize("name", ["token", "as with all", "certificate", "name in the certificate", "plugin"])
def test_a_command_in_a_pod_is_run_in_the_name_in_which_kubectl_runs_it(
    tmp_path: Path,
    authority: LabAuthority,
    two: tuple[Recording, Recording],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = CASES[name](Case(tmp_path, authority, two))
    kubectl("--context=ctx", "--namespace=n", "exec", "p", "-c", "c", "--", "a", KUBECONFIG=path)
    [original] = two[0].handshakes
    monkeypatch.setenv("KUBECONFIG", path)
    asyncio.run(_ask())
    assert two[0].handshakes == [original] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("through", ["", "a proxy"])
def test_nothing_is_sent_on_to_where_an_answer_points(
    tmp_path: Path, authority: LabAuthority, status: int, through: str, two: tuple[Recording, Recording]
) -> None:
    with recording(authority, sends_on=two[1].address, status=status) as gateway, tunnels() as proxy:
        way = {"proxy-url": proxy.address} if through else {}
        path = Path(Case(tmp_path, authority, two).one({"token": "abc"}, server=gateway.address, **way))

        async def ask(kind: type[Client], work: Callable[[Client], Any]) -> str:
            async with kind.of(path, "ctx") as client:
                with pytest.raises(ResourceError) as raised:
                    await work(client)
            return raised.value.message

        async def watch(client: Client) -> None:
            async with client.stream(WATCH, silence=5):
                pass

        async def talk(client: Client) -> None:
            async with client.websocket("/api/v1/namespaces/n/pods/p/exec?command=a", ["v5.channel.k8s.io"]):
                pass

        ways: list[tuple[type[Client], Callable[[Client], Any]]] = [
            (Client, lambda client: client.request("GET", "/version")),
            (Client, lambda client: client.request("PATCH", OBJECT, body={"secret": 1})),
            (Client, lambda client: client.request("POST", OBJECT, body={"secret": 1}, expect=(status,))),
            (GuardedClient, lambda client: client.request("PATCH", OBJECT, body={"secret": 1})),
            (Client, watch),
            (Client, talk),
        ]
        for kind, work in ways:
            assert "sends on to https://127.0.0.1 (HTTP" in asyncio.run(ask(kind, work))
    assert two[1].requests == [] and two[0].requests == []
    assert [method for method, *_ in gateway.requests[:5]] == ["GET", "PATCH", "POST", "PATCH", "GET"], "each once"
    assert set(proxy.targets) == ({f"127.0.0.1:{gateway.port}"} if through else set())


@pytest.mark.parametrize("through", ["", "a proxy"])
@pytest.mark.parametrize("what", ["read", "write", "watch"])
def test_a_request_that_is_refused_is_sent_again_with_new_credentials(
    tmp_path: Path, authority: LabAuthority, what: str, through: str, two: tuple[Recording, Recording]
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with recording(authority, refused={"old", "older"}) as server, tunnels() as proxy:
        way = {"proxy-url": proxy.address} if through else {}
        path = Path(Case(tmp_path, authority, two).one({"tokenFile": str(token)}, server=server.address, **way))

        async def run() -> bytes:
            async with Client.of(path, "ctx") as client:
                assert client._open_credentials.authorization == "Bearer old"
                token.write_text("new")
                if what == "watch":
                    async with client.stream(WATCH, silence=5) as answer:
                        return await answer.read()
                done = await client.request({"read": "GET", "write": "PATCH"}[what], OBJECT)
                return json.dumps(done.body).encode()

        assert b"BOOKMARK" in asyncio.run(run())
        assert [dict(one.headers)["authorization"] for one in server.identities] == ["Bearer old", "Bearer new"]
        assert bool(proxy.targets) == bool(through)


@pytest.mark.parametrize("through", ["", "a proxy"])
def test_credentials_that_stay_refused_are_sent_twice_and_no_more(
    tmp_path: Path, authority: LabAuthority, through: str, two: tuple[Recording, Recording]
) -> None:
    with recording(authority, refused={"old"}) as server, tunnels() as proxy:
        way = {"proxy-url": proxy.address} if through else {}
        path = Path(Case(tmp_path, authority, two).one({"token": "old"}, server=server.address, **way))

        async def run() -> None:
            async with Client.of(path, "ctx") as client:
                with pytest.raises(AccessError, match="credentials were refused"):
                    await client.request("PATCH", OBJECT, body={})
                with pytest.raises(StreamRefusedError) as refused:
                    async with client.stream(WATCH, silence=5):
                        pass
                assert refused.value.status == 401

        asyncio.run(run())
        assert [method for method, *_ in server.requests] == ["PATCH", "PATCH", "GET", "GET"]


def test_nothing_that_proves_who_asks_is_sent_without_tls(tmp_path: Path, authority: LabAuthority) -> None:
    def load(user: dict[str, Any]) -> Credentials:
        path = config(tmp_path / "config", {"server": "http://127.0.0.1:1"}, user)
        return asyncio.run(Credentials.from_kubeconfig(path, "ctx"))

    assert load({"token": "abc"}).authorization is None
    assert load({"username": "me", "password": "it"}).authorization is None
    assert load({"exec": {**EXEC, "command": "/nowhere"}}).authorization is None


PROXY = "http://127.0.0.1:9"
PLACES = [  # environment, server
    ({"HTTPS_PROXY": PROXY}, "https://198.51.100.1:6443"),
    ({"https_proxy": PROXY}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "https_proxy": "http://127.0.0.1:8"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": "127.0.0.1:9"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": "me:it@127.0.0.1:9"}, "https://198.51.100.1:6443"),
    ({"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, "https://198.51.100.1:6443"),
    ({"HTTP_PROXY": PROXY}, "http://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "a, 198.51.100.0/24 "}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.7/24"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.0/255.255.255.0"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.2/31"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.1"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.1:6443"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.1:443"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "198.51.100.1:443"}, "https://198.51.100.1"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "100.1"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "::ffff:198.51.100.1"}, "https://198.51.100.1:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "2001:db8::/32"}, "https://[2001:db8::1]:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "2001:db8:0::1"}, "https://[2001:db8::1]:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "[2001:db8::1]"}, "https://[2001:db8::1]:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "[2001:db8::1]:6443"}, "https://[2001:db8::1]:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "example.test"}, "https://api.example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "EXAMPLE.test"}, "https://api.Example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": ".example.test"}, "https://example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*.example.test"}, "https://api.example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*.example.test"}, "https://example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "ample.test"}, "https://example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "example.test:443"}, "https://example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "example.test:6443"}, "https://a.example.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "api*.test"}, "https://api1.test:6443"),
    ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*test"}, "https://api1.test:6443"),
    ({"HTTPS_PROXY": PROXY, "no_proxy": "example.test", "NO_PROXY": "other.test"}, "https://example.test:6443"),
    ({"HTTPS_PROXY": PROXY}, "https://127.0.0.2:6443"),
    ({"HTTPS_PROXY": PROXY}, "https://localhost:6443"),
    ({"HTTPS_PROXY": PROXY}, "https://[::1]:6443"),
    ({"HTTPS_PROXY": PROXY}, "https://localhost.test:6443"),
]


@pytest.mark.parametrize(("environment", "server"), PLACES, ids=str)
def test_the_proxy_of_the_environment_is_the_one_that_kubectl_takes(
    tmp_path: Path, environment: dict[str, str], server: str
) -> None:
    """kubectl says whom it dials. It runs in a network of its own that leads nowhere."""
    path = config(tmp_path / "config", {"server": server}, {"token": "abc"})
    within = ("unshare", "--map-root-user", "--net")
    said = kubectl(
        "get", "--raw", "/version", "--request-timeout=5s", within=within, KUBECONFIG=str(path), **environment
    )
    assert "dial" in said.stderr, said.stderr
    asked = re.search(r"proxyconnect tcp: dial tcp (\S+):", said.stderr) or re.search(
        r"(?<=dial tcp )(127\.0\.0\.1:\d): ", said.stderr
    )
    chosen = choose_proxy(server, "", environment)
    assert (chosen or "").rpartition("@")[2].removeprefix("http://") == (asked[1] if asked else "")


def test_a_proxy_of_the_kubeconfig_holds_for_every_address() -> None:
    assert choose_proxy("https://127.0.0.1:6443", PROXY, {"NO_PROXY": "*"}) == PROXY


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_proxy_that_speaks_socks_is_refused_by_name_and_without_its_password(scheme: str) -> None:
    for own, environment in ((f"{scheme}://me:it@h:1", {}), ("", {"HTTPS_PROXY": f"{scheme}://me:it@h:1"})):
        with pytest.raises(ValueError, match=rf"SOCKS proxy \({scheme}://h:1\)"):
            choose_proxy("https://cluster.test", own, environment)
