"""What is read while a commit is still evaluated: it is not read again, and never decides what it cannot know."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import AccessError, CancelledError, FleetError
from fleet.evaluate.result import ClusterData
from fleet.kube.client.client import Client, Response
from fleet.plan import Verb
from fleet.sync import reading
from fleet.sync.commit import CommitHooks, CommitOptions, CommitRun, plan_commit, sync_commit
from fleet.sync.options import SyncOptions
from fleet.sync.source import read_commit
from tests.sync.fleet_repository import FleetRepository, config_map


class WatchedClient(Client):
    """Client that remembers which paths it was asked to read, and refuses as many reads as it is told to."""

    def __init__(self, name: str, context: str | None, refusals: int) -> None:
        super().__init__(context=context, cluster=name)
        self.read: list[str] = []
        self.refusals = refusals

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        if method == "GET":
            self.read.append(path)
            if self.refusals > 0 and "configmaps" in path:
                self.refusals -= 1
                expect: Collection[int] = ()
                return await super().request("GET", "/api/v1/namespaces/default/pods/none", expect=expect)
        return await super().request(method, path, **rest)


class WatchingHooks(CommitHooks):
    """Hooks that keep the clients of a run; the first one of each cluster refuses `refusals` reads."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.clients: dict[str, list[WatchedClient]] = {}

    def open_client(self, cluster: ClusterData, options: SyncOptions) -> AbstractAsyncContextManager[Client]:
        clients = self.clients.setdefault(cluster.name, [])
        clients.append(WatchedClient(cluster.name, cluster.kubeconfig_context, 0 if clients else self.refusals))
        return clients[-1]

    def lists(self, repository: FleetRepository) -> dict[str, int]:
        """Return how often each cluster was asked for the ConfigMaps of the stack, by list or one by one."""
        path = f"/api/v1/namespaces/{repository.namespace}/configmaps"
        return {
            name: sum(read.startswith(path) for client in clients for read in client.read)
            for name, clients in self.clients.items()
        }


NAMES = [f"a{number}" for number in range(9)]  # more than are asked for one by one


@pytest.fixture
def synced(repository: FleetRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FleetRepository:
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "cache"))
    change(repository, "1")
    assert repository.sync().code == 0
    return repository


def change(repository: FleetRepository, value: str, *more: str) -> None:
    """Commit the stack with its first object changed, and more objects."""
    objects = [config_map(name, {"a": value if name == NAMES[0] else "same"}) for name in NAMES]
    repository.wants(*objects, *more)
    repository.commit()


def plan(hooks: CommitHooks) -> CommitRun:
    with read_commit(use_cache=True) as commit:
        return plan_commit(commit, CommitOptions(), hooks)


def verbs(outcome: CommitRun) -> list[dict[str, int]]:
    """Return how many steps of each verb that writes there are, by cluster."""
    plans = [result.plan for result in outcome.run.results if result.plan]
    assert [str(result.problem) for result in outcome.run.results if result.problem] == []
    return [{verb.value: len(steps) for verb in Verb if verb.writes and (steps := p.having(verb))} for p in plans]


def test_what_was_read_during_the_evaluation_is_read_once_over_one_connection(synced: FleetRepository) -> None:
    change(synced, "2")
    hooks = WatchingHooks()
    assert verbs(plan(hooks)) == [{"update": 1}] * 2
    assert {name: len(clients) for name, clients in hooks.clients.items()} == {one.name: 1 for one in synced.clusters}
    assert set(hooks.lists(synced).values()) == {1}


def test_a_commit_that_is_remembered_is_planned_as_ever(synced: FleetRepository) -> None:
    hooks = WatchingHooks()
    assert verbs(plan(hooks)) == [{}] * 2
    assert set(hooks.lists(synced).values()) == {1}


def test_what_the_stack_wants_anew_is_read_before_it_is_planned(synced: FleetRepository) -> None:
    cluster = synced.clusters[0]
    cluster.kubectl("-n", synced.namespace, "create", "configmap", "of-somebody", "--from-literal=a=1")
    change(synced, "1", config_map("of-somebody", {"a": "2"}), config_map("new", {"a": "1"}))
    steps = {
        (result.cluster, step.key.name): step.verb
        for result in plan(WatchingHooks()).run.results
        if result.plan
        for step in result.plan.steps
        if step.verb is not Verb.UNCHANGED
    }
    other = synced.clusters[1].name
    assert steps == {
        (cluster.name, "of-somebody"): Verb.CONFLICT,
        (cluster.name, "new"): Verb.CREATE,
        (other, "of-somebody"): Verb.CREATE,
        (other, "new"): Verb.CREATE,
    }


def test_what_is_gone_is_made_again_and_what_somebody_changed_is_put_right(synced: FleetRepository) -> None:
    cluster = synced.clusters[0]
    cluster.kubectl("-n", synced.namespace, "delete", "configmap", NAMES[1])
    cluster.kubectl("-n", synced.namespace, "patch", "configmap", NAMES[2], "-p", '{"data": {"a": "other"}}')
    change(synced, "2")
    with read_commit(use_cache=True) as commit:
        outcome = sync_commit(commit, CommitOptions(wait=False, status=False), WatchingHooks())
    assert [result.words for result in outcome.run.results] == ["1 created, 2 updated", "1 updated"]
    assert [synced.data(cluster, name) for name in NAMES[:3]] == [{"a": "2"}, {"a": "same"}, {"a": "same"}]


def test_a_read_that_fails_early_is_made_again(synced: FleetRepository) -> None:
    change(synced, "2")
    hooks = WatchingHooks(refusals=1)
    assert verbs(plan(hooks)) == [{"update": 1}] * 2
    assert {len(clients) for clients in hooks.clients.values()} == {2}


def test_what_was_read_long_ago_is_read_again(synced: FleetRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FRESH", -1.0)
    change(synced, "2")
    hooks = WatchingHooks()
    assert verbs(plan(hooks)) == [{"update": 1}] * 2
    assert set(hooks.lists(synced).values()) == {2}


def test_only_the_named_stack_and_cluster_are_read(synced: FleetRepository) -> None:
    change(synced, "2")
    hooks = WatchingHooks()
    options = CommitOptions(stacks=[synced.stack], clusters=[synced.clusters[1].name])
    with read_commit(use_cache=True) as commit:
        outcome = plan_commit(commit, options, hooks)
    assert verbs(outcome) == [{"update": 1}]
    assert hooks.lists(synced) == {synced.clusters[1].name: 1}


def test_where_stacks_have_accounts_of_their_own_nothing_is_read_early(synced: FleetRepository) -> None:
    synced.write("fleet.toml", '[trust]\naccount = "tenants/{stack}"\n')
    change(synced, "2")
    hooks = WatchingHooks()
    outcome = plan(hooks)
    assert all(isinstance(result.problem, AccessError) for result in outcome.run.results)
    assert {len(clients) for clients in hooks.clients.values()} == {1}


def test_a_stack_with_a_mistake_is_an_error_and_nothing_is_written(synced: FleetRepository) -> None:
    synced.wants("raise ValueError('a mistake')")
    synced.commit()
    marks = [cluster.audit.mark() for cluster in synced.clusters]
    refused = synced.sync()
    assert refused.code == 2 and "a mistake" in refused.err
    for cluster, mark in zip(synced.clusters, marks, strict=True):
        assert cluster.audit.writes(mark, agent="fleet/") == []


def test_of_a_repository_without_an_evaluated_commit_nothing_is_read_early(
    synced: FleetRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "other-cache"))
    synced.wants("raise ValueError('a mistake')")
    synced.commit()
    hooks = WatchingHooks()
    with pytest.raises(FleetError, match="a mistake"):
        plan(hooks)
    assert hooks.clients == {}


def test_ctrl_c_during_the_evaluation_ends_the_command(synced: FleetRepository) -> None:
    synced.wants("import time", "print('begun')", "time.sleep(25)")
    synced.commit()
    heeding = "import signal, fleet.cli; signal.signal(signal.SIGINT, signal.default_int_handler); "  # whoever runs us
    command = [sys.executable, "-c", f"{heeding}raise SystemExit(fleet.cli.run(['sync']))"]
    with subprocess.Popen(command, cwd=synced.root, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        time.sleep(4)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert "cancelled" in said
    assert process.returncode == CancelledError.exit_code
    assert time.monotonic() - begun < 10
