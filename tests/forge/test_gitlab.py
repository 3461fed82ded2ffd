"""Requests to GitLab as its API's documentation has them, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from fleet.errors import NotFoundError, ResourceError
from fleet.forge.client import Forge, connect
from fleet.forge.model import Kind, Repository, State
from tests.forge.gitlab_payloads import BASE, HEAD, merge_request, note
from tests.forge.server import Asked, Reply, Server, serving

T = TypeVar("T")
PROJECT = "/forge/api/v4/projects/team%2Fsub%2Ffleet"


def talk(what: Callable[[Forge], Awaitable[T]], answers: dict[str, Reply]) -> tuple[T, list[Asked]]:
    """`answers` by method and path, without the query."""

    def answer(asked: Asked) -> Reply:
        assert asked.headers["private-token"] == "token-of-ours"
        return answers.get(f"{asked.method} {asked.target.partition('?')[0]}", Reply(404, {"message": "404 Not Found"}))

    with serving(answer) as server:
        return asyncio.run(_as(what, server)), server.asked


async def _as(what: Callable[[Forge], Awaitable[T]], server: Server) -> T:
    repository = Repository(Kind.GITLAB, f"{server.url}/forge", "team/sub/fleet")
    async with connect(repository, "token-of-ours") as forge:
        return await what(forge)


def test_a_merge_request() -> None:
    found, _ = talk(
        lambda forge: forge.pull_request(7), {f"GET {PROJECT}/merge_requests/7": Reply(200, merge_request())}
    )
    assert (found.number, found.author, found.base_ref, found.head_ref) == (7, "ann", "main", "francs")
    assert (found.head_sha, found.base_sha, found.fork, found.is_open) == (HEAD, BASE, False, True)
    assert found.fetch_ref(Kind.GITLAB) == "refs/merge-requests/7/head"


def test_a_merge_request_from_a_fork_says_where_that_is_if_it_is_to_be_seen() -> None:
    answers = {
        f"GET {PROJECT}/merge_requests/7": Reply(200, merge_request(source_project_id=14)),
        "GET /forge/api/v4/projects/14": Reply(200, {"http_url_to_repo": "https://gitlab.example.com/ann/fleet.git"}),
    }
    found, _ = talk(lambda forge: forge.pull_request(7), answers)
    assert (found.fork, found.head_clone_url) == (True, "https://gitlab.example.com/ann/fleet.git")
    del answers["GET /forge/api/v4/projects/14"]
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
    ("state", "word"), list(zip(State, ("pending", "success", "failed", "failed"), strict=True)), ids=list(State)
)
def test_a_commit_status(state: State, word: str) -> None:
    answers = {f"POST {PROJECT}/statuses/{HEAD}": Reply(201, {"id": 1})}
    _, asked = talk(lambda forge: forge.set_status(HEAD, "fleet/preview", state, "2 to update", "https://a/b"), answers)
    wanted = {"state": word, "name": "fleet/preview", "description": "2 to update", "target_url": "https://a/b"}
    assert asked[0].json == wanted


def test_what_is_pending_may_be_made_pending_again_and_nothing_else() -> None:
    again = {"message": "Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition)"}
    answers = {f"POST {PROJECT}/statuses/{HEAD}": Reply(400, again)}
    talk(lambda forge: forge.set_status(HEAD, "fleet/preview", State.PENDING), answers)
    with pytest.raises(ResourceError, match="Cannot transition"):
        talk(lambda forge: forge.set_status(HEAD, "fleet/preview", State.SUCCESS), answers)


def test_a_commit_of_a_fork_is_on_no_branch_so_its_status_says_what_it_is_of() -> None:
    async def told(forge: Forge) -> None:
        await forge.set_status(HEAD, "fleet/preview", State.SUCCESS)

    def answer(asked: Asked) -> Reply:
        return Reply(201, {}) if "ref" in asked.json else Reply(404, {"message": "404 References for commit Not Found"})

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
        "GET /forge/api/v4/users": Reply(200, [{"id": 11, "username": "Ann"}]),
        f"GET {PROJECT}/members/all/11": member,
    }
    assert talk(lambda forge: forge.may_approve("ann"), answers)[0] is may


def test_nobody_of_that_name_may_approve() -> None:
    answers = {"GET /forge/api/v4/users": Reply(200, [])}
    assert talk(lambda forge: forge.may_approve("ann&admin=1"), answers)[0] is False


def test_whose_token_it_is() -> None:
    assert talk(lambda forge: forge.me(), {"GET /forge/api/v4/user": Reply(200, {"username": "bot"})})[0] == "bot"
