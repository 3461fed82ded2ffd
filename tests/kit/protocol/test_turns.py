"""Whom to ask for what concerns a whole cluster."""

from __future__ import annotations

import asyncio

import pytest

from fleet.kit.observe.observation import Agreement, MemberState, Observation, role_spec
from fleet.kit.observe.world import World
from fleet.kit.protocol.endpoint import Endpoint, MemberRefused
from fleet.kit.protocol.turns import ask_in_turn, pods_to_ask
from tests.kit.pair import PAIR, app

ENDPOINTS = [Endpoint("127.0.0.1", 7000, f"cache-{number}") for number in range(3)]


def ask(refusals: dict[str, str]) -> list[str]:
    """Ask three members of which some refuse; return who was asked."""
    asked: list[str] = []

    async def request(endpoint: Endpoint) -> None:
        asked.append(endpoint.name)
        if endpoint.name in refusals:
            raise MemberRefused(endpoint, 1, refusals[endpoint.name])

    asyncio.run(ask_in_turn(ENDPOINTS, request, lambda refusal: refusal.says("unsure")))
    return asked


def test_the_first_that_is_sure_is_enough() -> None:
    assert ask({}) == ["cache-0"]
    assert ask({"cache-0": "unsure"}) == ["cache-0", "cache-1"]


@pytest.mark.parametrize(
    "refusals",
    [{"cache-0": "no"}, {"cache-0": "unsure", "cache-1": "no"}, {f"cache-{number}": "unsure" for number in range(3)}],
)
def test_a_refusal_that_is_certain_or_the_last_is_raised(refusals: dict[str, str]) -> None:
    with pytest.raises(MemberRefused, match="no" if "no" in refusals.values() else "unsure"):
        ask(refusals)


def test_the_leader_is_asked_first_and_nobody_who_did_not_answer() -> None:
    states = {"cache-0": MemberState(), "cache-2": MemberState(leads=True)}
    agreement = Agreement({f"cache-{number}": "" for number in range(3)})
    observation = Observation(app(), World({}), None, role_spec(PAIR, app()), states, {}, agreement)
    assert pods_to_ask(observation) == ["cache-2", "cache-0"]
