"""Whether a stack may be taken back by itself, and to what: from data."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import Source
from fleet.objects.desired import Desired, Object
from fleet.objects.redaction import BUILT_IN
from fleet.preview.compare import plan_difference
from fleet.sync.result import ObjectHealth
from fleet.sync.rollout.rollback import (
    CommitHistory,
    NoRollbackError,
    check_cause,
    check_data,
    find_way_back,
    is_rollback,
    rollback_trailer,
)

NOW = CommitHistory("n" * 40, was_well=False, same=True)  # the commit that made a cluster ill
NEIGHBOUR = CommitHistory("m" * 40, was_well=True, same=True)  # before it: another stack's commit, on the same files
GOOD = CommitHistory("g" * 40, was_well=True, same=False)
BAD = CommitHistory("b" * 40, was_well=False, same=False)
FORMER = CommitHistory("f" * 40, was_well=True, same=True)  # it stood on today's files before, and was well


def test_it_goes_back_to_the_commit_before_with_other_files_if_that_was_well() -> None:
    assert find_way_back([NOW, GOOD, BAD], is_rollback=False) == GOOD.revision
    assert find_way_back([NOW, NEIGHBOUR, GOOD], is_rollback=False) == GOOD.revision, (
        "what changed nothing of it is no step"
    )
    assert find_way_back([GOOD], is_rollback=False) == GOOD.revision, "nothing was written about the newest yet"


@pytest.mark.parametrize(
    ("past", "why"),
    [
        pytest.param([], "no earlier commit of it is known", id="its first commit"),
        pytest.param([NOW, NEIGHBOUR], "no earlier commit of it is known", id="always the same files"),
        pytest.param([NOW, BAD, GOOD], "it was not well at bbbbbbbb either", id="ill before"),
        pytest.param([NOW, BAD, FORMER], "as they were at ffffffff, where it was well", id="a revert that is ill"),
        pytest.param(
            [NOW, GOOD, FORMER], "as they were at ffffffff, where it was well", id="two that are both called well"
        ),
    ],
)
def test_else_it_stays_and_says_why(past: list[CommitHistory], why: str) -> None:
    with pytest.raises(NoRollbackError, match=why):
        find_way_back(past, is_rollback=False)


def test_a_rollback_is_never_rolled_back() -> None:
    with pytest.raises(NoRollbackError, match="is a rollback already"):
        find_way_back([NOW, GOOD], is_rollback=True)
    said = f"Roll back orders to 12345678\n\nAs of …\n\n{rollback_trailer('orders', 'a' * 40)}"
    assert is_rollback(said, "orders")
    assert not is_rollback(said, "order")
    assert not is_rollback("Roll back orders to 12345678\n", "orders")


def wants(*manifests: dict[str, Any]) -> Desired:
    return Desired("orders", "eu", tuple(Object(one, Source("stacks/orders.py", 1), _app(one)) for one in manifests))


def _app(manifest: dict[str, Any]) -> str:
    return "Etcd" if manifest["kind"] == "Etcd" else ""


def thing(kind: str, name: str, group: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, **fields}


def settings(value: str, name: str = "settings") -> dict[str, Any]:
    return thing("ConfigMap", name, data={"a": value})


def web(reads: str, name: str = "web") -> dict[str, Any]:
    source = {"envFrom": [{"configMapRef": {"name": reads}}]}
    return thing("Deployment", name, "apps/v1", spec={"template": {"spec": {"containers": [source]}}})


def etcd(members: int, **volume: str) -> dict[str, Any]:
    spec = {"version": "3.5", "members": members, "storage": "1Gi", **({"volume": volume} if volume else {})}
    return thing("Etcd", "carts", "fleet.dev/v1alpha1", spec=spec)


def ill(kind: str, name: str) -> ObjectHealth:
    return ObjectHealth(kind, "shop", name, "Degraded", "it is not ready")


@pytest.mark.parametrize(
    ("before", "after", "objects"),
    [
        pytest.param([web("a")], [web("b")], [ill("Deployment", "web")], id="what changed is ill"),
        pytest.param([], [web("a")], [ill("Deployment", "web")], id="it is new"),
        pytest.param(
            [settings("1"), web("settings")], [settings("2"), web("settings")], [ill("Deployment", "web")],
            id="it reads it",
        ),
        pytest.param(
            [settings("1"), web("settings"), thing("Pod", "probe", spec={"url": "http://web.shop.svc:80"})],
            [settings("2"), web("settings"), thing("Pod", "probe", spec={"url": "http://web.shop.svc:80"})],
            [ill("Pod", "probe")],
            id="it calls what reads it",
        ),
        pytest.param(
            [web("a")], [web("a"), thing("NetworkPolicy", "none", "networking.k8s.io/v1")], [ill("Deployment", "web")],
            id="what acts on all of the namespace",
        ),
        pytest.param([settings("1")], [settings("2")], [], id="nobody knows which are ill"),
    ],
)  # fmt: skip
def test_a_change_can_be_the_cause_of_what_it_touched_and_of_what_depends_on_that(
    before: list[dict[str, Any]], after: list[dict[str, Any]], objects: list[ObjectHealth]
) -> None:
    check_cause(wants(*before), wants(*after), objects)


@pytest.mark.parametrize(
    ("before", "after", "objects", "why"),
    [
        pytest.param(
            [settings("1"), web("other")], [settings("2"), web("other")], [ill("Deployment", "web")],
            "touched neither Deployment shop/web, which is Degraded, nor what it depends on", id="another object",
        ),
        pytest.param([web("a")], [web("a")], [ill("Deployment", "web")], "touched nothing of it in eu", id="nothing"),
        pytest.param([web("a")], [web("a")], [], "touched nothing of it in eu", id="nothing there, and nobody knows"),
    ],
)  # fmt: skip
def test_what_it_did_not_touch_has_another_cause(
    before: list[dict[str, Any]], after: list[dict[str, Any]], objects: list[ObjectHealth], why: str
) -> None:
    with pytest.raises(NoRollbackError, match=why):
        check_cause(wants(*before), wants(*after), objects)


def cnpg(**spec: Any) -> dict[str, Any]:
    return thing("Cluster", "orders", "postgresql.cnpg.io/v1", spec={"instances": 3, **spec})


CNPG = cnpg()
SNAPSHOT = thing("VolumeSnapshot", "orders", "snapshot.storage.k8s.io/v1")


@pytest.mark.parametrize(
    ("now", "then", "why"),
    [
        pytest.param(
            [etcd(5)], [etcd(3)], r"Etcd.*shop/carts: scale 5 → 3.*the data of 2 members.*fleet rollback orders",
            id="members",
        ),
        pytest.param(
            [settings("1"), etcd(3, onDelete="delete")], [settings("1")],
            r"data deleted: the app with its volumes.*fleet rollback orders", id="an app with its volumes",
        ),
        pytest.param(
            [settings("1"), CNPG], [settings("1")],
            r"delete .*Cluster.*shop/orders in eu.* its operator .* not known.*fleet rollback orders",
            id="another operator's resource",
        ),
        pytest.param(
            [cnpg(instances=5)], [CNPG], r"ask for less in spec\.instances of .*Cluster.*shop/orders in eu.* not known",
            id="members of another operator's",
        ),
        pytest.param(
            [cnpg(storage={"size": "2Ti"})], [cnpg(storage={"size": "900Gi"})], r"ask for less in spec\.storage",
            id="a volume of another operator's",
        ),
        pytest.param(
            [cnpg(pools=[{"name": "a"}, {"name": "b"}])], [cnpg(pools=[{"name": "a"}])], r"ask for less in spec\.pools",
            id="an entry of another operator's",
        ),
        pytest.param([cnpg(databases={"a": "b"})], [CNPG], r"ask for less in spec\.databases", id="what was not said"),
        pytest.param(
            [settings("1"), SNAPSHOT], [settings("1")], "delete .*VolumeSnapshot",
            id="a group that ends as those of Kubernetes do",
        ),
    ],
)  # fmt: skip
def test_the_way_back_takes_no_data_away_and_says_what_to_do(
    now: list[dict[str, Any]], then: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(NoRollbackError, match=why):
        check_data(plan_difference(wants(*now), wants(*then), BUILT_IN))


@pytest.mark.parametrize(
    ("now", "then"),
    [
        pytest.param([etcd(3)], [etcd(5)], id="members come"),
        pytest.param([etcd(5, onScaleIn="keep")], [etcd(3, onScaleIn="keep")], id="members go and their volumes stay"),
        pytest.param([settings("2"), web("a")], [settings("1")], id="a Deployment goes"),
        pytest.param([settings("1"), etcd(3)], [settings("1")], id="an app goes and its volumes stay"),
        pytest.param([settings("1"), CNPG], [settings("2"), CNPG], id="another operator's resource stays"),
        pytest.param(
            [cnpg(image="a:2", on=True)], [cnpg(image="a:1", on=False, instances=5)], id="another one asks for more"
        ),
    ],
)
def test_a_way_back_that_takes_no_data_away_is_gone(now: list[dict[str, Any]], then: list[dict[str, Any]]) -> None:
    check_data(plan_difference(wants(*now), wants(*then), BUILT_IN))
