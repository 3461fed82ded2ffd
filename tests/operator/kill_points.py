"""The operator as it is, in a process that ends by SIGKILL at its k-th move: a test's own way to start it.

A move is a write that the API server carried out, or a command that the engine carried out: both in one count, since
what comes between two of them is where an operator can die. Status and events are no moves: they decide nothing, and
how many there are depends on the clock. Moves are written down as they happen, in words, after the process's number.

With `again`, each life ends at its k-th move and the next begins at once, until the process is told to stop: with
k = 1, an operator that never takes two steps.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import click
from fleet_operator.run import NAME, operator

from fleet.kube.client.connection import Check
from fleet.kube.client.kubeconfig import Headers
from fleet.kube.client.pool import allow
from fleet.kube.client.response import RawResponse
from fleet.kube.runtime import GuardedClient
from fleet.testing.proxy import Call
from tests.operator.engine_under_test import EngineUnderTest

When = Literal["unanswered", "answered"]


def move(method: str, path: str) -> str | None:
    """A write in words; None for what is no move."""
    call = Call.of(method, path)
    if not call.writes or not call.name or "/" in call.resource or call.resource == "events":
        return None
    return f"{method} {call.resource} {call.name}"


class Life:
    """Counts moves, and ends with the k-th."""

    def __init__(self, at: int, when: When, moves: Path) -> None:
        self._at, self._when, self._moves, self._made = at, when, moves, 0

    def carried_out(self, what: str) -> None:
        """It was, and this process is the only one to know."""
        with self._moves.open("a") as told:
            told.write(f"{os.getpid()} {what}\n")
        self._made += 1
        if self._made == self._at:
            if self._when == "answered":
                asyncio.get_running_loop().call_soon(self._end)  # whoever asked has the answer first
            else:
                self._end()

    @staticmethod
    def _end() -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class CountedClient(GuardedClient):
    def __init__(self, life: Life, **options: Any) -> None:
        super().__init__(**options)
        self._life = life

    async def _once(
        self, method: str, path: str, data: bytes | None, headers: Headers, check: Check = allow
    ) -> RawResponse:
        what = move(method, path)
        answer = await super()._once(method, path, data, headers, check)
        if what and answer.status < 300:
            self._life.carried_out(what)
        return answer


def live(life: Life, kubeconfig: Path, context: str, namespace: str, engine: EngineUnderTest) -> None:
    """As `Operator.main`, with a client that counts."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    engine.count_commands(life.carried_out)

    async def program() -> None:
        made = operator({engine.name: engine.image}, namespace=namespace)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, made.stop)
        async with CountedClient(life, kubeconfig=kubeconfig, context=context, agent=NAME) as client:
            await made.run(client)

    asyncio.run(program())


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--context", required=True)
@click.option("--namespace", required=True)
@click.option("--engine", required=True, help="The module and name of an EngineUnderTest.")
@click.option("--moves", type=click.Path(path_type=Path), required=True, help="Where moves are written down.")
@click.option("--at", default=0, help="The move at which it ends; 0: never.")
@click.option("--when", type=click.Choice(["unanswered", "answered"]), default="unanswered")
@click.option("--again", is_flag=True, help="Begin anew each time.")
def main(
    kubeconfig: Path, context: str, namespace: str, engine: str, moves: Path, at: int, when: When, again: bool
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    module, _, name = engine.partition(":")
    under_test: EngineUnderTest = getattr(import_module(module), name)
    fork = multiprocessing.get_context("fork")  # what is slow to import is there already

    def stop(number: int, frame: FrameType | None) -> None:
        child.terminate()
        child.join(20)
        sys.exit(0)

    held_back = {signal.SIGTERM}  # while nobody knows the child, it would be left behind
    signal.pthread_sigmask(signal.SIG_BLOCK, held_back)
    signal.signal(signal.SIGTERM, stop)
    while True:
        life = Life(at, when, moves)
        child = fork.Process(target=live, args=(life, kubeconfig, context, namespace, under_test))
        child.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held_back)
        child.join()
        signal.pthread_sigmask(signal.SIG_BLOCK, held_back)
        if child.exitcode != -signal.SIGKILL:
            sys.exit(child.exitcode or 0)
        if not again:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
