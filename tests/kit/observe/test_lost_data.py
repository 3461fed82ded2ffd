"""When the last words of a member say for certain that its data is lost: here in the words of a Redis."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.kit.observe.lost_data import OUT_OF_REACH, LastWords, find_lost_data
from fleet.kit.observe.observation import MemberState, Observation, role_spec
from fleet.kit.observe.world import World
from tests.kit.pair import PAIR, Pair, app

WORDS = LastWords(
    unusable=re.compile("Bad file format|Short read"),
    certain=re.compile("my volume was another's"),
    panic=re.compile("^aof_panic", re.MULTILINE),
    panic_words="panic: Bad file format",
)
TORN = "Error: Bad file format reading the append only file"


def observe(log: str, *, restarts: int = 5, running: bool = False, leaving: bool = False) -> Observation[Pair]:
    status: dict[str, Any] = {
        "name": "pair",
        "restartCount": restarts,
        "state": {"running": {}} if running else {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": log}},
    }
    pod: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": "cache-0", **({"deletionTimestamp": "now"} if leaving else {})},
        "status": {"containerStatuses": [status]},
    }
    return Observation(app(), World.of([pod], None, World({}).now), None, role_spec(PAIR, app()))


def test_a_member_that_starts_in_vain_again_and_again_says_why() -> None:
    reason = find_lost_data(observe(TORN), "cache-0", WORDS)
    assert reason is not None and "Bad file format" in reason


@pytest.mark.parametrize(
    "observation",
    [
        observe(TORN, restarts=1),
        observe(TORN, running=True),
        observe(TORN, leaving=True),
        observe("Error: no such option"),
        observe(f"{TORN}: Input/output error"),
        observe(f"{TORN}\nwrite: no space left on device"),
        observe(""),
    ],
    ids=["first", "runs", "leaves", "option", "disk", "full", "nothing"],
)
def test_any_doubt_is_none(observation: Observation[Pair]) -> None:
    assert find_lost_data(observation, "cache-0", WORDS) is None


def test_who_answers_has_its_data() -> None:
    observation = observe(TORN)
    answering = Observation(
        observation.app, observation.world, None, observation.role, {"cache-0": MemberState(role="replica")}
    )
    assert find_lost_data(answering, "cache-0", WORDS) is None
    assert find_lost_data(observation, "cache-7", WORDS) is None  # it has no pod


def test_what_is_certain_needs_no_second_try() -> None:
    assert find_lost_data(observe("Error: my volume was another's", restarts=0), "cache-0", WORDS) is not None


def test_a_panic_that_was_cut_off_is_known_by_its_beginning() -> None:
    reason = find_lost_data(observe("goroutine 1\naof_panic(0x1"), "cache-0", WORDS)
    assert reason is not None and "panic: Bad file format" in reason


@pytest.mark.parametrize("words", ["Permission denied", "read-only file system", "stale NFS file handle"])
def test_what_the_system_says_is_out_of_reach_for_all_engines(words: str) -> None:
    assert OUT_OF_REACH.search(f"open /data: {words}")
