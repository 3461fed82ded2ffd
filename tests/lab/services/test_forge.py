"""The forge: what people and programs do on one, done over HTTP and git as they do it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.testing import Forge, ForgeError
from fleet.testing.forge import Repository
from fleet.testing.git import git
from tests.lab.services.receiver import Receiver


def pushed(repository: Repository, path: Path) -> Path:
    """A clone with a first commit on main, which the forge has too."""
    clone = repository.clone(path)
    commit(repository, clone, "README.md", "# Shop\n", "main")
    return clone


def commit(repository: Repository, clone: Path, file: str, content: str, branch: str) -> str:
    (clone / file).write_text(content)
    git(clone, "add", file)
    git(clone, "commit", "--quiet", "--message", f"Write {file}")
    return repository.push(clone, branch)


def test_a_push_with_a_token_arrives_and_can_be_cloned(forge: Forge, tmp_path: Path) -> None:
    repository = forge.repository("shop", private=True)
    clone = pushed(repository, tmp_path / "one")
    other = repository.clone(tmp_path / "two")
    assert git(other, "rev-parse", "HEAD") == git(clone, "rev-parse", "HEAD")
    assert repository.api("GET", "/contents/README.md?ref=main")["size"] == len("# Shop\n")


def test_a_wrong_token_is_refused_by_the_api_and_by_git(forge: Forge, tmp_path: Path) -> None:
    repository = forge.repository("shop", private=True)
    nobody = repository.as_user(replace(forge.user, token="0" * 40))
    with pytest.raises(ForgeError, match="401") as refused:
        nobody.api("GET", "")
    assert refused.value.status == 401
    with pytest.raises(AssertionError, match="Authentication failed"):
        nobody.clone(tmp_path / "clone")


def test_a_token_may_only_do_what_its_scopes_say(forge: Forge) -> None:
    repository = forge.repository("shop")
    reader = repository.as_user(replace(forge.user, token=forge.user.new_token("read:repository")))
    assert reader.api("GET", "")["name"] == "shop"
    with pytest.raises(ForgeError) as refused:
        reader.set_status("main", "success", "fleet")
    assert refused.value.status == 403


def test_others_do_not_see_what_is_private_until_they_are_given_rights(forge: Forge) -> None:
    repository, other = forge.repository("shop", private=True), forge.new_user()
    with pytest.raises(ForgeError) as refused:
        repository.as_user(other).api("GET", "")
    assert refused.value.status == 404
    repository.give(other, "read")
    assert repository.as_user(other).api("GET", "")["private"]


def test_a_pull_request_is_commented_judged_and_merged_and_its_webhooks_arrive(forge: Forge, tmp_path: Path) -> None:
    repository = forge.repository("shop")
    clone = pushed(repository, tmp_path / "clone")
    with Receiver() as receiver:
        repository.webhook(receiver.url, "between-us")
        head = commit(repository, clone, "stack.py", "replicas = 3\n", "change")
        told = receiver.next("push", about=head)
        assert told.signed_with("between-us")
        assert not told.signed_with("something else")
        assert (told.content["ref"], told.content["after"]) == ("refs/heads/change", head)

        request = repository.pull_request("change", title="Three replicas", body="As agreed.")
        opened = receiver.next("pull_request", about=head).content
        assert (opened["action"], opened["number"]) == ("opened", request.number)
        assert opened["pull_request"]["head"]["sha"] == head
        assert opened["repository"]["clone_url"] == repository.url

        comment = request.comment("preview: 1 change")
        assert receiver.next("issue_comment").content["action"] == "created"
        comment.edit("preview: 2 changes")
        assert receiver.next("issue_comment").content["action"] == "edited"
        assert [(one["id"], one["body"]) for one in request.comments()] == [(comment.id, "preview: 2 changes")]

        repository.set_status(head, "pending", "fleet/preview")
        repository.set_status(head, "success", "fleet/preview", "2 changes", "http://127.0.0.1/preview")
        status = repository.statuses(head)["fleet/preview"]
        assert (status["status"], status["description"]) == ("success", "2 changes")

        merged = request.merge()
        assert receiver.next("pull_request").content["pull_request"]["merged"]
    git(clone, "fetch", "--quiet", "origin")
    assert git(clone, "rev-parse", "origin/main").strip() == merged
    assert request.state["state"] == "closed"


def test_a_pull_request_from_a_fork_knows_where_it_comes_from(forge: Forge, tmp_path: Path) -> None:
    repository, stranger = forge.repository("shop"), forge.new_user()
    pushed(repository, tmp_path / "upstream")
    fork = repository.fork(stranger)
    commit(fork, fork.clone(tmp_path / "fork"), "stack.py", "replicas = 5\n", "idea")
    request = repository.as_user(stranger).pull_request(f"{stranger.name}:idea")
    head = request.state["head"]["repo"]
    assert (head["full_name"], head["fork"]) == (f"{stranger.name}/shop", True)


def test_the_page_of_a_repository_is_shown(forge: Forge, tmp_path: Path) -> None:
    from fleet.testing.http import exchange

    pushed(forge.repository("shop"), tmp_path / "clone")
    page = exchange("GET", f"{forge.url}/{forge.user.name}/shop")
    assert page.status == 200
    assert b"README.md" in page.body
