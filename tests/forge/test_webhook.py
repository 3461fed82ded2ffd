"""Webhooks are read as the forges publish them, and only with the right signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Any

import orjson
import pytest

from fleet.errors import AccessError, ConfigurationError
from fleet.forge import FORGES
from fleet.forge.forge import Action, CommentEvent, Event, ForgeRepository, PullRequestEvent, PushEvent
from fleet.forge.webhook import MOST_BYTES, read_event
from tests.forge.gitlab_client import document
from tests.forge.published_apis import GITLAB, WEBHOOKS, published

SECRET = "a secret of both"


def digest(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def from_github(name: str, payload: Any) -> Event | None:
    body = orjson.dumps(payload)
    headers = {"X-GitHub-Event": name, "X-Hub-Signature-256": f"sha256={digest(body)}"}
    return read_event("github", headers, body, SECRET)


def from_gitlab(name: str, payload: Any) -> Event | None:
    headers = {"X-Gitlab-Event": name, "X-Gitlab-Token": SECRET}
    return read_event("gitlab", headers, orjson.dumps(payload), SECRET)


def examples(name: str) -> list[dict[str, Any]]:
    [found] = [one["examples"] for one in published(WEBHOOKS) if one["name"] == name]
    assert found
    return list(found)


def gitlab(name: str) -> dict[str, Any]:
    """An event that GitLab's own client is tested with. One has spaces at the ends of its names; that is theirs."""
    found: dict[str, Any] = _stripped(orjson.loads(published(GITLAB)[f"testdata/webhooks/{name}.json"]))
    return found


def _stripped(data: Any) -> Any:
    if isinstance(data, dict):
        return {name.strip(): _stripped(value) for name, value in data.items()}
    return data.strip() if isinstance(data, str) else data


def test_every_published_event_of_github_is_read_or_means_nothing() -> None:
    meant = set()
    for one in published(WEBHOOKS):
        for payload in one["examples"]:
            event = from_github(one["name"], payload)
            if event:
                meant.add(one["name"])
                assert event.repository.kind == "github"
                assert event.repository.url == "https://github.com"
                assert event.repository.path == payload["repository"]["full_name"]
    assert meant == {"push", "pull_request"}  # no published comment is one on a pull request


def test_every_published_pull_request_of_github_is_read() -> None:
    actions = {"opened": "opened", "synchronize": "pushed", "reopened": "reopened", "closed": "closed"}
    for payload in examples("pull_request"):
        event, said = from_github("pull_request", payload), payload["pull_request"]
        if payload["action"] not in actions:
            assert event is None
            continue
        assert isinstance(event, PullRequestEvent)
        assert event.action == actions[payload["action"]]
        found = event.pull_request
        assert (found.number, found.title, found.author) == (said["number"], said["title"], said["user"]["login"])
        assert (found.head_sha, found.head_ref) == (said["head"]["sha"], said["head"]["ref"])
        assert (found.base_sha, found.base_ref) == (said["base"]["sha"], said["base"]["ref"])
        assert found.url == said["html_url"]
        assert not found.fork
        assert found.is_open == (said["state"] == "open")


def test_a_pull_request_of_github_from_a_fork_from_one_that_is_gone_and_one_that_is_merged() -> None:
    payload = next(one for one in examples("pull_request") if one["action"] == "closed")
    payload["pull_request"]["head"]["repo"]["id"] += 1
    payload["pull_request"]["merged"] = True
    event = from_github("pull_request", payload)
    assert isinstance(event, PullRequestEvent)
    assert (event.action, event.pull_request.fork) == (Action.MERGED, True)
    payload["pull_request"]["head"]["repo"] = None
    event = from_github("pull_request", payload)
    assert isinstance(event, PullRequestEvent)
    assert (event.pull_request.fork, event.pull_request.head_clone_url) == (True, "")


def test_another_branch_to_merge_into_is_another_change_and_another_title_is_not() -> None:
    payload = next(one for one in examples("pull_request") if one["action"] == "opened")
    payload |= {"action": "edited", "changes": {"title": {"from": "before"}}}
    assert from_github("pull_request", payload) is None
    payload["changes"] = {"base": {"ref": {"from": "main"}, "sha": {"from": "0" * 40}}}
    event = from_github("pull_request", payload)
    assert isinstance(event, PullRequestEvent)
    assert event.action is Action.PUSHED


def test_a_comment_on_a_pull_request_of_github_is_read_and_one_on_an_issue_is_not() -> None:
    payload = next(one for one in examples("issue_comment") if one["action"] == "created")
    assert from_github("issue_comment", payload) is None
    payload["issue"]["pull_request"] = {"url": "https://api.github.com/repos/Codertocat/Hello-World/pulls/1"}
    event = from_github("issue_comment", payload)
    assert isinstance(event, CommentEvent)
    said = payload["comment"]
    assert (event.number, event.author) == (payload["issue"]["number"], said["user"]["login"])
    assert (event.body, event.comment_id) == (said["body"], said["id"])
    assert from_github("issue_comment", payload | {"action": "edited"}) is None


def test_every_published_push_of_github_is_read() -> None:
    for payload in examples("push"):
        event = from_github("push", payload)
        assert isinstance(event, PushEvent)
        assert (event.ref, event.before, event.after) == (payload["ref"], payload["before"], payload["after"])


def test_every_published_event_of_gitlab_is_read_or_means_nothing() -> None:
    sources = published(GITLAB)
    ours = {
        "push": "Push Hook",
        "tag_push": "Tag Push Hook",
        "merge_request": "Merge Request Hook",
        "note": "Note Hook",
    }
    names = set(re.findall(r'EventType = "(.+)"', sources["event_parsing.go"]))
    assert set(ours.values()) < names
    assert 'eventTypeHeader = "X-Gitlab-Event"' in sources["event_parsing.go"]
    assert 'eventTokenHeader = "X-Gitlab-Token"' in sources["event_parsing.go"]
    meant = set()
    for path in sources:
        if not path.startswith("testdata/webhooks/"):
            continue
        file = path.removeprefix("testdata/webhooks/").removesuffix(".json")
        payload = gitlab(file)
        for name in names - set(ours.values()) - {"Confidential Note Hook"}:
            assert from_gitlab(name, payload) is None
        name = ours.get(payload.get("object_kind", ""), "")
        event = from_gitlab(name, payload) if name else None
        if event:
            meant.add(file)
            assert str(event.repository) == payload["project"]["web_url"]
            assert event.repository.path == payload["project"]["path_with_namespace"]
    merge_requests = {"merge_request", "service_merge_request", "group_merge_request"}
    assert meant == {"push", "tag_push", "note_merge_request"} | merge_requests


@pytest.mark.parametrize(
    ("file", "action"),
    [
        ("merge_request", Action.OPENED),
        ("service_merge_request", Action.PUSHED),
        ("group_merge_request", Action.MERGED),
    ],
)
def test_every_published_merge_request_of_gitlab_is_read(file: str, action: Action) -> None:
    payload = gitlab(file)
    event, said = from_gitlab("Merge Request Hook", payload), payload["object_attributes"]
    assert isinstance(event, PullRequestEvent)
    found = event.pull_request
    assert event.action is action
    assert found.author == (payload["user"]["username"] if action is Action.OPENED else "")
    assert (found.number, found.title, found.url) == (said["iid"], said["title"], said["url"])
    assert (found.base_ref, found.head_ref) == (said["target_branch"], said["source_branch"])
    assert found.head_sha == said["last_commit"]["id"]
    assert found.head_clone_url == said["source"]["git_http_url"]
    assert not found.fork
    assert (found.is_open, found.merged) == (action is not Action.MERGED, action is Action.MERGED)


def test_a_merge_request_of_gitlab_from_a_fork_and_from_one_that_is_gone_in_a_group_of_a_group() -> None:
    payload = gitlab("merge_request")
    payload["project"] |= {
        "web_url": "https://gitlab.example.com/forge/team/sub/fleet",
        "path_with_namespace": "team/sub/fleet",
    }
    for source in (15, None):
        payload["object_attributes"]["source_project_id"] = source
        event = from_gitlab("Merge Request Hook", payload)
        assert isinstance(event, PullRequestEvent)
        assert event.repository == ForgeRepository("gitlab", "https://gitlab.example.com/forge", "team/sub/fleet")
        assert event.pull_request.fork


@pytest.mark.parametrize(
    ("change", "action"),
    [
        ({"action": "update"}, None),  # a label, a title
        ({"action": "update", "oldrev": "1" * 40}, Action.PUSHED),
        ({"action": "reopen"}, Action.REOPENED),
        ({"action": "close", "state": "closed"}, Action.CLOSED),
        ({"action": "merge", "state": "merged"}, Action.MERGED),
        ({"action": "approved"}, None),
    ],
)
def test_what_happened_to_a_merge_request(change: dict[str, str], action: Action | None) -> None:
    payload = gitlab("merge_request")
    payload["object_attributes"] |= change
    event = from_gitlab("Merge Request Hook", payload)
    assert (event.action if isinstance(event, PullRequestEvent) else None) == action
    assert not isinstance(event, PullRequestEvent) or event.pull_request.is_open == ("state" not in change)


def test_another_branch_to_merge_into_is_another_change_at_gitlab_too() -> None:
    described = document(published(GITLAB))["components"]["schemas"]["MergeEventChanges"]["properties"]
    for name, action in (("title", None), ("target_branch", Action.PUSHED)):
        assert name in described
        payload = gitlab("merge_request")
        payload["object_attributes"]["action"] = "update"
        payload["changes"] = {name: {"previous": "before", "current": "after"}}
        event = from_gitlab("Merge Request Hook", payload)
        assert (event.action if isinstance(event, PullRequestEvent) else None) == action


@pytest.mark.parametrize("name", ["Note Hook", "Confidential Note Hook"])
def test_a_comment_on_a_merge_request_is_read_and_all_other_notes_are_not(name: str) -> None:
    payload = gitlab("note_merge_request")
    said = payload["object_attributes"]
    assert from_gitlab(name, payload) == CommentEvent(
        ForgeRepository("gitlab", "http://example.com", "gitlab-org/gitlab-test"),
        payload["merge_request"]["iid"],
        payload["user"]["username"],
        said["note"],
        said["id"],
    )
    for file in ("note_commit", "note_issue", "note_snippet"):
        assert from_gitlab(name, gitlab(file)) is None
    for change in ({"system": True}, {"action": "update"}):
        assert from_gitlab(name, payload | {"object_attributes": said | change}) is None


@pytest.mark.parametrize(("file", "name"), [("push", "Push Hook"), ("tag_push", "Tag Push Hook")])
def test_every_published_push_to_gitlab_is_read(file: str, name: str) -> None:
    payload = gitlab(file)
    event = from_gitlab(name, payload)
    assert isinstance(event, PushEvent)
    assert (event.ref, event.before, event.after) == (payload["ref"], payload["before"], payload["after"])


@pytest.mark.parametrize("kind", FORGES)
@pytest.mark.parametrize("given", ["", "sha256=", "0" * 64, "sha256=" + "0" * 64, "é", "v1,AAAA"])
def test_a_wrong_signature_is_refused_before_anything_is_read(kind: str, given: str) -> None:
    names = ("X-Hub-Signature-256", "X-Gitea-Signature", "X-Gitlab-Token", "webhook-signature", "X-Gitea-Event")
    with pytest.raises(AccessError, match="signature is missing or wrong"):
        read_event(kind, dict.fromkeys(names, given), b"no JSON at all", SECRET)
    with pytest.raises(AccessError):
        read_event(kind, {}, b"no JSON at all", SECRET)


def test_the_signature_is_of_the_bytes_as_they_came_and_of_this_secret() -> None:
    body = b'{"zen": "a"}'
    right = {"X-GitHub-Event": "ping", "X-Hub-Signature-256": f"sha256={digest(body)}"}
    assert read_event("github", right, body, SECRET) is None
    with pytest.raises(AccessError):
        read_event("github", right, body + b" ", SECRET)
    with pytest.raises(AccessError):
        read_event("github", right, body, SECRET + "!")
    with pytest.raises(AccessError):  # GitHub's header does not do for Gitea
        read_event("gitea", {**right, "X-Gitea-Event": "push"}, body, SECRET)


def test_a_signing_token_of_gitlab_signs_id_time_and_body() -> None:
    key = bytes(range(32))
    secret = f"whsec_{base64.b64encode(key).decode()}"
    body = orjson.dumps(gitlab("push"))
    made = base64.b64encode(hmac.new(key, b"msg-1.1700000000." + body, hashlib.sha256).digest()).decode()
    headers = {
        "X-Gitlab-Event": "Push Hook",
        "webhook-id": "msg-1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,AAAA v1,{made}",
    }
    assert isinstance(read_event("gitlab", headers, body, secret), PushEvent)
    with pytest.raises(AccessError):
        read_event("gitlab", headers | {"webhook-timestamp": "1700000001"}, body, secret)
    with pytest.raises(AccessError):  # the token itself is never sent
        read_event("gitlab", {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": secret}, body, secret)


def test_without_a_secret_nothing_is_read() -> None:
    body = b"{}"
    with pytest.raises(ConfigurationError, match="without a secret"):
        read_event("github", {"X-Hub-Signature-256": f"sha256={digest(body, '')}"}, body, "")


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ([], "no JSON object"),
        ({}, "action is no text"),
        ({"action": "opened"}, "repository is no JSON object"),
        ({"action": "opened", "repository": {"full_name": "a/b", "html_url": "https://x/c/d"}}, "does not end with"),
    ],
)
def test_a_payload_that_is_not_as_described_says_what_is_wrong(payload: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        from_github("pull_request", payload)


def test_a_commit_is_a_commit() -> None:
    payload = examples("push")[0] | {"after": "--upload-pack=touch /tmp/x"}
    with pytest.raises(ConfigurationError, match="after is no commit"):
        from_github("push", payload)


def test_more_than_a_forge_ever_sends_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no forge sends more"):
        read_event("github", {}, bytes(MOST_BYTES + 1), SECRET)
