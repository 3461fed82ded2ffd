"""The same as `served`, turned round: a centre that has no kubeconfig at all, and an agent for each cluster."""

from __future__ import annotations

import contextlib
from pathlib import Path

from fleet.testing import Cluster
from tests.serve.process import Process
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository

CENTRE_KNOWS = "/nonexistent/kubeconfig"
POLL = "0.5s"


class Agent(Process):
    """`fleet agent` of one cluster."""

    def __init__(self, cluster: Cluster, directory: Path, url: str) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory, url, environment={"KUBECONFIG": str(cluster.kubeconfig)})
        self.cluster = cluster

    @property
    def words(self) -> list[str]:
        return ["agent", "--repository", self.url, "--cluster", self.cluster.name]


class Pulled(Served):
    def __init__(self, repository: FleetRepository, directory: Path) -> None:
        super().__init__(repository, directory)
        self.agents: list[Agent] = []
        self.tellers = len(repository.clusters)
        self.environment["KUBECONFIG"] = CENTRE_KNOWS
        lines = [f"fleet.Cluster({one.name!r}, labels={{'env': 'test'}}, pull=True)" for one in repository.clusters]
        repository.write("clusters/all.py", "\n".join(["import fleet", *lines, ""]))

    def start(self, *options: str, poll: str = "0.3s", status_every: str = "0.2s") -> None:
        """What is said about reaching clusters is said to the agents."""
        super().start(poll=poll, status_every=status_every)
        self.agents = [Agent(one, self.directory / one.name, self.url) for one in self.repository.clusters]
        for one in self.agents:
            one.start(*options, poll=POLL, status_every=status_every)

    def stop(self) -> int:
        return max([super().stop(), *(one.stop() for one in self.agents)])

    def kill(self) -> None:
        super().kill()
        for one in self.agents:
            one.kill()

    @property
    def has_ended(self) -> bool:
        return super().has_ended or any(one.has_ended for one in self.agents)

    def ask(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """The centre; and whether all are ready."""
        said = [super().ask(path, data, headers)]
        if path == "/readyz":
            said += [one.ask(path) for one in self.agents]
        return next((one for one in said if one[0] != 200), said[0])

    def metric(self, beginning: str) -> float:
        """Of all of them together."""
        return super().metric(beginning) + sum(one.metric(beginning) for one in self.agents)

    def tail(self) -> str:
        parts = [super().tail()]
        for one in self.agents:
            with contextlib.suppress(FileNotFoundError):
                parts.append(one.tail())
        return "\n".join(parts)
