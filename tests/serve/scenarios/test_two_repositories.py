"""One process for several repositories: what is wrong with one is no matter of the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fleet.testing import Cluster
from tests.serve.process import Process
from tests.serve.running_service import Served
from tests.sync.fleet_repository import FleetRepository, config_map


class Both(Process):
    """One service, and each repository as if it were the only one."""

    def __init__(self, repositories: tuple[FleetRepository, FleetRepository], directory: Path) -> None:
        super().__init__(directory, repositories[0].remote.url)
        self.one, self.other = (Served(each, directory) for each in repositories)

    @property
    def words(self) -> list[str]:
        return ["serve", self.one.url, self.other.url]

    def is_broken(self, which: Served) -> bool:
        return self.metric(f'fleet_repository_broken{{repository="{which.url}#main"}}') == 1


@pytest.fixture
def both(repository: FleetRepository, tmp_path: Path) -> Iterator[Both]:
    other = repository.other("other")
    other.stack = f"{repository.stack}-other"
    made = Both((repository, other), tmp_path)
    yield made
    made.kill()
    for cluster in other.clusters:
        cluster.kubectl("delete", "namespace", other.namespace, "--ignore-not-found", "--wait=false")
        theirs = f"fleet.dev/inventory={other.stack}"
        cluster.kubectl("-n", "fleet-system", "delete", "configmap", "-l", theirs, "--ignore-not-found")


def push(served: Served, value: str) -> str:
    served.repository.wants(config_map("settings", {"a": value}))
    return served.push()


def has(served: Served, value: str, revision: str) -> bool:
    def is_told(cluster: Cluster) -> bool:
        record = served.record(cluster.name)
        return (record.get("revision"), record.get("sync")) == (revision, "Synced")

    found = [served.data(one, "settings") for one in served.repository.clusters]
    return found == [{"a": value}] * len(found) and all(map(is_told, served.repository.clusters))


def test_a_repository_that_breaks_is_told_there_and_the_other_goes_on(both: Both) -> None:
    one, other = both.one, both.other
    first = push(one, "1")
    second = push(other, "1")
    both.start()
    both.until("one is there", partial(has, one, "1", first))
    both.until("so is the other", partial(has, other, "1", second))

    one.repository.write("stacks/stack.py", "raise RuntimeError('half written')")
    one.push()
    both.until("one is broken", partial(both.is_broken, one))
    second = push(other, "2")
    both.until("the other goes on", partial(has, other, "2", second))
    assert not both.is_broken(other)

    def is_told() -> bool:
        records = [one.record(cluster.name) for cluster in one.repository.clusters]
        return all(record["sync"] == "Failed" and "half written" in record["message"] for record in records)

    both.until("it is told where it belongs", is_told)
    assert [one.data(cluster, "settings") for cluster in one.repository.clusters] == [{"a": "1"}] * 2
    assert has(other, "2", second)

    first = push(one, "3")
    both.until("one is well again", partial(has, one, "3", first))
    assert not both.is_broken(one)
    assert has(other, "2", second)
