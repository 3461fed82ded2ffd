from __future__ import annotations

import asyncio

import pytest

from fleet.apply import order
from fleet.errors import ConfigurationError
from fleet.kube.concurrency import run_in_order
from fleet.objects.desired import Key
from fleet.plan.step import Step, Verb

SPACE = Key("", "Namespace", "", "orders")
CRD = Key("apiextensions.k8s.io", "CustomResourceDefinition", "", "etcds.fleet.dev")
ETCD = Key("fleet.dev", "Etcd", "orders", "db")
MAP = Key("", "ConfigMap", "orders", "a")
DEFINITION = {"spec": {"group": "fleet.dev", "names": {"kind": "Etcd"}}}


def step(key: Key, verb: Verb = Verb.CREATE, *after: Key) -> Step:
    return Step(verb, key, manifest=DEFINITION if key == CRD else {}, depends_on=after)


def test_definitions_come_before_their_objects_and_namespaces_before_what_is_in_them() -> None:
    before = order.order_changes([step(ETCD), step(MAP), step(SPACE), step(CRD)])
    assert before == {ETCD: {CRD, SPACE}, MAP: {SPACE}, SPACE: set(), CRD: set()}


def test_what_is_unchanged_is_not_waited_for() -> None:
    before = order.order_changes([step(SPACE, Verb.UNCHANGED), step(MAP, Verb.UPDATE), step(ETCD, Verb.UPDATE, MAP)])
    assert before == {MAP: set(), ETCD: {MAP}}


def test_a_namespace_is_deleted_after_what_is_in_it_and_dependents_before_their_dependency() -> None:
    steps = [step(SPACE, Verb.DELETE), step(MAP, Verb.DELETE, ETCD), step(ETCD, Verb.DELETE)]
    assert order.order_deletes(steps) == {SPACE: {MAP, ETCD}, MAP: {ETCD}, ETCD: set()}


def test_a_circle_is_refused_with_its_members() -> None:
    with pytest.raises(ConfigurationError, match=r"circle: ConfigMap orders/a, Etcd.fleet.dev orders/db"):
        order.order_changes([step(MAP, Verb.CREATE, ETCD), step(ETCD, Verb.CREATE, MAP)])


def keys(*names: str) -> list[Key]:
    return [Key("", "ConfigMap", "n", name) for name in names]


def walked(before: dict[Key, set[Key]], failing: set[Key], workers: int = 4) -> tuple[list[Key], dict[Key, str]]:
    done: list[Key] = []

    async def do(key: Key) -> str:
        await asyncio.sleep(0.001)
        done.append(key)
        return "failed" if key in failing else "done"

    results = asyncio.run(
        run_in_order(
            before,
            do,
            lambda key, cause: f"skipped for {cause.name}",
            succeeded=lambda result: result == "done",
            rank=order.rank,
            workers=workers,
        )
    )
    return done, results


def test_a_failure_stops_its_dependents_only() -> None:
    a, b, c, d, e = keys("a", "b", "c", "d", "e")
    done, results = walked({a: set(), b: {a}, c: {b}, d: set(), e: {d, b}}, failing={a})
    assert set(done) == {a, d}
    assert results == {a: "failed", b: "skipped for a", c: "skipped for b", d: "done", e: "skipped for b"}


def test_each_comes_after_all_that_it_waits_for() -> None:
    names = keys(*(f"k{n:03}" for n in range(200)))
    before = {key: set(names[max(0, n - 3) : n]) if n % 7 else set() for n, key in enumerate(names)}
    done, results = walked(before, failing=set())
    at = {key: position for position, key in enumerate(done)}
    assert len(results) == 200 and all(at[other] < at[key] for key in names for other in before[key])


def test_what_does_not_wait_goes_at_once() -> None:
    names = keys(*(str(n) for n in range(10)))
    inside = most = 0

    async def do(key: Key) -> bool:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1
        return True

    asyncio.run(
        run_in_order({key: set() for key in names}, do, lambda *_: False, succeeded=bool, rank=order.rank, workers=5)
    )
    assert most == 5


def test_an_error_that_is_no_result_ends_the_walk() -> None:
    async def do(key: Key) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(
            run_in_order(
                {key: set() for key in keys("a", "b")}, do, lambda *_: False, succeeded=bool, rank=order.rank, workers=2
            )
        )
