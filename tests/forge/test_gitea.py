"""A real forge: what our client says to Gitea is what Gitea has then, and what Gitea sends is what we read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from fleet.errors import AccessError, NotFoundError
from fleet.forge.comments import ForkApproval, StickyComment, approval_command, post_sticky_comment, read_fork_approval
from fleet.forge.forge import Action, CommentEvent, CommitState, ForgeRepository, PullRequestEvent, PushEvent, connect
from fleet.forge.forge import Forge as Client
from fleet.forge.webhook import read_event
from fleet.testing import Forge
from fleet.testing.forge import ForgeUser, PullRequest
from fleet.testing.forge import Repository as Shop
from fleet.testing.git import git
from tests.lab.services.receiver import Delivery, Receiver

T = TypeVar("T")
TOPIC = StickyComment("preview", "shop")


def place(shop: Shop) -> ForgeRepository:
    return ForgeRepository("gitea", shop.user.url, f"{shop.owner}/{shop.name}")


def say(shop: Shop, what: Callable[[Client], Awaitable[T]], token: str = "") -> T:
    async def said() -> T:
        async with connect(place(shop), token or shop.user.token) as forge:
            return await what(forge)

    return asyncio.run(said())


def commit(shop: Shop, clone: Path, content: str, branch: str) -> str:
    (clone / "stack.py").write_text(content)
    git(clone, "add", "stack.py")
    git(clone, "commit", "--quiet", "--message", content)
    return shop.push(clone, branch)


@pytest.fixture
def shop(forge: Forge, tmp_path: Path) -> tuple[Shop, Path]:
    """A repository with a commit on main, and a clone of it."""
    made = forge.repository("shop")
    clone = made.clone(tmp_path / "clone")
    commit(made, clone, "replicas = 1", "main")
    return made, clone


@pytest.fixture
def request_(shop: tuple[Shop, Path]) -> PullRequest:
    commit(*shop, "replicas = 3", "change")
    return shop[0].pull_request("change", title="Three")


def test_a_pull_request_as_the_forge_has_it(shop: tuple[Shop, Path], request_: PullRequest) -> None:
    repository, clone = shop
    found = say(repository, lambda forge: forge.pull_request(request_.number))
    assert (found.title, found.author, found.is_open, found.fork) == ("Three", repository.owner, True, False)
    assert (found.base_ref, found.head_ref) == ("main", "change")
    assert found.head_sha == git(clone, "rev-parse", "HEAD").strip()
    assert found.base_sha == git(clone, "rev-parse", "HEAD^").strip()
    assert say(repository, lambda forge: forge.pull_requests()) == [found]
    git(clone, "fetch", "--quiet", "origin", found.fetch_ref("gitea"))
    assert git(clone, "rev-parse", "FETCH_HEAD").strip() == found.head_sha
    request_.merge()
    found = say(repository, lambda forge: forge.pull_request(request_.number))
    assert (found.is_open, found.merged) == (False, True)
    assert say(repository, lambda forge: forge.pull_requests()) == []


def test_webhooks_of_the_forge_are_read_with_their_signature(shop: tuple[Shop, Path], request_: PullRequest) -> None:
    repository, clone = shop

    def event(delivery: Delivery) -> object:
        headers = {"X-Gitea-Event": delivery.event, "X-Gitea-Signature": delivery.signature}
        with pytest.raises(AccessError):
            read_event("gitea", headers, delivery.body, "another secret")
        return read_event("gitea", headers, delivery.body, "between-us")

    with Receiver() as receiver:
        repository.webhook(receiver.url, "between-us", ["push", "pull_request", "pull_request_sync", "issue_comment"])
        before = git(clone, "rev-parse", "HEAD").strip()
        head = commit(repository, clone, "replicas = 5", "change")
        assert event(receiver.next("push", about=head)) == PushEvent(
            place(repository), "refs/heads/change", before, head
        )
        moved = event(receiver.next("pull_request", about=head))
        assert isinstance(moved, PullRequestEvent)
        assert (moved.action, moved.pull_request.head_sha) == (Action.PUSHED, head)
        assert moved.pull_request == say(repository, lambda forge: forge.pull_request(request_.number))
        written = request_.comment(approval_command(head))
        assert event(receiver.next("issue_comment")) == CommentEvent(
            place(repository), request_.number, repository.owner, approval_command(head), written.id
        )
        written.edit("something else")
        assert event(receiver.next("issue_comment")) is None
        request_.merge()
        merged = event(receiver.next("pull_request"))
        assert isinstance(merged, PullRequestEvent)
        assert (merged.action, merged.pull_request.merged) == (Action.MERGED, True)


def test_one_comment_is_made_edited_in_place_split_and_joined_again(
    shop: tuple[Shop, Path], request_: PullRequest
) -> None:
    repository, _ = shop
    other = request_.comment("Looks good")

    def bodies() -> list[str]:
        return [one["body"].partition("\n")[2] for one in request_.comments() if one["id"] != other.id]

    first = say(repository, lambda forge: post_sticky_comment(forge, request_.number, TOPIC, ["one"]))
    assert first.url.endswith(f"/pulls/{request_.number}#issuecomment-{first.id}")
    assert bodies() == ["one"]
    again = say(
        repository,
        lambda forge: post_sticky_comment(forge, request_.number, TOPIC, ["one, two", "three " + "x" * 60_000]),
    )
    assert again.id == first.id
    assert bodies() == ["one, two", "three " + "x" * 60_000]
    say(repository, lambda forge: post_sticky_comment(forge, request_.number, TOPIC, ["four"]))
    assert bodies() == ["four"]
    repository.api("DELETE", f"/issues/comments/{first.id}")
    made = say(repository, lambda forge: post_sticky_comment(forge, request_.number, TOPIC, ["five"]))
    assert made.id != first.id
    assert bodies() == ["five"]
    assert request_.comments()[0]["body"] == "Looks good"


def test_a_strangers_comment_with_our_mark_is_left_alone(
    forge: Forge, shop: tuple[Shop, Path], request_: PullRequest
) -> None:
    repository, _ = shop
    stranger = repository.as_user(forge.new_user())
    forged = f"{TOPIC.mark(1)}\nnothing would change"
    stranger.api("POST", f"/issues/{request_.number}/comments", {"body": forged})
    ours = say(repository, lambda client: post_sticky_comment(client, request_.number, TOPIC, ["all of it is deleted"]))
    found = request_.comments()
    assert [(one["user"]["login"], one["body"].partition("\n")[2]) for one in found] == [
        (stranger.user.name, "nothing would change"),
        (repository.owner, "all of it is deleted"),
    ]
    assert found[1]["id"] == ours.id


def test_many_who_post_at_once_end_with_one_comment(shop: tuple[Shop, Path], request_: PullRequest) -> None:
    repository, _ = shop

    async def together() -> None:
        async def one(words: str) -> None:
            async with connect(place(repository), repository.user.token) as forge:
                await post_sticky_comment(
                    forge, request_.number, TOPIC, [f"{words}, first", *([f"{words}, second"] * (words != "b"))]
                )

        await asyncio.gather(*(one(words) for words in "abcd"))

    for _ in range(2):
        asyncio.run(together())
        found = [one["body"].partition("\n") for one in request_.comments()]
        marks = [mark for mark, _, _ in found]
        assert marks in ([TOPIC.mark(1)], [TOPIC.mark(1), TOPIC.mark(2)])
        assert len({body.partition(",")[0] for _, _, body in found}) == 1  # all parts are of one poster


async def _set(wanted: tuple[str, str, CommitState, str, str], forge: Client) -> None:
    await forge.set_status(*wanted)


def test_a_status_goes_from_pending_to_success(shop: tuple[Shop, Path], request_: PullRequest) -> None:
    repository, _ = shop
    head = request_.state["head"]["sha"]
    for state in (CommitState.PENDING, CommitState.SUCCESS):
        wanted = (head, "fleet/preview", state, "x" * 400, "https://a.example/b")
        say(repository, partial(_set, wanted))
        found = repository.statuses(head)["fleet/preview"]
        assert (found["status"], found["target_url"]) == (state, "https://a.example/b")
        assert len(found["description"]) == 255


def test_only_those_who_may_write_approve_a_commit(
    forge: Forge, shop: tuple[Shop, Path], request_: PullRequest, tmp_path: Path
) -> None:
    repository, _ = shop
    stranger, reader, writer = forge.new_user(), forge.new_user(), forge.new_user()
    repository.give(reader, "read")
    repository.give(writer, "write")
    head = request_.state["head"]["sha"]

    def word() -> ForkApproval:
        return say(repository, lambda client: read_fork_approval(client, request_.number, head))

    def comment(user: ForgeUser, text: str) -> None:
        repository.as_user(user).api("POST", f"/issues/{request_.number}/comments", {"body": text})

    assert word() == ForkApproval()
    for user in (stranger, reader):
        comment(user, approval_command(head))
        assert word() == ForkApproval()
    comment(writer, "/fleet preview")
    comment(writer, approval_command("0" * 40))
    assert word() == ForkApproval()
    comment(writer, approval_command(head))
    assert word() == ForkApproval(writer.name)
    head = commit(*shop, "replicas = 7", "change")  # a push after the approval
    assert word() == ForkApproval()
    comment(writer, approval_command(head))
    plain = say(repository, lambda client: read_fork_approval(client, request_.number, head), writer.token)
    assert plain.by == writer.name  # of itself everybody may ask
    blind = say(repository, lambda client: read_fork_approval(client, request_.number, head), reader.token)
    assert blind.by == ""
    assert "may not do that" in blind.doubt


def test_a_fork_is_known_as_one(forge: Forge, shop: tuple[Shop, Path], tmp_path: Path) -> None:
    repository, stranger = shop[0], forge.new_user()
    fork = repository.fork(stranger)
    commit(fork, fork.clone(tmp_path / "fork"), "replicas = 9", "idea")
    asked = repository.as_user(stranger).pull_request(f"{stranger.name}:idea")
    found = say(repository, lambda client: client.pull_request(asked.number))
    assert (found.fork, found.author, found.head_clone_url) == (True, stranger.name, fork.url)
    stranger.api("DELETE", f"/repos/{stranger.name}/shop")
    found = say(repository, lambda client: client.pull_request(asked.number))
    assert (found.fork, found.head_clone_url) == (True, "")


def test_a_wrong_token_a_weak_one_a_wrong_repository_and_a_wrong_number(
    shop: tuple[Shop, Path], request_: PullRequest
) -> None:
    repository, _ = shop
    with pytest.raises(AccessError, match="does not accept the token"):
        say(repository, lambda forge: forge.me(), "0" * 40)
    weak = repository.user.new_token("read:repository", "read:issue", "read:user")
    with pytest.raises(AccessError, match="may not do that") as caught:
        say(repository, lambda forge: post_sticky_comment(forge, request_.number, TOPIC, ["x"]), weak)
    assert weak not in str(caught.value)
    with pytest.raises(NotFoundError):
        say(replace(repository, name="elsewhere"), lambda forge: forge.pull_request(1))
    with pytest.raises(NotFoundError):
        say(repository, lambda forge: forge.pull_request(999))
