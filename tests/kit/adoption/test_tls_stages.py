"""The stages of TLS for members that others set up: of a Redis, whose layout says how far it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fleet.kit.adoption.encryption import Stage
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.tls_stages import TlsStages
from fleet.kit.members import LEDGER
from fleet.kit.names import AdoptedSet, adopted_sets, lay_out
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import Object
from fleet.kit.step import Act, Apply, Decision, State, step
from fleet.model.app_settings import TLS
from tests.kit.pair import PAIR, Pair
from tests.kit.test_adoption import running_pair

ANSWERS = Answers(PAIR)


@dataclass(frozen=True, slots=True)
class StagedSets:
    """The sets of a `Pair`, and how far TLS of its members is."""

    sets: Mapping[str, AdoptedSet]
    secured: Stage = ""
    tls: bool = False


class StagedRules(AdoptionRules[Pair, StagedSets]):
    def dump_layout(self, layout: StagedSets) -> dict[str, Any]:
        return {"secured": layout.secured}


class PairStages(TlsStages[Pair, StagedSets]):
    too_old = "serves both only from 7.2 on"

    def __init__(self, moves: bool = False) -> None:
        super().__init__(StagedRules(PAIR))
        self.moves = moves

    def serves_both(self, version: str) -> bool:
        return not version.startswith("7.0")

    def at(self, layout: StagedSets, stage: Stage, template: Object) -> StagedSets:
        return replace(layout, secured=stage)

    def readdress(self, observation: Observation[Pair], app: Pair) -> Decision | None:
        moving = Act("readdress", {"pod": observation.voters[0]}, "Readdressed", "")
        return step(State.PROGRESSING, "Encrypting", "moves", moving) if self.moves else None


def observe(secured: Stage, *, wanted: bool = True, found: bool = False, **changes: Any) -> Observation[Pair]:
    """Return a pair that was taken over, at a stage; `wanted` is what git says of TLS."""
    running = running_pair()
    running.take()
    node = running.observations()[0]
    layout = StagedSets(adopted_sets(node.app), secured, found)
    app = lay_out(node.app.model_copy(update={"tls": TLS(enabled=wanted)}), layout)
    states = {pod: replace(state, **changes) for pod, state in node.states.items()}
    return replace(node, app=app, states=states)


def stage_noted(decision: Decision | None) -> str:
    """Return the stage that a decision writes into the ledger."""
    assert decision is not None
    (applied,) = decision.steps
    assert isinstance(applied, Apply) and applied.manifest["kind"] == "ConfigMap"
    layout: dict[str, str] = json.loads(applied.manifest["metadata"]["annotations"][LEDGER])["layout"]
    return layout["secured"]


def test_every_stage_is_noted_before_anything_follows_from_it() -> None:
    stages = PairStages()
    assert stage_noted(stages.begin(observe(""), ANSWERS)) == "opening"
    assert stage_noted(stages.end(observe("opening"), ANSWERS)) == "open"
    assert stage_noted(stages.begin(observe("open"), ANSWERS)) == "closing"
    assert stage_noted(stages.end(observe("closing"), ANSWERS)) == "closed"


@pytest.mark.parametrize("stage", ["", "open", "closed"])
def test_what_rolls_begin_no_end_of_a_roll_notes(stage: Stage) -> None:
    assert PairStages().end(observe(stage), ANSWERS) is None


@pytest.mark.parametrize("stage", ["opening", "closing", "closed"])
def test_what_has_begun_is_not_begun_again(stage: Stage) -> None:
    assert PairStages().begin(observe(stage), ANSWERS) is None


def test_members_move_before_the_roll_and_before_it_is_closed() -> None:
    for decision in (
        PairStages(moves=True).begin(observe("closing"), ANSWERS),
        PairStages(moves=True).end(observe("closing"), ANSWERS),
    ):
        assert decision is not None and [type(step) for step in decision.steps] == [Act]


@pytest.mark.parametrize("stage", ["", "opening", "open", "closing"])
def test_nothing_begins_or_ends_while_a_member_is_not_well(stage: Stage) -> None:
    unwell = observe(stage, obstacle="it loads")
    assert PairStages().begin(unwell, ANSWERS) is None
    assert PairStages().end(unwell, ANSWERS) is None


def test_it_is_taken_back_only_while_no_pod_was_touched() -> None:
    assert stage_noted(PairStages().begin(observe("opening", wanted=False), ANSWERS)) == ""
    decision = PairStages().begin(observe("open", wanted=False), ANSWERS)
    assert decision is not None and (decision.reason, decision.steps) == ("StaysEncrypted", ())


def test_releases_that_serve_nobody_both_ways_are_upgraded_first() -> None:
    old = observe("", version="7.0.1")
    assert not PairStages().is_wanted(old)
    decision = PairStages().begin(old, ANSWERS)
    assert decision is not None and decision.reason == "NeedsUpgrade"
    assert "TLS waits: Pair 7.0.1 serves both only from 7.2 on" in decision.message


def test_nothing_is_done_where_git_says_nothing_or_tls_was_found() -> None:
    for observation in (observe("", wanted=False), observe("", found=True), observe("", wanted=False, found=True)):
        assert not PairStages().is_wanted(observation)
        assert PairStages().begin(observation, ANSWERS) is None
        assert PairStages().end(observation, ANSWERS) is None
        assert PairStages().pending(observation) is None


@pytest.mark.parametrize(
    ("observation", "reason"),
    [
        (observe("", version="7.0.1"), "NeedsUpgrade"),
        (observe(""), "Rolling"),
        (observe("opening"), "Rolling"),
        (observe("open"), "NextRoll"),
        (observe("closing"), "Rolling"),
        (observe("closed"), None),
    ],
    ids=["old", "", "opening", "open", "closing", "closed"],
)
def test_the_status_says_what_is_still_to_come(observation: Observation[Pair], reason: str | None) -> None:
    pending = PairStages().pending(observation)
    assert (pending.reason if pending is not None else None) == reason
