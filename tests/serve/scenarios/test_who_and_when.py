"""`fleet history` of what nobody typed: the service or an agent applied it, and git says which and since when."""

from __future__ import annotations

import socket

from tests.serve.pulling_clusters import Pulled
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map


def test_what_the_service_or_an_agent_applied_has_who_and_when_in_the_history(either: Served) -> None:
    repository = either.repository
    repository.wants(config_map("settings", {"a": "1"}))
    revision = either.push("as it is")
    either.start()

    def is_told() -> bool:
        records = [either.record(one.name) for one in repository.clusters]
        return all((one.get("revision"), one.get("health")) == (revision, "Healthy") for one in records)

    either.until("it is told", is_told)
    (commit,) = repository.fleet("history", "--stack", repository.stack, "-o", "json").json()["commits"]
    name = "fleet-agent" if isinstance(either, Pulled) else "fleet-serve"
    assert [one["by"] for one in commit["outcomes"]] == [f"{name}@{socket.gethostname()}"] * 2
    assert all(one["at"].endswith("Z") for one in commit["outcomes"])
