"""A member may run any image and say anything: an answer is bounded, and is none unless etcd could have said it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from aiohttp import web

from fleet.apps.etcd.engine.protocol import Endpoint, Etcd, MemberStatus, Unreachable
from fleet.kit.members import read
from fleet.kit.step import Apply
from tests.operator.etcd.observations import Drawing

MEBI = 1 << 20
STATUS = {
    "header": {"cluster_id": "12", "member_id": "34", "revision": "5"},
    "leader": "34",
    "version": "3.5.16",
    "raftIndex": "9",
    "raftAppliedIndex": "9",
}
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


async def asked(handler: Handler, call: Callable[[Etcd, Endpoint], Awaitable[Any]]) -> Any:
    """What a client makes of a member that answers so."""
    server = web.ServerRunner(web.Server(handler))
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    port = server.addresses[0][1]
    try:
        async with Etcd(None, seconds=5) as etcd:
            return await call(etcd, Endpoint("127.0.0.1", port, "m0"))
    finally:
        await server.cleanup()


def says(body: bytes, **headers: str) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, headers=headers)

    return handler


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"[" * MEBI)


def status(etcd: Etcd, place: Endpoint) -> Awaitable[MemberStatus]:
    return etcd.status(place)


def test_an_answer_of_etcd_is_understood() -> None:
    found = asyncio.run(asked(says(json.dumps(STATUS).encode()), status))
    assert (found.version, found.member_id, found.leads) == ("3.5.16", 34, True)


@pytest.mark.parametrize(
    "handler",
    [
        says(b"[" + b"[]," * (5 * MEBI) + b"[]]"),
        says(b'{"version": "' + b"3" * (15 * MEBI) + b'"}'),
        says(gzip.compress(b" " * (256 * MEBI)), **{"Content-Encoding": "gzip"}),
        endless,
    ],
    ids=["values", "text", "compressed", "endless"],
)
def test_a_long_answer_is_given_up_before_it_is_held(handler: Handler) -> None:
    with pytest.raises(Unreachable, match=r"longer than 256 KiB|not etcd's answer"):
        asyncio.run(asked(handler, status))


def test_a_compressed_answer_is_not_unfolded() -> None:
    body, before = gzip.compress(b" " * (200 * MEBI)), psutil.Process().memory_info().rss
    with pytest.raises(Unreachable):
        asyncio.run(asked(says(body, **{"Content-Encoding": "gzip"}), status))
    assert psutil.Process().memory_info().rss - before < 100 * MEBI


@pytest.mark.parametrize(
    "odd",
    [
        {"header": "x"},
        {"header": []},
        {"leader": "x"},
        {"leader": "-1"},
        {"raftIndex": "9" * 400},
        {"raftIndex": 1e300},
        {"raftIndex": {}},
        {"version": "three"},
        {"version": ""},
        {"version": "3.5.16\n3.6"},
        {"errors": "x" * 1000},
        {"errors": ["x"] * 1000},
        {"downgradeInfo": {"enabled": True, "targetVersion": "x"}},
        {"storageVersion": {"a": 1}},
    ],
    ids=str,
)
def test_an_answer_of_another_kind_is_none(odd: dict[str, Any]) -> None:
    with pytest.raises(Unreachable, match="an answer that is not etcd's"):
        asyncio.run(asked(says(json.dumps({**STATUS, **odd}).encode()), status))


def test_a_list_of_more_members_than_any_etcd_has_is_no_answer() -> None:
    body = json.dumps({"header": {"revision": "5"}, "members": [{"ID": str(n)} for n in range(65)]}).encode()

    def members(etcd: Etcd, place: Endpoint) -> Awaitable[Any]:
        return etcd.members(place)

    with pytest.raises(Unreachable, match="members is no list of 64 at most"):
        asyncio.run(asked(says(body), members))


def test_a_stateful_set_of_two_thousand_million_pods_is_looked_at_in_part() -> None:
    """Whoever may write StatefulSets can ask for it; the operator scales it in, from the highest that it looks at."""
    drawing = Drawing()
    assert drawing.set is not None
    drawing.set["spec"]["replicas"] = 2_000_000_000
    decision = drawing.decision()
    assert len(drawing.seen().pods) == 64
    (applied,) = decision.steps
    assert isinstance(applied, Apply) and applied.manifest["spec"]["replicas"] == 63


def test_a_ledger_of_thousands_of_members_is_none() -> None:
    places = {f"db-{number}": {"phase": "settled"} for number in range(65)}
    with pytest.raises(ValueError, match="64 is the most"):
        read(json.dumps({"identity": "c1", "places": places}))
