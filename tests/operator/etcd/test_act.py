"""Whom the operator asks to change etcd's list of members, and what it makes of a refusal.

Each member judges by its own connections whether the list may change, and can be wrong about a peer for as long as it
runs (a message that fails late marks as silent a peer that speaks again over another connection). Nobody can bring a
real etcd there on purpose, so what a member says is written here, in etcd's own words; that etcd says them is shown in
test_protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from fleet.apps.etcd.engine.act import act
from fleet.apps.etcd.engine.protocol import Etcd, Refused
from fleet.apps.etcd.files import quota
from fleet.kit.step import Act, NotYetError
from tests.operator.etcd.observations import Drawing, app, member_id

UNHEALTHY = "etcdserver: unhealthy cluster"
DONE = ""


@dataclass
class Talk:
    """Who was asked what, in order."""

    asked: list[tuple[str, str]] = field(default_factory=list)


@asynccontextmanager
async def member(address: str, says: str, talk: Talk) -> AsyncIterator[None]:
    async def answer(request: web.BaseRequest) -> web.Response:
        talk.asked.append((address, request.path.rpartition("/")[2]))
        if says == DONE:
            return web.json_response({"member": {"ID": "1"}})
        return web.json_response({"error": says, "message": says, "code": 14}, status=503)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, address, 2379).start()
    try:
        yield
    finally:
        await runner.cleanup()


def asked(what: str, *says: str, leader: int = 0, **arguments: Any) -> Sequence[tuple[str, str]]:
    """The members' answers, by ordinal → who was asked what."""
    drawing, talk = Drawing(app(tls={"enabled": False}), leader=leader), Talk()
    addresses = [f"127.17.0.{number + 1}" for number in range(3)]
    for pod, address in zip(drawing.pods.values(), addresses, strict=True):
        pod["status"]["podIP"] = address

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for address, words in zip(addresses, says, strict=True):
                await stack.enter_async_context(member(address, words, talk))
            async with Etcd(None) as etcd:
                await act(etcd, drawing.seen(), Act(what, arguments))

    asyncio.run(run())
    return talk.asked


CHANGES = [("announce", {"pod": "db-3"}), ("drain", {"member": "7"}), ("vote", {"member": "7"})]
WORDS = {"announce": "add", "drain": "remove", "vote": "promote"}  # etcd's own


@pytest.mark.parametrize(("what", "arguments"), CHANGES)
def test_the_leader_is_asked_and_nobody_else_when_it_agrees(what: str, arguments: dict[str, Any]) -> None:
    assert asked(what, DONE, DONE, DONE, leader=1, **arguments) == [("127.17.0.2", WORDS[what])]


@pytest.mark.parametrize(("what", "arguments"), CHANGES)
def test_what_one_finds_unhealthy_another_may_grant(what: str, arguments: dict[str, Any]) -> None:
    spoken = asked(what, UNHEALTHY, UNHEALTHY, DONE, **arguments)
    assert spoken == [(f"127.17.0.{number}", WORDS[what]) for number in (1, 2, 3)]


def test_when_all_refuse_it_is_for_later() -> None:
    with pytest.raises(NotYetError, match="in touch"):
        asked("announce", UNHEALTHY, UNHEALTHY, UNHEALTHY, pod="db-3")


def test_another_refusal_is_the_answer_and_is_asked_of_nobody_else() -> None:
    with pytest.raises(Refused, match="too many requests"):
        asked("announce", "etcdserver: too many requests", DONE, DONE, pod="db-3")


def test_a_learner_that_has_not_caught_up_is_not_called_promoted() -> None:
    with pytest.raises(NotYetError, match="in sync"):
        asked(
            "vote",
            "etcdserver: can only promote a learner member which is in sync with leader",
            DONE,
            DONE,
            member="7",
        )


def test_leadership_that_has_moved_by_itself_is_not_called_moved() -> None:
    with pytest.raises(NotYetError, match="db-0 does not lead any more"):
        asked("lead", "etcdserver: not leader", DONE, DONE, pod="db-1")


def test_a_downgrade_that_is_over_needs_not_be_taken_back() -> None:
    spoken = asked("no-downgrade", "etcdserver: no inflight downgrade job", DONE, DONE)
    assert spoken == [("127.17.0.1", "downgrade")]


def test_one_member_is_made_smaller_in_a_pass_and_writes_are_let_in_after_the_last() -> None:
    """A large member takes minutes for it, and a pass has its end: nothing is begun that cannot be finished."""
    drawing = Drawing(app(tls={"enabled": False}), leader=0).alarm("NOSPACE", member_id(1))
    limit = quota(drawing.app)
    sizes = {f"127.17.0.{number + 1}": limit for number in range(3)}
    for pod, address in zip(drawing.pods.values(), sizes, strict=True):
        pod["status"]["podIP"] = address
    did: list[str] = []

    def member(address: str) -> web.Server:
        async def answer(request: web.BaseRequest) -> web.Response:
            what = request.path.rpartition("/")[2]
            if what == "defragment":
                sizes[address] = limit // 10
                did.append(f"{what} {address}")
            if what == "alarm":
                did.append(what)
            in_use = {"dbSize": str(sizes[address]), "dbSizeInUse": str(limit // 10)}
            return web.json_response({"header": {"revision": "7"}, "version": "3.5.16", **in_use})

        return web.Server(answer)

    async def run() -> list[list[str]]:
        passes = []
        async with AsyncExitStack() as stack:
            for address in sizes:
                runner = web.ServerRunner(member(address))
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.TCPSite(runner, address, 2379).start()
            async with Etcd(None) as etcd:
                for _ in range(3):
                    await act(etcd, drawing.seen(), Act("free-space"))
                    passes.append(did.copy())
                    did.clear()
        return passes

    assert asyncio.run(run()) == [
        ["defragment 127.17.0.2"],
        ["defragment 127.17.0.3"],
        ["defragment 127.17.0.1", "alarm"],
    ]
