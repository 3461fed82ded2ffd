"""Faults by chance that can be had again."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from fleet.cli import run
from fleet.errors import ConfigurationError
from fleet.lab.faults.registry import load_verbs
from fleet.lab.faults.schedule import Schedule

KINDS = {kind for verb in load_verbs() for kind in verb.kinds}
PLAN = Schedule(7, "lab", ("pod/web-0", "node/lab-node-1", "volume/data", "kube-apiserver"), length=600)


def test_the_same_seed_and_description_give_the_same_events() -> None:
    assert PLAN.events() == PLAN.events()
    assert PLAN.events() != replace(PLAN, seed=8).events()
    assert [str(event) for event in replace(PLAN, length=60).events()] == [
        str(event) for event in PLAN.events()[: len(replace(PLAN, length=60).events())]
    ]


def test_this_seed_gave_these_events_once_and_has_to_for_ever() -> None:
    events = Schedule(4711, "lab", ("pod/web-0", "node/lab-node-1"), length=40).events()
    assert [str(event) for event in events] == [
        "   3.18 s  kill-node node/lab-node-1  for 7.56 s",
        "  13.38 s  disturb pod/default/web-0 loss=0.1 seed=3325814185  for 4.40 s",
        "  22.42 s  partition node/lab-node-1 from=kube-apiserver  for 9.11 s",
    ]


def test_one_fault_follows_the_other_within_the_time() -> None:
    events = PLAN.events()
    assert len(events) > 30
    for before, after in itertools.pairwise(events):
        assert before.at + before.seconds < after.at
    assert events[-1].at + events[-1].seconds <= 600
    assert {event.fault.kind for event in events} <= KINDS


def test_only_what_can_be_undone_is_chosen_unless_it_is_asked_for() -> None:
    kinds = {event.fault.kind for event in replace(PLAN, length=5000).events()}
    assert kinds.isdisjoint({"lose-volume", "corrupt-volume"})
    assert {"kill-pod", "freeze-node", "partition", "disturb", "fill-volume", "kill-program"} <= kinds
    assert {event.fault.kind for event in replace(PLAN, only=("lose",)).events()} == {"lose-volume", "lose-node"}


def test_an_api_server_can_fail_in_its_own_ways_when_that_is_asked_for() -> None:
    ways = ("fail", "slow", "forget", "skew")
    events = replace(PLAN, only=ways, length=2000).events()
    assert {event.fault.kind for event in events} == {"fail-api", "slow-api", "forget-api", "skew-leases"}
    assert {event.fault.targets for event in events} == {("kube-apiserver",)}
    assert all(event.seconds > 0 for event in events)
    with pytest.raises(ConfigurationError, match="can happen to any of the targets"):
        replace(PLAN, only=ways, targets=("etcd", "pod/web-0")).events()


def test_what_happens_once_has_no_end() -> None:
    events = replace(PLAN, only=("kill",), length=2000).events()
    assert {event.seconds == 0 for event in events if event.fault.kind == "kill-pod"} == {True}
    assert {event.seconds > 0 for event in events if event.fault.kind == "kill-node"} == {True}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(PLAN, only=("explode",)), "'explode' is nothing that can be chosen"),
        (replace(PLAN, only=("fill",), targets=("pod/web-0",)), "can happen to any of the targets"),
        (replace(PLAN, targets=("thing",)), "is nothing that a fault can happen to"),
        (replace(PLAN, pause=0), "have to last a while"),
        (replace(PLAN, lasts=(5, 2)), "have to last a while"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Schedule, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        wrong.events()


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "fault", "--help"]) == 0
    said = capsys.readouterr().out
    for command in (
        "kill",
        "freeze",
        "stop",
        "partition",
        "disturb",
        "fill",
        "corrupt",
        "lose",
        "list",
        "clear",
        "run",
    ):
        assert f"\n  {command} " in said
