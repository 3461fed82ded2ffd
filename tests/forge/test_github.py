"""Every request to GitHub agrees with its published description, and every published answer is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

import pytest

from fleet.forge.forge import CommitState, Forge, ForgeRepository, connect
from fleet.forge.github import api_url, graphql_url
from tests.forge.openapi import Api
from tests.forge.published_apis import GRAPHQL, OPENAPI, published
from tests.forge.server import Asked, Reply, Server, serving

T = TypeVar("T")
PREFIX = "/api/v3"  # where a server of one's own has its API
SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"


@cache
def description() -> Api:
    return Api(published(OPENAPI))


def as_published(asked: Asked) -> Reply:
    """The published example for what was asked, once that agrees with the description."""
    if asked.target == "/api/graphql":
        return Reply(200, {"data": {"viewer": {"login": "github-actions[bot]"}}})
    operation = description().check(asked.method, asked.target.removeprefix(PREFIX), asked.json)
    assert asked.headers["accept"] == "application/vnd.github+json"
    assert asked.headers["x-github-api-version"] == "2022-11-28"
    assert asked.headers["user-agent"].startswith("fleet/")
    return Reply(*description().answer(operation))


def talk(
    what: Callable[[Forge], Awaitable[T]], answer: Callable[[Asked], Reply] = as_published
) -> tuple[T, list[Asked]]:
    async def talked(server: Server) -> T:
        async with connect(ForgeRepository("github", server.url, "octocat/Hello-World"), "token-of-ours") as forge:
            return await what(forge)

    with serving(answer) as server:
        return asyncio.run(talked(server)), server.asked


def test_a_pull_request() -> None:
    found, asked = talk(lambda forge: forge.pull_request(1347))
    assert (found.number, found.base_ref, found.head_ref) == (1347, "master", "new-topic")
    assert (found.head_sha, found.is_open) == (SHA, True)
    assert [(one.method, one.target) for one in asked] == [("GET", "/api/v3/repos/octocat/Hello-World/pulls/1347")]
    assert asked[0].headers["authorization"] == "Bearer token-of-ours"


def test_the_open_pull_requests() -> None:
    found, asked = talk(lambda forge: forge.pull_requests())
    assert [one.number for one in found] == [1347]
    assert "state=open" in asked[0].target


def test_comments_are_read_made_edited_and_deleted() -> None:
    found, _ = talk(lambda forge: forge.comments(1347))
    assert [(one.id, one.body, one.author) for one in found] == [(1, "Me too", "octocat")]
    made, asked = talk(lambda forge: forge.create_comment(1347, "a preview"))
    assert (made.id, asked[0].method, asked[0].json) == (1, "POST", {"body": "a preview"})
    _, asked = talk(lambda forge: forge.edit_comment(1347, 1, "another"))
    assert asked[0].target.endswith("/repos/octocat/Hello-World/issues/comments/1")
    _, asked = talk(lambda forge: forge.delete_comment(1347, 1))
    assert asked[0].method == "DELETE"


@pytest.mark.parametrize("state", list(CommitState))
def test_a_commit_status(state: CommitState) -> None:
    _, asked = talk(lambda forge: forge.set_status(SHA, "fleet/preview", state, "x" * 300, "https://example.com/page"))
    said = asked[0].json
    assert (said["state"], said["context"], said["target_url"]) == (state, "fleet/preview", "https://example.com/page")
    assert len(said["description"]) == 140


@pytest.mark.parametrize(("permission", "may"), [("admin", True), ("write", True), ("read", False), ("none", False)])
def test_who_may_approve(permission: str, may: bool) -> None:
    def answer(asked: Asked) -> Reply:
        reply = as_published(asked)
        return Reply(reply.status, reply.body | {"permission": permission})

    assert talk(lambda forge: forge.may_approve("octocat"), answer)[0] is may


def test_a_user_that_is_not_there_may_not_approve_and_no_name_leads_elsewhere() -> None:
    found, asked = talk(
        lambda forge: forge.may_approve("../../../user"), lambda _: Reply(404, {"message": "Not Found"})
    )
    assert found is False
    assert asked[0].target == "/api/v3/repos/octocat/Hello-World/collaborators/..%2F..%2F..%2Fuser/permission"


def test_whose_token_it_is_is_asked_by_graphql_as_the_published_schema_has_it() -> None:
    found, asked = talk(lambda forge: forge.me())
    assert found == "github-actions[bot]"
    assert asked[0].json == {"query": "query { viewer { login } }"}
    schema = published(GRAPHQL)["__schema"]
    types: dict[str, dict[str, Any]] = {
        one["name"]: {each["name"]: each for each in one["fields"]} for one in schema["types"] if one.get("fields")
    }
    assert types[schema["queryType"]["name"]]["viewer"]["type"]["ofType"]["name"] == "User"
    assert types["User"]["login"]["type"]["ofType"]["name"] == "String"


def test_a_long_list_comes_in_parts_of_which_all_are_read() -> None:
    def answer(asked: Asked) -> Reply:
        reply = as_published(asked)
        page = int(asked.target.rpartition("page=")[2])
        link = f'<https://elsewhere.example.com/?page={page + 1}>; rel="next"' if page < 3 else ""
        return Reply(200, [one | {"id": 10 - page} for one in reply.body], {"Link": link})

    found, asked = talk(lambda forge: forge.comments(1347), answer)
    assert [one.id for one in found] == [7, 8, 9]
    assert len(asked) == 3


def test_where_the_api_is() -> None:
    assert (api_url("https://github.com"), graphql_url("https://github.com")) == (
        "https://api.github.com",
        "https://api.github.com/graphql",
    )
    assert api_url("https://octo.ghe.com") == "https://api.octo.ghe.com"
    assert (api_url("https://git.example.com/x"), graphql_url("https://git.example.com/x")) == (
        "https://git.example.com/x/api/v3",
        "https://git.example.com/x/api/graphql",
    )
