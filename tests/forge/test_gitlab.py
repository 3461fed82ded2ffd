"""Every request to GitLab agrees with GitLab's own client, and so do the answers here; those it publishes are read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

import orjson
import pytest

from fleet.errors import NotFoundError, ResourceError
from fleet.forge.forge import CommitState, Forge, ForgeRepository, connect
from fleet.forge.gitlab import DEVELOPER
from tests.forge.gitlab_client import document
from tests.forge.gitlab_payloads import BASE, HEAD, merge_request, note
from tests.forge.openapi import Api
from tests.forge.published_apis import GITLAB, published
from tests.forge.server import Asked, Reply, Server, serving

T = TypeVar("T")
PREFIX = "/forge/api/v4"
PROJECT = f"{PREFIX}/projects/team%2Fsub%2Ffleet"


class Example(Reply):
    """A published one, which has more than the client's types."""


@cache
def description() -> Api:
    return Api(document(published(GITLAB)))


def example(name: str) -> Any:
    """An answer that GitLab's client is tested with."""
    return orjson.loads(published(GITLAB)[f"testdata/{name}.json"])


def checked(asked: Asked, reply: Reply) -> Reply:
    """Once the question agrees with the description, and with it an answer of ours."""
    assert asked.headers["private-token"] == "token-of-ours"
    operation = description().check(asked.method, asked.target.removeprefix(PREFIX), asked.json)
    if reply.status < 300 and not isinstance(reply, Example):
        description().answered(operation, reply.body)
    return reply


def talk(what: Callable[[Forge], Awaitable[T]], answers: dict[str, Reply]) -> tuple[T, list[Asked]]:
    """`answers` by method and path, without the query."""

    def answer(asked: Asked) -> Reply:
        absent = Reply(404, {"message": "404 Not Found"})
        return checked(asked, answers.get(f"{asked.method} {asked.target.partition('?')[0]}", absent))

    with serving(answer) as server:
        return asyncio.run(_as(what, server)), server.asked


async def _as(what: Callable[[Forge], Awaitable[T]], server: Server) -> T:
    repository = ForgeRepository("gitlab", f"{server.url}/forge", "team/sub/fleet")
    async with connect(repository, "token-of-ours") as forge:
        return await what(forge)


def test_a_merge_request() -> None:
    found, _ = talk(
        lambda forge: forge.pull_request(7), {f"GET {PROJECT}/merge_requests/7": Reply(200, merge_request())}
    )
    assert (found.number, found.author, found.base_ref, found.head_ref) == (7, "ann", "main", "francs")
    assert (found.head_sha, found.base_sha, found.fork, found.is_open) == (HEAD, BASE, False, True)
    assert found.fetch_ref("gitlab") == "refs/merge-requests/7/head"


def test_the_published_merge_requests_are_read() -> None:
    said = example("get_merge_request")
    answers: dict[str, Reply] = {f"GET {PROJECT}/merge_requests/{said['iid']}": Example(200, said)}
    found, _ = talk(lambda forge: forge.pull_request(said["iid"]), answers)
    assert (found.number, found.title, found.author) == (said["iid"], said["title"], said["author"]["username"])
    assert (found.base_ref, found.head_ref, found.url) == (
        said["target_branch"],
        said["source_branch"],
        said["web_url"],
    )
    assert (found.head_sha, found.base_sha) == (said["sha"], said["diff_refs"]["start_sha"])
    assert (found.fork, found.is_open, found.merged) == (False, True, False)
    several = example("get_merge_requests")
    answers = {f"GET {PROJECT}/merge_requests": Example(200, several)}
    listed, _ = talk(lambda forge: forge.pull_requests(), answers)
    assert [(one.number, one.head_sha) for one in listed] == [(one["iid"], one["sha"]) for one in several]


def test_a_merge_request_from_a_fork_says_where_that_is_if_it_is_to_be_seen() -> None:
    answers = {
        f"GET {PROJECT}/merge_requests/7": Reply(200, merge_request(source_project_id=14)),
        f"GET {PREFIX}/projects/14": Reply(200, {"http_url_to_repo": "https://gitlab.example.com/ann/fleet.git"}),
    }
    found, _ = talk(lambda forge: forge.pull_request(7), answers)
    assert (found.fork, found.head_clone_url) == (True, "https://gitlab.example.com/ann/fleet.git")
    del answers[f"GET {PREFIX}/projects/14"]
    assert talk(lambda forge: forge.pull_request(7), answers)[0].head_clone_url == ""
    answers[f"GET {PROJECT}/merge_requests/7"] = Reply(200, merge_request(source_project_id=None, state="merged"))
    found, _ = talk(lambda forge: forge.pull_request(7), answers)
    assert (found.fork, found.is_open, found.merged) == (True, False, True)


def test_the_open_merge_requests() -> None:
    answers = {f"GET {PROJECT}/merge_requests": Reply(200, [merge_request(), merge_request(iid=8)])}
    found, asked = talk(lambda forge: forge.pull_requests(), answers)
    assert [one.number for one in found] == [7, 8]
    assert "state=opened" in asked[0].target


def test_notes_are_read_made_edited_and_deleted() -> None:
    notes = f"{PROJECT}/merge_requests/7/notes"
    answers = {
        f"GET {notes}": Reply(200, [note(3, "second"), note(1, "first", "ann"), note(2, "labelled", system=True)]),
        f"POST {notes}": Reply(201, note(4, "made")),
        f"PUT {notes}/4": Reply(200, note(4, "edited")),
        f"DELETE {notes}/4": Reply(204),
    }
    found, _ = talk(lambda forge: forge.comments(7), answers)
    assert [(one.id, one.body, one.author) for one in found] == [(1, "first", "ann"), (3, "second", "fleet-bot")]
    made, asked = talk(lambda forge: forge.create_comment(7, "made"), answers)
    assert made.url.endswith("/team/sub/fleet/-/merge_requests/7#note_4")
    assert asked[0].json == {"body": "made"}
    assert talk(lambda forge: forge.edit_comment(7, 4, "edited"), answers)[0].body == "edited"
    talk(lambda forge: forge.delete_comment(7, 4), answers)


@pytest.mark.parametrize(
    ("state", "word"),
    list(zip(CommitState, ("pending", "success", "failed", "failed"), strict=True)),
    ids=list(CommitState),
)
def test_a_commit_status(state: CommitState, word: str) -> None:
    answers = {f"POST {PROJECT}/statuses/{HEAD}": Reply(201, {"id": 1})}
    _, asked = talk(lambda forge: forge.set_status(HEAD, "fleet/preview", state, "2 to update", "https://a/b"), answers)
    wanted = {"state": word, "name": "fleet/preview", "description": "2 to update", "target_url": "https://a/b"}
    assert asked[0].json == wanted


def test_what_is_pending_may_be_made_pending_again_and_nothing_else() -> None:
    again = {"message": "Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition)"}
    answers = {f"POST {PROJECT}/statuses/{HEAD}": Reply(400, again)}
    talk(lambda forge: forge.set_status(HEAD, "fleet/preview", CommitState.PENDING), answers)
    with pytest.raises(ResourceError, match="Cannot transition"):
        talk(lambda forge: forge.set_status(HEAD, "fleet/preview", CommitState.SUCCESS), answers)


def test_a_commit_of_a_fork_is_on_no_branch_so_its_status_says_what_it_is_of() -> None:
    async def told(forge: Forge) -> None:
        await forge.set_status(HEAD, "fleet/preview", CommitState.SUCCESS)

    def answer(asked: Asked) -> Reply:
        absent = Reply(404, {"message": "404 References for commit Not Found"})
        return checked(asked, Reply(201, {}) if "ref" in asked.json else absent)

    with serving(answer) as server:
        asyncio.run(_as(told, server))
    assert [one.json.get("ref") for one in server.asked] == [None, HEAD]
    with pytest.raises(NotFoundError):
        talk(told, {})


@pytest.mark.parametrize(
    ("member", "may"),
    [
        (Reply(200, {"id": 11, "access_level": 50, "state": "active"}), True),
        (Reply(200, {"id": 11, "access_level": 30, "state": "active"}), True),
        (Reply(200, {"id": 11, "access_level": 30, "state": "awaiting"}), False),
        (Reply(200, {"id": 11, "access_level": 20, "state": "active"}), False),
        (Reply(404, {"message": "404 Not found"}), False),
    ],
)
def test_who_may_approve(member: Reply, may: bool) -> None:
    answers = {
        f"GET {PREFIX}/users": Reply(200, [{"id": 11, "username": "Ann"}]),
        f"GET {PROJECT}/members/all/11": member,
    }
    assert talk(lambda forge: forge.may_approve("ann"), answers)[0] is may


def test_the_level_from_which_on_one_may_push_is_the_published_one() -> None:
    assert f"DeveloperPermissions     AccessLevelValue = {DEVELOPER}\n" in published(GITLAB)["types.go"]


def test_published_users_are_told_apart_by_their_names() -> None:
    users = example("list_users")
    answers: dict[str, Reply] = {
        f"GET {PREFIX}/users": Example(200, users),
        f"GET {PROJECT}/members/all/2": Reply(200, {"id": 2, "access_level": 30, "state": "active"}),
    }
    names = [one["username"] for one in users]
    may = [name for name in names if talk(lambda forge: forge.may_approve(name), answers)[0]]  # noqa: B023 - run at once
    assert may == [names[1]]


def test_nobody_of_that_name_may_approve() -> None:
    answers = {f"GET {PREFIX}/users": Reply(200, [])}
    assert talk(lambda forge: forge.may_approve("ann&admin=1"), answers)[0] is False


def test_whose_token_it_is() -> None:
    said = example("get_user_bot")
    assert talk(lambda forge: forge.me(), {f"GET {PREFIX}/user": Example(200, said)})[0] == said["username"]
