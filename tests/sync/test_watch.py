"""What has happened between two looks at a fleet, from data."""

from __future__ import annotations

from dataclasses import replace

from fleet.sync.observe import Observed
from fleet.sync.outcome import ObjectHealth
from fleet.sync.watch import Sight, Warn, happened

ETCD = ObjectHealth("Etcd", "orders", "registry", "Healthy", "", "3.6.1", True, "3/3", "yes")
WELL = Observed("orders", "eu", "a" * 40, "Healthy", (ETCD,))


def sight(*stacks: Observed, failed: dict[str, str] | None = None, warnings: frozenset[Warn] = frozenset()) -> Sight:
    return Sight({(one.stack, one.cluster): one for one in stacks}, failed or {}, warnings)


def test_the_first_look_says_how_everything_is() -> None:
    assert happened(None, sight(WELL, failed={"us": "no route"})) == [
        "us: cannot be asked: no route",
        "orders on eu: Healthy at aaaaaaaa",
    ]
    assert happened(sight(WELL), sight(WELL)) == []


def test_every_later_one_what_is_different() -> None:
    ill = ETCD._replace(state="Degraded", message="no quorum", members="1/3")
    now = replace(WELL, revision="b" * 40, health="Degraded", objects=(ill,), suspended="suspended by ada")
    warn = Warn("eu", "u", 1, "Pod orders/registry-0: BackOff: restarting")
    assert happened(sight(WELL), sight(now, warnings=frozenset({warn}))) == [
        "orders on eu: aaaaaaaa → bbbbbbbb",
        "orders on eu: Healthy → Degraded (Etcd orders/registry: no quorum)",
        "orders on eu: suspended by ada",
        "orders on eu: Etcd orders/registry 3.6.1 1/3 Degraded: no quorum",
        "eu: Pod orders/registry-0: BackOff: restarting",
    ]
    assert happened(sight(WELL), sight()) == ["orders on eu: is gone"]


def test_a_cluster_that_is_silent_is_told_once_and_so_is_its_return() -> None:
    silent = sight(WELL, failed={"eu": "no route"})
    assert happened(sight(WELL), silent) == ["eu: cannot be asked: no route"]
    assert happened(silent, silent) == []
    assert happened(silent, sight(WELL)) == ["eu: answers again"]
    assert (sight(WELL).is_well, silent.is_well) == (True, False)
