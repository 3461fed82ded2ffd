"""What nobody foresaw in one stack: the others go on, and the service does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.git.repository import Mirror
from fleet.serve.background import UnexpectedError
from fleet.serve.commits import EvaluatedCommit, EvaluatingReader, FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report.metrics import Metrics
from fleet.serve.service import Service
from fleet.testing.git import git
from tests.sync.fleet_repository import FleetRepository, config_map

STACK = """
import fleet

@fleet.stack(clusters={clusters!r}, name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    {body}
"""


@dataclass(slots=True)
class Damaged(EvaluatingReader):
    """Of one stack comes what no evaluation would let through."""

    stack: str = ""

    def read(
        self, origin: FollowedRepository, mirror: Mirror, commit: str, before: EvaluatedCommit | None
    ) -> EvaluatedCommit:
        found = EvaluatingReader.read(self, origin, mirror, commit, before)
        stacks = []
        for one in found.evaluation.stacks:
            desired = [
                replace(each, objects=tuple(replace(o, manifest={**o.manifest, "metadata": 7}) for o in each.objects))
                for each in one.desired
            ]
            stacks.append(replace(one, desired=tuple(desired)) if one.name == self.stack else one)
        return replace(found, evaluation=replace(found.evaluation, stacks=tuple(stacks)))


def test_a_pass_that_fails_in_a_way_that_nobody_foresaw_is_the_problem_of_one_stack(
    repository: FleetRepository, tmp_path: Path
) -> None:
    names = [one.name for one in repository.clusters]
    bad = f"{repository.stack}-bad"
    repository.wants(config_map("settings", {"a": "1"}))
    text = STACK.format(clusters=names, name=bad, body=config_map("settings", {"a": "1"}))
    repository.write("stacks/bad.py", text)
    repository.commit()
    git(repository.root, "push", "--quiet", "origin", "HEAD:main")
    manner = ServeOptions(repository.clusters[0].kubeconfig, tmp_path / "cache", poll=0.3, status=False)
    service = Service(FollowedRepository(repository.remote.url), manner, Metrics(), Damaged(stack=bad))

    def problems(stack: str) -> list[object]:
        found = [service.reporter.results.get((stack, name)) for name in names]
        return [one.problem if one else "not seen" for one in found]

    def is_told() -> bool:
        broken = all(isinstance(one, UnexpectedError) for one in problems(bad))
        return broken and problems(repository.stack) == [None, None]

    async def run() -> None:
        running = asyncio.create_task(service.run())
        async with asyncio.timeout(60):
            while not running.done() and not is_told():  # noqa: ASYNC110 - it is no event
                await asyncio.sleep(0.05)
            await asyncio.sleep(1.0)
        assert not running.done(), "the service goes on"
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())
    assert problems(repository.stack) == [None, None]
    assert [repository.data(one, "settings") for one in repository.clusters] == [{"a": "1"}] * 2
