"""Who has the next preview; and that what waits for it costs the service nothing but a number."""

from __future__ import annotations

import asyncio
import gc
import re
import ssl
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest

from fleet.forge.forge import Action, ForgeRepository, PullRequestEvent
from fleet.forge.forge import PullRequest as Asking
from fleet.kube.runtime.metrics import Counter
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report.preview_queue import HOUR, MOST_OF_HOUR, PreviewQueue, PreviewTurn
from fleet.serve.report.previews import Previews
from tests.forge.server import Asked, Reply, serving
from tests.serve.counters import counts
from tests.serve.forks import Fork

MANY = 1000
HEAD = "1" * 40


def take_all(queue: PreviewQueue) -> list[PreviewTurn]:
    turns = []
    while turn := queue.take():
        turns.append(turn)
    return turns


def test_of_one_author_one_is_made_at_a_time_and_forks_keep_no_branch_waiting() -> None:
    """Somebody opens twenty pull requests; others are made meanwhile, whatever those do."""
    queue = PreviewQueue()
    for number in range(20):
        queue.put(number, "stranger", fork=True)
    begun = take_all(queue)
    assert [turn.number for turn in begun] == [0]
    queue.put(30, "guest", fork=True)
    queue.put(31, "late", fork=True)
    queue.put(32, "colleague", fork=False)
    assert [turn.number for turn in take_all(queue)] == [30, 32]
    queue.put(31, "late", fork=True)
    assert len(queue) == 20, "one that waits already is not there twice"
    queue.done(begun[0])
    assert [turn.number for turn in take_all(queue)] == [31], "authors come in turns"


@dataclass
class Clock:
    now: float = 10_000.0

    def __call__(self) -> float:
        return self.now


def test_an_author_of_forks_takes_so_much_of_an_hour_and_no_more() -> None:
    """Two accounts that push without end have both turns of the forks, for a sixth of the time."""
    clock = Clock()
    queue = PreviewQueue(clock)
    took = dict.fromkeys(("one", "other"), 0.0)

    def push(author: str) -> None:
        queue.put(len(author), author, fork=True)

    push("one")
    push("other")
    while turns := take_all(queue):
        clock.now += 290  # a little less than a preview may take at most
        for turn in turns:
            took[turn.author[1]] += 290
            queue.done(turn)
            push(turn.author[1])
    assert took == {"one": 870, "other": 870}, "the last one went beyond the bound"
    queue.put(1, "guest", fork=True)
    assert [turn.author[1] for turn in take_all(queue)] == ["guest"]
    queue.put(2, "one", fork=False)
    assert [turn.author[1] for turn in take_all(queue)] == ["one"], "the bound is of forks"

    due = queue.due_in()
    assert due is not None
    assert due == HOUR - 2 * 290, "when the first of three is an hour ago, the others are less than the bound"
    assert MOST_OF_HOUR > 2 * 290
    clock.now += due - 1
    assert queue.take() is None
    clock.now += 1
    assert queue.due_in() == 0
    assert [turn.author[1] for turn in take_all(queue)] == ["one"], "one turn of forks is the guest's"


def open_sessions() -> int:
    return sum(isinstance(one, aiohttp.ClientSession) and not one.closed for one in gc.get_objects())


def contexts() -> int:
    return sum(isinstance(one, ssl.SSLContext) for one in gc.get_objects())


def test_a_thousand_pull_requests_of_a_stranger_wait_as_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task and a connection for each were 0.8 GB and 15 s of the service's loop."""
    monkeypatch.setenv("FLEET_FORGE_TOKEN", "token")
    go_on = threading.Event()

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":  # the first one's status: its turn lasts until the end
            go_on.wait(60)
        if found := re.search(r"/pulls/(\d+)$", asked.target):
            where = {"full_name": "team/fleet", "id": 1}
            theirs = {"full_name": "stranger/fleet", "id": 2}
            return Reply(
                200,
                {
                    "number": int(found[1]),
                    "title": "a change",
                    "state": "open",
                    "html_url": "https://example.com/1",
                    "user": {"login": "stranger"},
                    "base": {"ref": "main", "sha": HEAD, "repo": where},
                    "head": {"ref": "change", "sha": HEAD, "repo": theirs},
                },
            )
        return Reply(200, [])

    async def heard(fork: Fork, requests: list[Asked]) -> tuple[int, int, int]:
        counted = Counter("c", "", ("a", "b"), registry=None)
        made = Previews(FollowedRepository(str(fork.remote.path)), ServeOptions(), CurrentCommit(fork.base), counted)
        running = asyncio.create_task(made.run(fork.mirror))
        place = ForgeRepository("gitea", "https://git.example.com", "team/fleet")
        request = Asking(0, "", "stranger", "", "main", "", "change", HEAD, fork=True)
        for number in range(1, MANY + 1):
            made.hear(PullRequestEvent(place, replace(request, number=number), Action.OPENED))
        sessions = tasks = 0
        numbers = {f"/api/v1/repos/team/fleet/pulls/{number}" for number in range(1, MANY + 1)}
        async with asyncio.timeout(60):
            while not numbers <= {asked.target for asked in list(requests)}:
                await asyncio.sleep(0.2)
                sessions, tasks = max(sessions, open_sessions()), max(tasks, len(asyncio.all_tasks()))
        found = sessions, tasks, contexts()
        running.cancel()
        go_on.set()
        await asyncio.gather(running, return_exceptions=True)
        assert (str(made.origin), "failed") not in counts(counted)
        return found

    with serving(answer) as server:
        where = f'[forge]\nkind = "gitea"\nurl = "{server.url}"\nrepository = "team/fleet"\n'
        fork, before = Fork.make(tmp_path, where), contexts()
        sessions, tasks, authorities = asyncio.run(heard(fork, server.asked))
    assert 0 < sessions <= 10, "four that ask, one that has its turn, and the regular look"
    assert tasks < 50
    assert authorities - before <= 1
