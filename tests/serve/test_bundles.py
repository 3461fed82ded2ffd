"""What a service knows of clusters that only agents reach: on real git, with agents that only speak."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.bundle.reports import parse_report_repository
from fleet.evaluate.pool import Pool
from fleet.git.refs import address
from fleet.git.repository import GitRepository
from fleet.git.status import report
from fleet.git.status_records import StatusReport
from fleet.plan import Inventory, Plan
from fleet.serve.branch import CurrentCommit
from fleet.serve.bundles import LOOK, BundlePublisher, PublisherHooks
from fleet.serve.commits import EvaluatedCommit, FollowedRepository, evaluate_commit
from fleet.serve.options import ServeOptions
from fleet.serve.report.reporter import AgentReports
from fleet.serve.rollout import RolloutTracker
from fleet.sync.result import Result
from fleet.testing import GitRemote
from fleet.testing.git import git

STACK = """
import fleet

BACK = fleet.Rollout(on_failure="rollback", rollback_after="0s", max_unavailable=0)

@fleet.stack(clusters=["eu", "us"], rollout=BACK)
def orders(cluster: fleet.Cluster) -> None:
    data = {{"a": {value!r}}}
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "settings"}}, "data": data}})
"""


@dataclass
class Centre:
    """A service of which only that part is there which deals with agents; a new one knows nothing."""

    url: str
    cache: Path
    pool: Pool
    reports: tuple[str, ...] = ()
    current: CurrentCommit = field(default_factory=CurrentCommit)
    order: RolloutTracker = field(default_factory=RolloutTracker)
    heard: AgentReports = field(default_factory=AgentReports)
    agents: BundlePublisher = field(init=False)

    def __post_init__(self) -> None:
        options = ServeOptions(reports=tuple(map(parse_report_repository, self.reports)))
        self.agents = BundlePublisher(options, self.current, self.order, self.heard)

    def take(self) -> EvaluatedCommit:
        """The newest commit."""
        origin = FollowedRepository(self.url)
        mirror = origin.mirror(self.cache)
        mirror.fetch((origin.refspec,))
        commit = evaluate_commit(origin, mirror, mirror.tips("main")[origin.ref], None, self.pool)
        self.current.evaluated = commit
        return commit

    def look(self) -> float | None:
        """What is known then, of the newest commit; returns the seconds until it looks again."""
        return asyncio.run(self.agents._once(self.take(), PublisherHooks()))

    @property
    def ill(self) -> tuple[str, str] | None:
        current = self.current.evaluated
        assert current is not None
        return self.order.find_failure(current, current.stacks["orders"])


@dataclass
class Fleet:
    root: Path
    remote: GitRemote
    cache: Path
    pool: Pool

    def __post_init__(self) -> None:
        self.remote.clone(self.root)
        (self.root / "fleet.toml").write_text('[fleet]\nname = "shop"\n')
        (self.root / "clusters").mkdir()
        (self.root / "stacks").mkdir()
        self.pull("eu", "us")

    def pull(self, *names: str) -> None:
        lines = [f"fleet.Cluster({one!r}, pull={one in names})" for one in ("eu", "us")]
        (self.root / "clusters/all.py").write_text("\n".join(["import fleet", *lines, ""]))

    def push(self, value: str) -> str:
        (self.root / "stacks/orders.py").write_text(STACK.format(value=value))
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", value)
        git(self.root, "push", "--quiet", "origin", "HEAD:main")
        return git(self.root, "rev-parse", "HEAD").strip()

    def centre(self, name: str = "one", *, reports: tuple[str, ...] = ()) -> Centre:
        return Centre(self.remote.url, self.cache / name, self.pool, reports)

    def says(self, cluster: str, health: str, *, after: float = 0.0, where: str = "") -> None:
        """Its agent, about what its branch has now."""
        index = json.loads(self.remote.git("show", f"fleet/rendered/{cluster}:fleet.json"))
        content = next(one["content"] for one in index["stacks"])
        about = StatusReport("orders", cluster, index["revision"], "Synced", health, content=content)
        now = datetime.fromtimestamp(time.time() + after, UTC)
        to = address(where or self.remote.url, by_person=True)
        report(GitRepository.find(self.root), [about], remote=to, by="agent", now=now)

    def age(self, cluster: str, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """As if what its branch has had been given so long ago."""
        branch = f"refs/heads/fleet/rendered/{cluster}"
        with monkeypatch.context() as patched:
            for variable in ("GIT_COMMITTER", "GIT_AUTHOR"):
                patched.setenv(f"{variable}_NAME", "fleet")
                patched.setenv(f"{variable}_EMAIL", "fleet@localhost")
                patched.setenv(f"{variable}_DATE", f"{int(time.time()) - hours * 3600} +0000")
            commit = self.remote.git("commit-tree", "-m", "long ago", f"{branch}^{{tree}}").strip()
        self.remote.git("update-ref", branch, commit)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as made:
        yield made


@pytest.fixture
def fleet(git_remote: GitRemote, tmp_path: Path, pool: Pool) -> Fleet:
    return Fleet(tmp_path / "repository", git_remote, tmp_path / "mirrors", pool)


def test_what_counts_is_when_a_cluster_was_given_what_it_has_whoever_gave_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.push("1")
    centre = fleet.centre()
    centre.look()
    for cluster in ("eu", "us"):
        fleet.age(cluster, 2, monkeypatch)
        fleet.says(cluster, "Degraded")
    assert (centre.look(), centre.ill) == (None, None), "it has that for long: no rollout made it ill"
    fleet.push("1")
    fleet.centre("another").look()
    fleet.says("eu", "Degraded")
    centre.look()
    assert centre.ill is None, "a neighbour's commit gives it nothing"
    fleet.push("2")
    fleet.centre("another").look()
    fleet.says("eu", "Degraded", after=60)
    centre.look()
    assert centre.ill == ("eu", "Degraded"), "another process gave it, a moment ago"


def test_after_a_restart_it_is_the_same(fleet: Fleet) -> None:
    fleet.push("1")
    fleet.centre().look()
    fleet.says("eu", "Degraded", after=60)
    after = fleet.centre("after a restart")
    after.look()
    assert after.ill == ("eu", "Degraded")
    fleet.says("eu", "Healthy", after=120)
    fleet.says("eu", "Degraded", after=3600)
    after = fleet.centre("after another")
    after.look()
    assert after.ill is None, "it fell ill an hour later"


def test_it_looks_again_when_one_would_count_and_not_for_ever(fleet: Fleet, tmp_path: Path) -> None:
    fleet.push("1")
    centre = fleet.centre()
    assert centre.look() is None, "nobody said a word"
    fleet.says("eu", "Unknown")
    found = centre.look()
    assert found is not None
    assert 14 * 60 < found <= 15 * 60
    own = GitRemote.make(tmp_path / "own.git")
    fleet.says("us", "Healthy", where=own.url)
    centre = fleet.centre(reports=(own.url,))
    assert centre.look() == LOOK, "nothing tells of news in a repository of the agent's own"
    assert {one.cluster for one in centre.heard.of("orders", centre.take().revision)} == {"eu", "us"}


def test_a_cluster_that_pulls_no_more_is_forgotten_and_what_a_pass_saw_there_stays(fleet: Fleet) -> None:
    fleet.push("1")
    centre = fleet.centre()
    centre.look()
    for cluster in ("eu", "us"):
        fleet.says(cluster, "Degraded")
    centre.look()
    assert centre.ill == ("eu", "Degraded")
    fleet.pull("us")
    fleet.push("1")
    current = centre.take()
    made = Plan("orders", "eu", (), Inventory("orders", "eu"))
    centre.order.note(current, Result("orders", "eu", made, health="Healthy"))
    centre.look()
    assert centre.order.state(current, ("orders", "eu")).is_well
    assert centre.heard._last.keys() == centre.heard._contents.keys() == {("orders", "us")}
    assert centre.agents._deliveries.keys() <= {("orders", "us")}
    fleet.says("us", "Degraded")
    centre.look()
    assert centre.ill == ("us", "Degraded")
    fleet.pull()
    fleet.push("1")

    async def run() -> None:
        centre.take()
        centre.agents.take()
        task = asyncio.create_task(centre.agents.run(PublisherHooks()))
        while centre.heard._last:
            assert not task.done()
            await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(run())
    assert centre.order.agent_states == {}
