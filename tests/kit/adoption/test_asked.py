"""Discovery by what members answer: of NATS, whose servers say who they are and whom they know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fleet.kit.adoption.asked import AskedDiscovery, ListedAnswer, MemberAnswer
from fleet.kit.adoption.declared import DeclaredAdoption
from fleet.kit.adoption.discovery import Candidate
from fleet.kit.adoption.layout import FoundLayout
from fleet.kit.adoption.surroundings import Surroundings
from fleet.kit.driver import Problem
from tests.kit.nats import NATS, Nats
from tests.kit.test_adoption import broker


class AskedNats(AskedDiscovery[Nats, FoundLayout]):
    engine = "nats"

    def read_member(self, text: str) -> MemberAnswer:
        server = json.loads(text)
        role = "leader" if server["leader"] == server["id"] else "follower"
        return MemberAnswer(server["cluster"], server["id"], role, server["version"], bool(server["leader"]))

    def read_list(self, text: str) -> Sequence[ListedAnswer]:
        return [ListedAnswer(route["id"], (route["url"],)) for route in json.loads(text)["routes"]]

    def port(self, layout: FoundLayout) -> int:
        return layout.sets[""].port

    def check_size(self, replicas: int) -> Problem | None:
        return Problem("members", "it has four members") if replicas == 4 else None


def answers(count: int = 2, listed: int | None = None, **odd: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what pods answer; `odd` is what some say otherwise, by pod."""
    routes = [{"id": f"S{number}", "url": f"nats://messages-{number}"} for number in range(listed or count)]
    said = {}
    for number in range(count):
        server = {"cluster": "C1", "id": f"S{number}", "leader": "S0", "version": "2.10.18"}
        server |= odd.get(f"pod{number}", {})
        said[f"messages-{number}"] = [json.dumps(server), json.dumps({"routes": routes})]
    return said


def understand(said: Mapping[str, Sequence[str]], replicas: int = 2) -> Candidate | Problem:
    found = broker()
    found["spec"]["replicas"] = replicas
    return AskedNats(DeclaredAdoption(NATS)).understands(found, Surroundings(), said)


def test_members_that_agree_are_an_app() -> None:
    candidate = understand(answers())
    assert isinstance(candidate, Candidate), candidate
    assert (candidate.identity, candidate.version) == ("C1", "2.10.18")
    assert [(member.name, member.identity, member.role) for member in candidate.members] == [
        ("messages-0", "S0", "leader"),
        ("messages-1", "S1", "follower"),
    ]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({**answers(), "messages-1": ["<html>"]}, "messages-1 does not answer as nats does: <html>"),
        ({**answers(), "messages-1": []}, "messages-1 does not answer as nats does: nothing"),
        ({"messages-0": answers()["messages-0"]}, "messages-1 could not be asked"),
        (answers(pod1={"cluster": "C2"}), "members of different clusters"),
        (answers(pod1={"leader": ""}), "they have no leader"),
        (answers(pod1={"version": "2.11.1"}), "its members run two versions"),
        (answers(pod0={"version": "1.4.0"}, pod1={"version": "1.4.0"}), "fleet knows"),
        (answers(listed=3), "nats://messages-2 is a member too and no pod of messages"),
        ({pod: [texts[0], "timeout"] for pod, texts in answers().items()}, "no majority: timeout"),
        ({pod: texts[:1] for pod, texts in answers().items()}, "no majority: nothing"),
    ],
)
def test_what_contradicts_is_a_problem(said: dict[str, list[str]], message: str) -> None:
    problem = understand(said)
    assert isinstance(problem, Problem) and message in problem.message


def test_the_list_of_any_member_will_do() -> None:
    said = answers()
    said["messages-0"][1] = "timeout"
    assert isinstance(understand(said), Candidate)


def test_the_engine_says_which_sizes_there_are() -> None:
    problem = understand(answers(4), replicas=4)
    assert isinstance(problem, Problem) and problem.message == "it has four members"
    assert isinstance(understand({}, replicas=0), Problem)


def test_a_set_that_another_operator_runs_is_left_alone() -> None:
    found = broker()
    found["metadata"]["ownerReferences"] = [{"kind": "NatsCluster", "name": "messages", "controller": True}]
    problem = AskedNats(DeclaredAdoption(NATS)).understands(found, Surroundings(), answers(1))
    assert isinstance(problem, Problem) and problem.field == "owner"
