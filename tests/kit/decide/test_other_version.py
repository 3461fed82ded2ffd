"""Members whose image gives another version than git says, of a type with two roles: a person is told what to name."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kit.decide.other_version import refuse_other_version
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import MemberState, Observation, role_spec
from fleet.kit.observe.world import World
from tests.kit.pair import PAIR, Pair, app

IMAGE = "docker.io/library/redis:7.4.2"


def observe(wanted: Pair, *versions: str) -> Observation[Pair]:
    pods: list[dict[str, Any]] = [
        {
            "kind": "Pod",
            "metadata": {"name": f"cache-{number}", "labels": {}},
            "spec": {"containers": [{"name": "pair", "image": IMAGE}]},
        }
        for number in range(len(versions))
    ]
    states = {f"cache-{number}": MemberState(version=version) for number, version in enumerate(versions)}
    return Observation(wanted, World.of(pods, None, World({}).now), None, role_spec(PAIR, wanted), states)


@pytest.mark.parametrize("versions", [("7.4.2", "7.4.2"), ("7.4.1", "7.4.2")])
def test_any_patch_of_a_series_will_do(versions: tuple[str, ...]) -> None:
    assert refuse_other_version(observe(app(), *versions), Answers(PAIR)) is None


def test_an_exact_version_is_what_every_member_says() -> None:
    assert refuse_other_version(observe(app(version="7.4.2"), "7.4.2", "7.4.2"), Answers(PAIR)) is None
    assert refuse_other_version(observe(app(version="7.4.2"), "7.4.2", ""), Answers(PAIR)) is None  # it does not say


@pytest.mark.parametrize(
    ("template", "advice"),
    [
        ("own.example/redis:{version}", "its name does not say what is in it: name another one with `image`"),
        ("own.example/redis:{tag}", "its name does not say what is in it: name another one with `image`"),
        ("own.example/redis:newest", "the operator has one image for all of 7 (own.example/redis:newest)"),
    ],
)
def test_another_patch_is_refused_with_what_to_do(template: str, advice: str) -> None:
    observation = observe(app(version="7.4.2"), "7.4.2", "7.4.9")
    decision = refuse_other_version(observation, Answers(PAIR, {"pair": template}))
    assert decision is not None and decision.reason == "OtherVersion"
    assert "gives 7.4.9, and git says 7.4.2" in decision.message and advice in decision.message


def test_a_hop_that_no_roll_brings_is_refused() -> None:
    decision = refuse_other_version(observe(app(version="8"), "7.4.2", "7.4.2"), Answers(PAIR))
    assert decision is not None and decision.reason == "NoWay"
    assert decision.message == "image docker.io/library/redis:8.0.2 gives 7.4.2, and git says 8"
