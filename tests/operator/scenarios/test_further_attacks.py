"""What a tenant could try on the operator besides: each case says what must come of it. Data, and small servers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet_operator.core import kinds
from fleet_operator.core.teardown import pause
from fleet_operator.logs import Lines

from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.observe import EtcdObservation, members_of
from fleet.apps.etcd.engine.protocol import Endpoint, Etcd, Unreachable
from fleet.errors import ConfigurationError, FleetError
from fleet.kit.adoption.workload import LONGEST_TEXT, processes
from fleet.kit.backup import content
from fleet.kit.backup.directory import Directory
from fleet.kit.backup.outcome import read_record
from fleet.kit.backup.records import Record, read
from fleet.kit.backup.shelf import pick
from fleet.kit.credentials.authorities import read_signer
from fleet.kit.credentials.certificates import Authority, Leaf, Pair, client_context, found_context
from fleet.kit.credentials.tls import CLIENTS
from fleet.kit.order import decide
from fleet.kube.client.client import Client
from fleet.kube.list_watch import EventKind, WatchEvent
from fleet.kube.runtime.cache import Cache, Name
from fleet.kube.runtime.informer import Informer
from fleet.kube.runtime.memory_budget import EACH, LEAST, MemoryBudget, Share, TooMuchError
from fleet.kube.runtime.queue import Queue
from fleet.kube.runtime.views import View
from tests.operator.etcd.observations import IMAGES, Drawing, app, member_id
from tests.operator.etcd.processes import CLIENT
from tests.operator.etcd.test_hostile_member import STATUS

MEBI = 1 << 20
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Call = Callable[[Etcd, Endpoint], Awaitable[Any]]


def status(etcd: Etcd, place: Endpoint) -> Awaitable[Any]:
    return etcd.status(place)


async def asked(first: bytes, again: bytes, call: Call = status, seconds: float = 0.5) -> Any:
    """What a client makes of a member that sends `first`, and then `again` for as long as anybody reads."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while again:
                writer.write(again)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        async with Etcd(None, seconds=seconds) as etcd:
            return await call(etcd, Endpoint("127.0.0.1", server.sockets[0].getsockname()[1], "m0"))
    finally:
        server.close()


def answered(body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    return HEAD + f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content


# What members answer


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_member_leads_the_operator_to_no_other_host(code: int) -> None:
    """A redirect to the address where clouds keep credentials; here a server of the test that must not be asked."""

    async def run() -> int:
        asked_there = 0

        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked_there
            asked_there += 1
            writer.write(answered(STATUS))
            writer.close()

        server = await asyncio.start_server(other, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        where = (
            f"HTTP/1.1 {code} Go\r\nLocation: http://127.0.0.1:{port}/latest/meta-data/\r\nContent-Length: 0\r\n\r\n"
        )
        with pytest.raises(FleetError):
            await asked(where.encode(), b"")
        server.close()
        return asked_there

    assert asyncio.run(run()) == 0


def test_urls_that_a_member_gives_are_words_and_nobody_connects_to_them() -> None:
    """Only the addresses of the app's own pods are asked, whatever the list of members says: by a whole observation."""

    async def run() -> tuple[int, set[str], EtcdObservation]:
        asked_there, questions = 0, set[str]()

        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked_there
            asked_there += 1
            writer.close()

        elsewhere = await asyncio.start_server(other, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{elsewhere.sockets[0].getsockname()[1]}"

        async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Answer as a member that a tenant's image plays, for every pod of the app."""
            with suppress(OSError, asyncio.IncompleteReadError):
                path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
                questions.add(path)
                writer.write(answered(hostile(path, url)))
                await reader.read()  # until it is closed: what was not read would end it with an error
            writer.close()

        drawing = Drawing(app(tls={"enabled": False}))
        for pod, found in drawing.pods.items():
            found["status"]["podIP"] = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}.{int(pod[-1]) + 1}"
        addresses = [pod["status"]["podIP"] for pod in drawing.pods.values()]
        serving = [await asyncio.start_server(member, address, CLIENT) for address in addresses]
        engine = EtcdEngine(IMAGES)
        try:
            seen = await engine.observe(drawing.app, drawing.seen().world)
            engine.attachments(seen)
            decide(engine.concerns(seen), engine.at_rest(seen))
            engine.report(seen, None)
        finally:
            await engine.close()
            for server in (elsewhere, *serving):
                server.close()
        return asked_there, questions, seen

    asked_there, questions, seen = asyncio.run(run())
    assert {"/v3/maintenance/status", "/v3/cluster/member/list"} <= questions and len(seen.states) == 3
    members = members_of(seen)
    assert members is not None and members[0].client_urls[1].startswith("http://169.254"), "it was read"
    assert asked_there == 0


def hostile(path: str, url: str) -> dict[str, Any]:
    """Return what a member answers that would have another address asked."""
    urls = {"peerURLs": [url], "clientURLs": [url, "http://169.254.169.254/latest"]}
    members = [{"ID": str(member_id(number)), "name": f"db-{number}", **urls} for number in range(3)]
    return {**STATUS, "members": members, "kvs": [], "errors": [url], "endpoint": url, "downgradeInfo": {"url": url}}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (HEAD, b"A: b\r\n" * 1000),
        (HEAD, b"A: " + b"b" * 60_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 60_000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 1000),
    ],
    ids=["headers", "header", "announcements", "extensions", "trailers"],
)
def test_what_comes_around_an_answer_has_an_end_and_takes_no_memory(first: bytes, again: bytes) -> None:
    before = psutil.Process().memory_info().rss
    with pytest.raises(Unreachable):
        asyncio.run(asked(first, again))
    assert psutil.Process().memory_info().rss - before < 64 * MEBI


def test_an_answer_that_drips_is_given_up() -> None:
    """A byte now and then keeps every clock of a connection from running out but that of the whole call."""

    async def run() -> float:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(HEAD + b"Content-Length: 100000\r\n\r\n")
                while not writer.is_closing():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.02)
            except OSError:
                pass

        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        began = time.monotonic()
        async with Etcd(None, seconds=0.3) as etcd:
            with pytest.raises(Unreachable, match="no answer in"):
                await etcd.status(Endpoint("127.0.0.1", server.sockets[0].getsockname()[1], "m0"))
        server.close()
        return time.monotonic() - began

    assert asyncio.run(asyncio.wait_for(run(), 30)) < 30


# Keys and certificates


def rsa_key(first: int, second: int) -> bytes:
    """Of two Mersenne primes: anybody can write down an RSA key of any size without having to look for primes."""

    def length(content: bytes) -> bytes:
        if len(content) < 128:
            return bytes([len(content)])
        size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
        return bytes([0x80 | len(size)]) + size

    def number(value: int) -> bytes:
        content = value.to_bytes(value.bit_length() // 8 + 1, "big")
        return b"\x02" + length(content) + content

    p, q, e = 2**first - 1, 2**second - 1, 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    parts = (0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
    content = b"".join(map(number, parts))
    text = b64encode(b"\x30" + length(content) + content)
    return b"-----BEGIN RSA PRIVATE KEY-----\n" + text + b"\n-----END RSA PRIVATE KEY-----\n"


def test_a_key_that_takes_minutes_to_look_at_is_none_of_the_operators() -> None:
    """OpenSSL proves the primes of a key that it reads: two minutes for this one, in which nothing else happens."""
    authority, key = Authority.new("db"), rsa_key(9689, 9941)
    began = time.process_time()
    with pytest.raises(ValueError, match="none of the operator's"):
        Authority.read(authority.pem, key)
    leaf = Leaf("db", server=True)
    pair = authority.issue(leaf)
    why = authority.why_renew(Pair(pair.cert_pem, key), leaf, datetime.now(UTC))
    assert why == "its key is not the one in the certificate"
    with pytest.raises(ValueError, match="each handshake"):
        found_context(authority.pem, Pair(pair.cert_pem, key))
    assert time.process_time() - began < 1
    assert Authority.read(authority.pem, authority.key_pem).pem == authority.pem


def test_as_many_authorities_as_a_secret_holds_are_more_than_an_etcd_has() -> None:
    """A MiB of CAs that are said to be old ones takes half a second, as often as somebody changes it."""
    authority = Authority.new("db")
    forged = b"".join(Authority.new(f"forged-{number}").pem for number in range(1600))
    assert len(forged) > 900_000
    held = {"ca.crt": authority.pem, "ca.key": authority.key_pem, "old-ca.crt": forged}
    with pytest.raises(ValueError, match="65536 are the most"):
        read_signer(held, CLIENTS)
    few = b"".join(Authority.new(f"old-{number}").pem for number in range(50))
    signer = read_signer({**held, "old-ca.crt": few}, CLIENTS)
    assert signer is not None and signer.bundle == authority.pem + few


def test_a_key_with_a_password_or_of_another_kind_is_said_to_be_unreadable() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    form, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        form, pkcs8, serialization.BestAvailableEncryption(b"x")
    )
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(form, pkcs8, serialization.NoEncryption())
    for key in (locked, other, b"", b"-----BEGIN PRIVATE KEY-----\n", b"\xff" * 500):
        with pytest.raises(ValueError):
            Authority.read(Authority.new("db").pem, key)


def test_a_member_cannot_make_the_operator_count_with_numbers_of_its_choice() -> None:
    """With DHE, a server names the group: 10,000 bits are two seconds of a handshake that nothing interrupts."""
    authority = Authority.new("db")
    pair = authority.issue(Leaf("db", client=True))
    for context in (client_context(authority), found_context(authority.pem, pair)):
        named = [one["name"] for one in context.get_ciphers()]
        assert named and all(name.startswith(("ECDHE-", "TLS_")) for name in named)


# What adopted StatefulSets say of themselves


def template(script: str = "", environment: list[dict[str, str]] | None = None) -> dict[str, Any]:
    command = ["/bin/sh", "-c", script] if script else ["etcd", "--name=$(LAST)"]
    return {"spec": {"containers": [{"name": "etcd", "command": command, "env": environment or []}]}}


@pytest.mark.parametrize(
    "hostile",
    [
        template("A0=xxxxxxxxxxxxxxxx\n" + "".join(f"A{n}=$A{n - 1}$A{n - 1}\n" for n in range(1, 40)) + "etcd $A39"),
        template("$(" * 10_000 + "hostname" + ")" * 10_000 + "; etcd"),
        template("etcd " + "${a-" * 8_000),
        template("etcd " + "x" * MEBI),
        template(
            environment=[
                {"name": "A0", "value": "x" * 16},
                *({"name": f"A{n}", "value": f"$(A{n - 1})" * 2} for n in range(1, 40)),
                {"name": "LAST", "value": "$(A39)"},
            ]
        ),
    ],
    ids=["variables", "substitutions", "defaults", "length", "environment"],
)
def test_a_hostile_template_is_read_within_bounds(hostile: dict[str, Any]) -> None:
    """Variables that double forty times are 16 TiB, in a process that looks after everybody else's apps."""
    began = time.process_time()
    found = list(processes(hostile, "shop", lambda kind, name: None, "etcd"))
    assert time.process_time() - began < 4, "a pass that holds the process for longer is ended"
    for one in found:
        texts = [*one.words, *one.environment.values()]
        assert max((len(text) for text in texts), default=0) <= LONGEST_TEXT
        assert sum(len(text) for text in texts) < 4 * MEBI


def test_scripts_as_people_write_them_are_read_as_before() -> None:
    script = "set -e\nHOST=$(hostname -s)\nexec etcd --name=$HOST --data-dir=/data/${DIRECTORY:-etcd}"
    (found,) = processes(template(script), "shop", lambda kind, name: None, "etcd")
    assert found.words == ("--name={pod}", "--data-dir=/data/etcd")


# Backups


def record(name: str = "db-1.db", **changed: Any) -> Record:
    fields = {"app": "db", "namespace": "shop", "identity": "c1", "time": "2026-01-01T00:00:00Z", "version": "3.5.16"}
    rest = {
        "data_version": "3.5",
        "position": "1",
        "size": 1,
        "checksum": "sha256:x",
        "place": "claim/backups",
        "kind": "Etcd",
    }
    return Record(**{"name": name, **fields, **rest, **changed})


def test_a_pipe_or_a_link_beside_backups_holds_up_nobody(tmp_path: Path) -> None:
    """On a share of many apps, one's pipe would be opened by the backups of all and never answer."""
    (tmp_path / "db-1.db").write_bytes(b"x")
    content.write(tmp_path / "db-1.json", record().write())
    os.mkfifo(tmp_path / "db-0.json")
    (tmp_path / "db-2.json").symlink_to("/dev/zero")
    (tmp_path / "db-3.json").symlink_to(tmp_path / "db-1.json")
    (tmp_path / "db-4.json").mkdir()
    found: list[list[Record]] = []
    thread = threading.Thread(target=lambda: found.append(Directory(PLAN, tmp_path).complete()), daemon=True)
    thread.start()
    thread.join(20)
    assert found == [[record()]]
    assert Directory(PLAN, tmp_path).without_backup(record()) == []


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        '{"a":' * 10_000,
        json.dumps({**json.loads(record().write()), "size": 10**400}),
        json.dumps({**json.loads(record().write()), "position": 1}),
        json.dumps({**json.loads(record().write()), "revision": -1}).replace("format", "unknown"),
        json.dumps({**json.loads(record().write()), "place": "claim/x\u001b[2J\u202egnp"}),
        json.dumps({**json.loads(record().write()), "time": ["2026"]}),
        "null",
    ],
    ids=["deep", "deep objects", "huge", "number", "negative", "control characters", "list", "null"],
)
def test_a_record_that_is_none_is_passed_over_as_a_file_and_as_last_words(text: str, tmp_path: Path) -> None:
    assert read(text) is None
    (tmp_path / "x.json").write_text(text)
    assert Directory(PLAN, tmp_path).complete() == []
    ended = {"name": "keep", "state": {"terminated": {"exitCode": 0, "message": text}}}
    assert read_record({"status": {"containerStatuses": [ended]}}, "keep") is None


@pytest.mark.parametrize("name", ["../bank/db-1.db", "/etc/passwd", "..", "a/../../b.db", ".db-1.part", "link.db"])
def test_a_snapshot_is_a_file_of_its_directory(name: str, tmp_path: Path) -> None:
    own = tmp_path / "shop"
    own.mkdir()
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "db-1.db").write_bytes(b"x")
    (own / "link.db").symlink_to(tmp_path / "bank" / "db-1.db")
    with pytest.raises(FleetError, match=r"is not the name of a backup|there is no backup"):
        pick(Directory(PLAN, own), name, app="db", namespace="shop", version="3.5", origins=("*",))


# Names, logs and metrics


@pytest.mark.parametrize("name", ["../../bank/secrets/db-ca", "..", ".", "x/status", "..%2f..%2fbank", "a%2fb"])
def test_a_name_in_a_reference_leads_to_no_other_object(name: str) -> None:
    """`secretName` of a volume and `volumeName` of a claim may be any text, and servers decode paths."""
    with pytest.raises(ConfigurationError, match="is not the name of a"):
        kinds.SECRETS.path("shop", name)


def test_what_a_member_says_is_one_line_of_the_log() -> None:
    forged = "no\n2026-01-01 00:00:00,000 INFO fleet: the operator was uninstalled\x1b[2J\u202e"
    try:
        raise ValueError(forged)
    except ValueError as problem:
        known = logging.LogRecord("x", logging.INFO, "", 0, "%s", (forged,), (ValueError, problem, None))
    first, *rest = Lines("%(asctime)s %(levelname)s %(message)s").format(known).split("\n")
    assert "uninstalled" in first and "\x1b" not in first and "\u202e" not in first
    assert rest and all(line.startswith("  ") for line in rest)


# Work without end


def test_an_end_that_somebody_holds_up_is_looked_at_ever_more_seldom() -> None:
    def leaving(seconds: float) -> dict[str, Any]:
        return {"metadata": {"deletionTimestamp": f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"}}

    assert pause(leaving(5), 0.5, NOW) == 0.5
    assert pause(leaving(300), 0.5, NOW) == 5
    assert pause(leaving(86_400 * 365), 0.5, NOW) == 15


def test_an_object_that_changes_without_end_has_one_place_in_the_queue() -> None:
    queue: Queue[Name] = Queue()
    for _ in range(100_000):
        queue.add(Name("flapping", "db"))
    queue.add(Name("other", "db"))
    for _ in range(1000):
        queue.add(Name("flapping", "db"))
    order = []
    for _ in range(3):
        item = queue.take()
        assert item is not None
        order.append(item.key.namespace)
        queue.add(item.key)
        queue.done(item.key)
    assert order == ["flapping", "other", "flapping"]


# The memory that all namespaces share


def fed(follower: Informer, count: int, kilobytes: int, namespace: str) -> None:
    for number in range(count):
        own = {"name": f"x-{number}", "namespace": namespace, "resourceVersion": str(number + 1)}
        found = {"metadata": own, "data": {"x": "x" * (kilobytes << 10)}}
        follower._take(WatchEvent(EventKind.LISTED, found, kilobytes << 10))


def test_one_namespaces_objects_do_not_fill_the_memory_of_all() -> None:
    budget = MemoryBudget(lambda: 1)
    maps, secrets, others = (
        Informer(Client(), Cache(kind, namespace=where), share=Share(share))
        for kind, where, share in (
            (kinds.CONFIG_MAPS, "flood", budget),
            (kinds.SECRETS, "flood", budget),
            (kinds.SECRETS, "other", MemoryBudget(lambda: 1)),
        )
    )
    fed(maps, 10, 1024, "flood")
    fed(others, 10, 1024, "other")
    with pytest.raises(TooMuchError, match="more than 16 MiB in namespace flood"):
        fed(secrets, 10, 1024, "flood")
    assert budget.used == 10 * MEBI, "what is not kept does not count"
    assert len(others.cache) == 10


def test_a_namespace_with_many_apps_has_room_for_what_they_have() -> None:
    budget = MemoryBudget(lambda: 1000)
    assert budget.most == LEAST + 1000 * EACH
    share = Share(budget)
    for number in range(5000):
        share.put(Name("shop", f"pod-{number}"), 20_000)
    for number in range(5000):
        share.put(Name("shop", f"pod-{number}"), 25_000)
    assert budget.used == 5000 * 25_000
    share.keep({Name("shop", "pod-1")})
    assert budget.used == 25_000


def test_whoever_floods_a_namespace_blocks_the_passes_there(tmp_path: Path) -> None:
    """A server of the test that streams Secrets of a mebibyte for as long as anybody reads."""

    async def run() -> tuple[Informer, View]:
        sent = 0

        async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
            try:
                while sent < 200:
                    sent += 1
                    own = {"name": f"x-{sent}", "namespace": "flood", "resourceVersion": str(sent)}
                    event = {"type": "ADDED", "object": {"metadata": own, "data": {"x": "x" * MEBI}}}
                    writer.write(json.dumps(event).encode() + b"\n")
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(stream, "127.0.0.1", 0)
        place = {"server": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}
        config = {
            "clusters": [{"name": "c", "cluster": place}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "users": [{"name": "c", "user": {}}],
        }
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **config}))
        async with Client.of(kubeconfig) as client:
            cache = Cache(kinds.SECRETS, namespace="flood", labels={"fleet.dev/kind": "Etcd"})
            follower = Informer(client, cache, share=Share(MemoryBudget(lambda: 1)))
            turned = asyncio.Event()
            follower.turns.append(turned.set)
            task = asyncio.create_task(follower.run())
            async with asyncio.timeout(30):
                await turned.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        server.close()
        assert sent < 100
        return follower, View("flood", {kinds.SECRETS: follower}, opened=0.0)

    follower, view = asyncio.run(run())
    assert isinstance(follower.problem, TooMuchError)
    assert (len(follower.cache), follower.cache.synced) == (0, False)
    blocked = view.blocked()
    assert blocked is not None and "more than 16 MiB in namespace flood" in blocked.message
