"""What one of several repositories of a service may use: decided with data."""

from __future__ import annotations

import asyncio

import pytest

from fleet.errors import AccessError, ConfigurationError, Source
from fleet.evaluate.result import ClusterData
from fleet.kube.runtime.metrics import Histogram
from fleet.serve.branch import CurrentCommit
from fleet.serve.cluster_secrets import ClusterReach
from fleet.serve.clusters import ClusterConnections
from fleet.serve.options import SHARED, RepositoryScope, ServeOptions, parse_scopes
from fleet.serve.queue import ReconcileQueue

A, B = "https://git.example.com/a.git", "https://git.example.com/b.git"


def cluster(name: str, context: str | None = None, secret: str | None = None) -> ClusterData:
    return ClusterData(name, {}, context, secret, False, Source("clusters/all.py", 1))


SCOPES = parse_scopes([A, B], [f"{A}=a-*,fleet-system/a-*", f"{B}=b-*"], [f"{B}=B_TOKEN"])


@pytest.mark.parametrize(
    ("wanted", "may"),
    [
        (cluster("a-1"), True),
        (cluster("b-1", context="a-2"), True),
        (cluster("a-1", context="b-1"), False),
        (cluster("b-1"), False),
        (cluster("eu", secret="fleet-system/a-eu"), True),
        (cluster("a-1", secret="fleet-system/b-eu"), False),
        (cluster("a-1", secret="other/a-eu"), False),
    ],
)
def test_a_repository_reaches_only_what_who_runs_the_service_gives_it(wanted: ClusterData, may: bool) -> None:
    SHARED.check_reach(wanted)
    if may:
        SCOPES[A].check_reach(wanted)
        return
    with pytest.raises(AccessError, match="which this repository may not use here"):
        SCOPES[A].check_reach(wanted)


def test_neither_passes_nor_previews_connect_to_the_clusters_of_another_repository() -> None:
    theirs = cluster("b-1")

    async def tried() -> None:
        queue = ReconcileQueue(CurrentCommit(), Histogram("seconds", "", registry=None))
        sites = ClusterConnections(ServeOptions(scope=SCOPES[A]), queue)
        with pytest.raises(AccessError, match="the context b-1"):
            async with sites.connect(theirs, frozenset()):
                pass
        reach = await ClusterReach.of((theirs,), None, None, scope=SCOPES[A])
        with pytest.raises(AccessError, match="the context b-1"):
            async with reach.to(theirs):
                pass

    asyncio.run(tried())


def test_the_token_of_one_repository_is_not_for_the_others() -> None:
    environment = {"FLEET_FORGE_TOKEN": "shared", "GITHUB_TOKEN": "shared too", "B_TOKEN": "of b"}
    assert SHARED.environment(environment) == environment
    assert SCOPES[A].environment(environment) == {}
    assert SCOPES[B].environment(environment) == {"FLEET_FORGE_TOKEN": "of b"}
    assert parse_scopes([A], [f"{A}=*"], [])[A].environment(environment) == environment


def test_no_token_of_any_forge_is_for_a_process_that_asks_none() -> None:
    tokens = {"FLEET_FORGE_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN"}
    assert SHARED.withheld(pushes=False) == tokens
    assert SHARED.withheld(pushes=True) == frozenset()
    assert SCOPES[A].withheld(pushes=True) == {*tokens, "B_TOKEN"}
    assert SCOPES[B].withheld(pushes=True) == tokens


@pytest.mark.parametrize(
    ("reach", "tokens", "message"),
    [
        ([f"{A}=*"], [], f"--reach says nothing about {B}"),
        ([f"{A}=*", "https://elsewhere.example.com=*"], [], "is not about one of the repositories"),
        ([f"{A}=*", f"{A}=b-*", f"{B}=*"], [], "or the second about one"),
        ([], [f"{A}="], "is not about one of the repositories"),
        ([], ["A_TOKEN"], "is not about one of the repositories"),
    ],
)
def test_what_is_said_of_repositories_is_whole_or_refused(reach: list[str], tokens: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_scopes([A, B], reach, tokens)
    assert message in refused.value.message


def test_without_a_word_all_share_all() -> None:
    assert parse_scopes([A, B], [], []) == {A: RepositoryScope(), B: RepositoryScope()}
