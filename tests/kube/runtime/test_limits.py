"""A pass that holds the process, recurses or grows without end is the failure of its own object, and of no other."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fleet.kube.runtime as kube
from fleet.kube.runtime.reconcile_limits import limit_memory
from fleet.testing import Cluster
from tests.kube.runtime.greeter import controller, greet, greeting

REPOSITORY = Path(__file__).parents[3]
HOSTILE = ("spin", "deep", "grow")


async def work(request: kube.Request) -> kube.Result | None:
    match request.name.name:
        case "spin":
            while True:
                pass
        case "deep":
            _deep(0)
        case "grow":
            held: list[Any] = []
            while True:
                held.append([held] * 1_000_000)
    return await greet(request)


def _deep(depth: int) -> int:
    return 1 + _deep(depth + 1)


def main(kubeconfig: str, context: str, namespace: str) -> None:
    """As a program, as an operator's process is one."""
    limit_memory(300 << 20)
    kube.Operator("greeter", [controller(namespace, reconcile=work)]).main(Path(kubeconfig), context)


def test_a_pass_that_never_ends_recurses_or_grows_is_the_failure_of_its_own_object(
    greetings: Cluster, tmp_path: Path
) -> None:
    greetings.apply(*(greeting(name, greetings.namespace) for name in (*HOSTILE, "before")))
    log = tmp_path / "operator.log"
    command = [sys.executable, "-m", __name__, str(greetings.kubeconfig), greetings.context, greetings.namespace]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=REPOSITORY)

    def is_greeted(name: str) -> bool:
        return "status" in greetings.get("greetings.runtime.fleet.dev", name)

    try:
        greetings.wait("an object beside them", lambda: is_greeted("before"), 120)
        words = ("held the process for", "RecursionError", "MemoryError")
        greetings.wait("each failure", lambda: all(one in log.read_text() for one in words), 120)
        used = time.monotonic()
        for number in range(3):
            greetings.apply(greeting("spin", greetings.namespace, f"again-{number}"))
            greetings.apply(greeting(f"after-{number}", greetings.namespace))
            greetings.wait("an object that came later", lambda n=number: is_greeted(f"after-{n}"), 60)  # type: ignore[misc]
        assert log.read_text().count("/spin: it held the process for") == 1, "it rests, whatever changes"
        assert process.poll() is None, f"the process ended {time.monotonic() - used:.0f} s later"
    finally:
        process.terminate()
        ended = process.wait(60)
    assert ended == 0, log.read_text()[-3000:]


if __name__ == "__main__":
    main(*sys.argv[1:])
