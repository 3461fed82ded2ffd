"""What is told to a forge and to an address of one's own: decided with data, delivered for real."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from pathlib import Path

from aiohttp import web

from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.forge.forge import CommitState
from fleet.git.repository import GitRepository, Mirror
from fleet.git.status import read_status
from fleet.git.status_records import StatusRecord, StatusReport
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.operator import serving
from fleet.repository import Repository
from fleet.repository.settings import Settings
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit, FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report.notify import SIGNATURE, CommitStatus, Notifier, commit_statuses
from fleet.serve.report.reporter import AgentReports
from fleet.serve.report.status import StatusWriter
from fleet.sync.source import NO_FILES, Commit
from fleet.testing import GitRemote
from tests.serve.counters import counts


def told(cluster: str, sync: str = "Synced", health: str = "Healthy", message: str = "") -> StatusReport:
    return StatusReport("orders", cluster, "a" * 40, sync, health, message)


def decided(*reports: StatusReport, before: dict[str, CommitStatus] | None = None) -> dict[str, CommitStatus]:
    return commit_statuses("orders", {one.cluster: one for one in reports}, before or {})


def test_one_status_per_stack_and_one_per_cluster_only_where_it_failed() -> None:
    assert decided(told("eu"), told("us")) == {
        "fleet/orders": CommitStatus(CommitState.SUCCESS, "healthy in 2 clusters")
    }
    waits = decided(told("eu"), told("us", "Waiting", message="wave 1 is not done"))
    assert waits == {"fleet/orders": CommitStatus(CommitState.PENDING, "1 of 2 clusters; us: wave 1 is not done")}
    assert decided(told("eu", health="Progressing"))["fleet/orders"].state is CommitState.PENDING
    assert decided(told("eu", "Unreachable", "Unknown"))["fleet/orders"].state is CommitState.PENDING, (
        "it may come back"
    )
    failed = decided(told("eu"), told("us", health="Degraded", message="no quorum"))
    assert failed == {
        "fleet/orders": CommitStatus(CommitState.FAILURE, "1 of 2 clusters: us: no quorum"),
        "fleet/orders/us": CommitStatus(CommitState.FAILURE, "no quorum"),
    }
    again = decided(told("eu"), told("us"), before=failed)
    assert again["fleet/orders/us"].state is CommitState.SUCCESS, "a status cannot be taken away, but turned"


def test_a_change_of_health_is_posted_once_signed_and_tried_again() -> None:
    got: list[tuple[bytes, str]] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append((await request.read(), request.headers.get(SIGNATURE, "")))
        return web.Response(status=500 if len(got) == 1 else 204)

    async def scene() -> None:
        async with serving(("127.0.0.1", 0), handle) as (host, port):
            counted = Counter("told", "", ("what", "result"), registry=None)
            origin = FollowedRepository("https://git.example.com/team/fleet.git")
            options = ServeOptions(notify=f"http://{host}:{port}/", notify_secret="key")
            outside = Notifier(origin, options, CurrentCommit(), counted)
            running = asyncio.create_task(outside.run())
            outside.tell([told("eu")], moved=True)  # the first word is no change
            outside.tell([told("eu"), told("eu", health="Degraded", message="no quorum")], moved=True)
            async with asyncio.timeout(30):
                while not counts(counted):  # noqa: ASYNC110 - a counter is no event
                    await asyncio.sleep(0.02)
            running.cancel()
            assert counts(counted) == {("notification", "ok"): 1}

    asyncio.run(scene())
    assert len(got) == 2
    assert got[0] == got[1]
    body, signature = got[0]
    assert signature == f"sha256={hmac.new(b'key', body, hashlib.sha256).hexdigest()}"
    (turn,) = json.loads(body)["turns"]
    assert (turn["stack"], turn["cluster"], turn["health"], turn["message"]) == (
        "orders",
        "eu",
        "Degraded",
        "no quorum",
    )
    assert turn["before"] == {"sync": "Synced", "health": "Healthy"}


def test_fifty_changes_in_a_second_from_several_writers_are_few_commits_and_none_is_lost(
    git_remote: GitRemote, tmp_path: Path
) -> None:
    def files(name: str) -> Commit:
        mirror = Mirror.of(git_remote.url, tmp_path / name, by_person=True)
        return Commit(Repository(NO_FILES), mirror.repository, "", "", remotes={"origin": git_remote.url})

    def health(number: int) -> str:
        """Another one each time that a pair comes round."""
        return "Degraded" if (number // 10 + number) % 2 else "Healthy"

    async def scene() -> None:
        writers = [(StatusWriter(settle=0.2, every=0.2), files(name)) for name in ("one", "other")]
        running = [asyncio.create_task(each.run()) for each, _ in writers]
        for number in range(50):
            for place, (each, its) in enumerate(writers):
                each.tell(its, StatusReport(f"s{number % 10}", f"c{place}", "", health=health(number)))
            await asyncio.sleep(0.02)
        async with asyncio.timeout(60):
            while any(each.pending for each, _ in writers):  # noqa: ASYNC110 - nor is this
                await asyncio.sleep(0.05)
        for task in running:
            task.cancel()

    began = time.monotonic()
    asyncio.run(scene())
    seconds = time.monotonic() - began
    reader = Mirror.of(git_remote.url, tmp_path / "reader", by_person=True)
    said = read_status(reader.repository, remote=reader.address)
    expected = {(f"s{n % 10}", f"c{c}"): health(n) for n in range(40, 50) for c in range(2)}
    assert {(one.stack, one.cluster): one.health for one in said.records} == expected
    commits = int(git_remote.git("rev-list", "--count", "fleet/status"))
    print(f"100 changes by two writers: {commits} commits in {seconds:.1f} s")
    assert commits <= 2 * (2 + seconds / 0.4), "each writer waits 0.2 s for more, and as long after each commit"


def test_what_agents_report_about_this_commit_is_told_on_and_only_what_they_got_has_moved() -> None:
    here = Source("clusters/all.py", 1)
    clusters = (ClusterData("edge", {}, None, None, True, here), ClusterData("eu", {}, None, None, False, here))
    files = Commit(Repository(NO_FILES, Settings()), GitRepository(NO_FILES), "b" * 40, "")
    stack = StackResult("s", here, ("edge", "eu"), RolloutData((), "0s", "15m"), ())
    current = EvaluatedCommit(files, Evaluation(clusters, (stack,)))
    heard: list[tuple[str, bool]] = []
    agents = AgentReports()

    def take(*records: StatusRecord) -> None:
        heard.extend((news.report.health, news.moved) for news in agents.take(current, records))

    def record(cluster: str, revision: str, health: str, content: str) -> StatusRecord:
        return StatusRecord("s", cluster, "Synced", health, "2026-01-01T00:00:00Z", revision, revision, content=content)

    take(record("edge", "a" * 40, "Unknown", "1"), record("eu", "b" * 40, "Unknown", "1"))
    take(record("edge", "b" * 40, "Healthy", "1"))
    take(record("edge", "b" * 40, "Progressing", "2"))
    take(record("edge", "b" * 40, "Degraded", "2"))
    assert heard == [("Healthy", False), ("Progressing", True), ("Degraded", False)]
