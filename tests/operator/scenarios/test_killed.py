"""The operator is killed in the middle of its work, and another one finishes it: with the same creations and deletions,
the same members and all data, as if nothing had happened.

An operation is a row of moves, each a write to the API server or a command to etcd. `make test` has an operator that
dies after every single one of them, and the product itself killed by a proxy where it hurts most. With `--full` it is
killed at every move alone, once with the answer under way and once with the answer in hand.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fleet.testing import Cluster
from fleet.testing.plugin import Labs
from fleet.testing.proxy import Kill, Match, Plan, Proxy, Rule
from tests.operator.etcd.under_test import ETCD
from tests.operator.operations import Operation, Story, beside, expected, leave, operations_of, stage

pytestmark = [pytest.mark.real_nodes]
MOST = 13  # moves that an operation may have, and one more
RESTART = 8.0  # seconds in which a kubelet starts a container again that ended


def kill(verb: str, resource: str, number: int = 1) -> Rule:
    return Rule(Match(verb=verb, resource=resource, writes=True), Kill(), nth=number)


OPERATIONS = operations_of(ETCD)
ANNOUNCED = kill("patch", "configmaps")  # that a member is about to be replaced
DANGEROUS = {  # by operation: the moves after which the product is killed, one after the other
    "create": (kill("patch", "secrets", 2), kill("patch", "statefulsets")),
    "3 to 5": (kill("patch", "configmaps"), kill("patch", "statefulsets")),
    "5 to 3": (kill("patch", "statefulsets"), kill("delete", "persistentvolumeclaims")),
    "upgrade": (kill("patch", "statefulsets"), kill("patch", "statefulsets")),
    "replace": (ANNOUNCED, kill("delete", "pods")),
}


@pytest.fixture(scope="module")
def staged(fleet_labs: Labs) -> Cluster:
    lab = fleet_labs.real()
    cluster = Cluster(lab, lab.spec.clusters[0].name, "default")
    stage(cluster, ETCD)
    return cluster


@contextmanager
def story(cluster: Cluster, name: str, directory: Path) -> Iterator[Story]:
    own = beside(cluster, name)
    made = Story(own, directory / own.namespace, ETCD)
    try:
        yield made
    finally:
        made.close()
        leave(own)


def restless(cluster: Cluster, directory: Path) -> list[int]:
    """Each life of the operator is one move long. How many there were, by operation."""
    lives = []
    with story(cluster, "restless", directory) as told:
        command = told.mortal("--at=1", "--again")
        for operation in OPERATIONS:
            before = len(told.made())
            did = told.go_through(operation, lambda done: told.to_its_end(done, *command))
            assert did == expected(operation), operation.name
            moves = told.made()[before:]
            assert len({life for life, _ in moves}) == len(moves), moves
            lives.append(len(moves))
    return lives


def shot(cluster: Cluster, directory: Path) -> int:
    """The product, killed where it is dangerous. How often it was."""
    kills = 0
    with story(cluster, "shot", directory) as told, Proxy(cluster.kubeconfig, cluster.context, told.directory) as proxy:
        product = told.product(proxy.kubeconfig)

        def run(operation: Operation, done: Callable[[], bool]) -> None:
            nonlocal kills
            for moment in DANGEROUS[operation.name]:
                ended = proxy.run([sys.executable, "-m", *product], Plan([moment]), timeout=300)
                told.log.write_text(told.log.read_text() + ended.stderr)
                assert ended.returncode == -signal.SIGKILL, ended.stderr
                kills += 1
                if moment is ANNOUNCED:
                    time.sleep(RESTART)  # the member's pod must not get anywhere while nobody looks after it
            told.to_its_end(done, *product)

        for operation in OPERATIONS:
            did = told.go_through(operation, partial(run, operation))
            assert did == expected(operation), operation.name
    return kills


@pytest.fixture(scope="module")
def both(staged: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Future[list[int]], Future[int]]]:
    """Most of the time is waiting, so the two stories are told at once."""
    directory = tmp_path_factory.mktemp("killed")
    with ThreadPoolExecutor(2) as pool:
        yield pool.submit(restless, staged, directory), pool.submit(shot, staged, directory)


@pytest.mark.timeout(1800)
def test_an_operator_that_never_takes_two_steps_does_the_same_as_one_that_lives(
    both: tuple[Future[list[int]], Future[int]],
) -> None:
    lives = both[0].result()
    print(f"killed after each of {sum(lives)} moves: {dict(zip([one.name for one in OPERATIONS], lives, strict=True))}")
    assert min(lives) >= 5


@pytest.mark.timeout(1800)
def test_the_product_killed_between_any_two_that_belong_together_is_finished_by_the_next(
    both: tuple[Future[list[int]], Future[int]],
) -> None:
    assert both[1].result() == sum(map(len, DANGEROUS.values()))


def killed_at(cluster: Cluster, directory: Path, k: int, when: str) -> list[str]:
    """Every operation, in which the operator dies at its k-th move and the product comes after it."""
    killed = []
    with story(cluster, f"{when}-{k}", directory) as told:

        def run(operation: Operation, done: Callable[[], bool]) -> None:
            with told.running(*told.mortal(f"--at={k}", f"--when={when}")) as process:
                if told.wait(done, process):
                    return
            assert process.returncode == -signal.SIGKILL
            killed.append(operation.name)
            told.to_its_end(done, *told.product())

        for operation in OPERATIONS:
            did = told.go_through(operation, partial(run, operation))
            assert did == expected(operation), f"{operation.name}, killed at {k}"
    print(f"{when}, {k}: {', '.join(killed) or 'nobody was killed'}", flush=True)  # a long run tells how far it came
    return killed


@pytest.mark.full
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("when", ["undisturbed", "unanswered", "answered"])
def test_killed_at_any_move_it_ends_as_if_nothing_had_happened(staged: Cluster, tmp_path: Path, when: str) -> None:
    if when == "undisturbed":
        assert killed_at(staged, tmp_path, 0, "answered") == []
        return
    with ThreadPoolExecutor(2) as pool:
        points = range(1, MOST + 1)
        ended = [pool.submit(killed_at, staged, tmp_path, k, when) for k in points]
        failures = {k: one.exception() for k, one in zip(points, ended, strict=True) if one.exception()}
        killed = [
            (operation, k)
            for k, one in zip(points, ended, strict=True)
            if k not in failures
            for operation in one.result()
        ]
    print(f"{when}: killed at {len(killed)} points: {killed}")
    assert not failures, "\n\n".join(f"killed at {k}: {problem}" for k, problem in failures.items())
    for operation in OPERATIONS:
        reached = [k for name, k in killed if name == operation.name]
        assert reached == list(range(1, len(reached) + 1)) and 5 <= len(reached) < MOST, (operation.name, reached)
