"""The order of concerns, which is the core's and the same for every engine."""

from __future__ import annotations

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.kit.order import Concern, decide
from fleet.kit.step import Decision, State, wait
from tests.operator.etcd.observations import IMAGES, Drawing

AT_REST = Decision(State.OK, "Healthy", "")


def says(reason: str) -> Decision:
    return wait(State.DEGRADED, reason, "")


def test_the_first_concern_that_has_something_to_do_decides_in_whatever_order_an_engine_names_them() -> None:
    asked: list[str] = []

    def look(name: str, decision: Decision | None) -> Decision | None:
        asked.append(name)
        return decision

    named = {
        Concern.ROLL: (lambda: look("roll", says("Rolling")),),
        Concern.REPAIR: (lambda: look("first", None), lambda: look("second", says("Replacing"))),
        Concern.QUORUM: (lambda: look("quorum", None),),
    }
    assert decide(named, AT_REST).reason == "Replacing"
    assert asked == ["quorum", "first", "second"], "what comes later is not even asked"


def test_when_every_concern_is_satisfied_the_app_is_at_rest() -> None:
    assert decide({Concern.SPACE: (lambda: None,)}, AT_REST) is AT_REST


def test_data_comes_before_availability_and_both_before_any_change() -> None:
    order = list(Concern)
    protective = order[: order.index(Concern.TIDYING)]
    changing = order[order.index(Concern.TIDYING) :]
    assert {Concern.RECOVERY, Concern.QUORUM, Concern.CORRUPTION, Concern.SPACE, Concern.REPAIR} <= {*protective}
    assert {Concern.OPERATIONS, Concern.VOLUMES, Concern.SCALE, Concern.ROLL} <= {*changing}
    assert order.index(Concern.RECOVERY) < order.index(Concern.QUORUM) < order.index(Concern.CORRUPTION)
    assert order.index(Concern.CORRUPTION) < order.index(Concern.SPACE) < order.index(Concern.REPAIR)
    assert order.index(Concern.REPAIR) < order.index(Concern.LEAVING) < order.index(Concern.JOINING)


def test_etcd_has_an_answer_to_every_concern() -> None:
    assert {*EtcdEngine(IMAGES).concerns(Drawing().seen())} == {*Concern}
