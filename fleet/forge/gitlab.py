"""GitLab: its CI, its webhooks and answers read into our types, and the client of its REST API, version 4
(https://docs.gitlab.com/api).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from fleet.errors import AccessError, ConfigurationError, NotFoundError, ResourceError
from fleet.forge.forge import (
    Action,
    CiJob,
    Comment,
    CommentEvent,
    CommitState,
    Event,
    ForgeKind,
    ForgeRepository,
    PullRequest,
    PullRequestEvent,
    PushEvent,
    read_variable,
)
from fleet.forge.github import shorten
from fleet.forge.http import ForgeConnection, RepositoryClient
from fleet.forge.json import JsonObject, UnreadableError, parse_json, read_list
from fleet.forge.webhook import is_equal

_ACTIONS = {"open": Action.OPENED, "reopen": Action.REOPENED, "close": Action.CLOSED, "merge": Action.MERGED}
_NOTES = ("Note Hook", "Confidential Note Hook")  # the latter where a note is internal


def parse_pull_request(document: JsonObject) -> PullRequest:
    """Read a merge request as the API has it."""
    return PullRequest(
        number=document.number("iid"),
        title=document.text("title"),
        author=document.some_text("author.username"),
        url=document.text("web_url"),
        base_ref=document.text("target_branch"),
        base_sha=document.some_text("diff_refs.start_sha"),
        head_ref=document.text("source_branch"),
        head_sha=document.commit("sha"),
        fork=_is_fork(document),
        is_open=document.text("state") == "opened",
        merged=document.text("state") == "merged",
    )


def _is_fork(document: JsonObject) -> bool:
    has_source = document.has("source_project_id")  # null once that project is gone
    return not has_source or document.number("source_project_id") != document.number("target_project_id")


def parse_comment(document: JsonObject, url: str) -> Comment:
    number = document.number("id")
    return Comment(number, document.some_text("body"), document.some_text("author.username"), f"{url}#note_{number}")


def parse_repository(document: JsonObject) -> ForgeRepository:
    path, url = document.text("path_with_namespace"), document.text("web_url").rstrip("/")
    if not url.endswith(f"/{path}") or "/" not in path:
        raise UnreadableError("project.web_url does not end with project.path_with_namespace")
    return ForgeRepository("gitlab", url.removesuffix(f"/{path}"), path)


def parse_event(name: str, document: JsonObject) -> Event | None:
    """Return what an event of this name means to us; None where it means nothing."""
    if name in ("Push Hook", "Tag Push Hook"):
        repository = parse_repository(document.part("project"))
        return PushEvent(repository, document.text("ref"), document.commit("before"), document.commit("after"))
    if name == "Merge Request Hook":
        action = _action(document)
        if action is None:
            return None
        return PullRequestEvent(
            parse_repository(document.part("project")), _parse_hook_pull_request(document, action), action
        )
    if name in _NOTES and _is_new_comment(document):
        note = document.part("object_attributes")
        return CommentEvent(
            parse_repository(document.part("project")),
            document.number("merge_request.iid"),
            document.text("user.username"),
            note.text("note"),
            note.number("id"),
        )
    return None


def _action(document: JsonObject) -> Action | None:
    name = document.some_text("object_attributes.action")
    if name == "update":  # titles and labels are updates too
        is_pushed = document.has("object_attributes.oldrev") or document.has("changes.target_branch")
        return Action.PUSHED if is_pushed else None
    return _ACTIONS.get(name)


def _parse_hook_pull_request(document: JsonObject, action: Action) -> PullRequest:
    """Read the merge request of a hook, which names the acting user and not the author: the same when it was opened."""
    attributes = document.part("object_attributes")
    return PullRequest(
        number=attributes.number("iid"),
        title=attributes.text("title"),
        author=document.some_text("user.username") if action is Action.OPENED else "",
        url=attributes.text("url"),
        base_ref=attributes.text("target_branch"),
        base_sha="",
        head_ref=attributes.text("source_branch"),
        head_sha=attributes.commit("last_commit.id"),
        fork=_is_fork(attributes),
        head_clone_url=attributes.some_text("source.git_http_url"),
        is_open=attributes.text("state") in ("opened", "locked"),
        merged=attributes.text("state") == "merged",
    )


def _is_new_comment(document: JsonObject) -> bool:
    note = document.part("object_attributes")
    is_first = note.some_text("action") in ("", "create")  # older releases do not say
    return note.text("noteable_type") == "MergeRequest" and is_first and not note.has("system")


DEVELOPER = 30  # the access level from which on one may push
_STATES = {
    CommitState.PENDING: "pending",
    CommitState.SUCCESS: "success",
    CommitState.FAILURE: "failed",
    CommitState.ERROR: "failed",
}
_PAGE = 100


class GitLab(RepositoryClient):
    """Client of one project on a GitLab."""

    longest_comment = 1_000_000
    longest_description = 255

    def __init__(self, repository: ForgeRepository, token: str) -> None:
        super().__init__(repository, token)
        self._below = f"/projects/{quote(repository.path, safe='')}"

    def _new_connection(self, token: str) -> ForgeConnection:
        headers = {"Accept": "application/json", "PRIVATE-TOKEN": token}
        return ForgeConnection(f"{self.repository.url}/api/v4", headers, token)

    async def me(self) -> str:
        if not self._me:
            user = await self._connection.document("ask whose token it is", "GET", "/user")
            self._me = user.some_text("username")
        return self._me

    async def pull_request(self, number: int) -> PullRequest:
        what = f"look at merge request {number} of {self.repository.path}"
        document = await self._connection.document(what, "GET", f"{self._below}/merge_requests/{number}")
        pull_request = self._parse(what, parse_pull_request, document)
        if not pull_request.fork:
            return pull_request
        return replace(pull_request, head_clone_url=await self._clone_url(document))

    async def _clone_url(self, document: JsonObject) -> str:
        """Return the url of a fork; "" where this token may not see it."""
        if not document.has("source_project_id"):
            return ""
        path = f"/projects/{document.number('source_project_id')}"
        try:
            fork = await self._connection.document("look at the fork of a merge request", "GET", path)
        except (AccessError, NotFoundError):
            return ""
        return fork.some_text("http_url_to_repo")

    async def pull_requests(self) -> list[PullRequest]:
        what = f"list the merge requests of {self.repository.path}"
        query = {"state": "opened", "per_page": _PAGE}
        documents = self._connection.pages(what, f"{self._below}/merge_requests", query)
        return [self._parse(what, parse_pull_request, document) async for document in documents]

    async def comments(self, number: int) -> list[Comment]:
        what = f"read the comments on merge request {number} of {self.repository.path}"
        query = {"sort": "asc", "order_by": "created_at", "per_page": _PAGE}
        notes = self._connection.pages(what, f"{self._notes(number)}", query)
        comments = [self._comment(what, number, note) async for note in notes if not note.has("system")]
        return sorted(comments, key=lambda comment: comment.id)

    async def create_comment(self, number: int, body: str) -> Comment:
        what = f"comment on merge request {number} of {self.repository.path}"
        document = await self._connection.document(what, "POST", self._notes(number), body={"body": body})
        return self._comment(what, number, document)

    async def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        what = f"edit comment {comment} on merge request {number} of {self.repository.path}"
        path = f"{self._notes(number)}/{comment}"
        return self._comment(what, number, await self._connection.document(what, "PUT", path, body={"body": body}))

    async def delete_comment(self, number: int, comment: int) -> None:
        what = f"delete comment {comment} on merge request {number} of {self.repository.path}"
        await self._connection.request(what, "DELETE", f"{self._notes(number)}/{comment}", absent=True)

    async def set_status(
        self, sha: str, context: str, state: CommitState, description: str = "", url: str = ""
    ) -> None:
        what = f"set the status {context} of {sha[:8]} in {self.repository.path}"
        body = {"state": _STATES[state], "name": context}
        body["description"] = shorten(description, self.longest_description)
        if url:
            body["target_url"] = url
        path = f"{self._below}/statuses/{quote(sha, safe='')}"
        try:
            await self._connection.request(what, "POST", path, body=body)
        except ResourceError as error:
            # GitLab refuses to make pending what is pending.
            if state is not CommitState.PENDING or "Cannot transition status" not in error.message:
                raise
        except NotFoundError as error:
            # A fork's commit is on no branch of this project: then a status must say what it is of.
            if "References for commit" not in error.message:
                raise
            await self._connection.request(what, "POST", path, body={**body, "ref": sha})

    async def may_approve(self, user: str) -> bool:
        """Return whether a user is a member who may write. Members are known by number, those of groups included."""
        what = f"ask what {user} may do in {self.repository.path}"
        response = await self._connection.request(what, "GET", f"/users?username={quote(user, safe='')}")
        number = self._parse(what, _user_number, user, response.content)
        if number is None:
            return False
        member = await self._connection.request(what, "GET", f"{self._below}/members/all/{number}", absent=True)
        if member.status == 404:
            return False
        return self._parse(what, _may_write, self._connection.read(what, member))

    def _notes(self, number: int) -> str:
        return f"{self._below}/merge_requests/{number}/notes"

    def _comment(self, what: str, number: int, document: JsonObject) -> Comment:
        url = f"{self.repository}/-/merge_requests/{number}"
        return self._parse(what, parse_comment, document, url)


def _user_number(user: str, content: bytes) -> int | None:
    matches = [match for match in read_list(parse_json(content)) if match.text("username").lower() == user.lower()]
    return matches[0].number("id") if matches else None


def _may_write(member: JsonObject) -> bool:
    return member.number("access_level") >= DEVELOPER and member.some_text("state") == "active"


def read_job(environment: Mapping[str, str]) -> CiJob:
    """Read a job of GitLab's CI. It is about the project that is merged into."""
    path = environment.get("CI_MERGE_REQUEST_PROJECT_PATH", "") or read_variable(environment, "CI_PROJECT_PATH")
    repository = ForgeRepository("gitlab", read_variable(environment, "CI_SERVER_URL").rstrip("/"), path)
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    if not number.isdecimal():
        return CiJob(repository)
    # In pipelines of merged results the job's own commit is the merge; then this one is the head.
    head = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "") or environment.get("CI_COMMIT_SHA", "")
    return CiJob(
        repository,
        int(number),
        head,
        environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),
    )


_SIGNING_PREFIX = "whsec_"  # begins signing tokens; what follows is the key in base64


def _may_be_signed(headers: Mapping[str, str], secret: str) -> bool:
    signatures = headers.get("webhook-signature", "").split()
    return any(signature.startswith("v1,") for signature in signatures) or _has_secret(headers, secret)


def _is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Check the signature of id, time and body where there is a signing token; else the secret itself, in a header."""
    if _has_secret(headers, secret):
        return True
    signed_prefix = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode()
    digest = hmac.new(_signing_key(secret), signed_prefix + body, hashlib.sha256).digest()
    expected = f"v1,{base64.b64encode(digest).decode()}"
    # Several are given while a token is being replaced.
    return any(is_equal(expected, signature) for signature in headers.get("webhook-signature", "").split())


def _has_secret(headers: Mapping[str, str], secret: str) -> bool:
    return not secret.startswith(_SIGNING_PREFIX) and is_equal(secret, headers.get("x-gitlab-token", ""))


def _signing_key(secret: str) -> bytes:
    if not secret.startswith(_SIGNING_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SIGNING_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigurationError("the signing token is damaged: what follows whsec_ is no base64") from None


GITLAB = ForgeKind(
    name="gitlab",
    connect=GitLab,
    hosts={"gitlab.com": "gitlab.com", "altssh.gitlab.com": "gitlab.com"},
    head_ref="refs/merge-requests/{number}/head",
    token_variable="GITLAB_TOKEN",  # noqa: S106 - the name of the variable
    token_rights="a project access token with the scope api and the role Developer (CI_JOB_TOKEN may not comment)",  # noqa: S106
    job_variables=("GITLAB_CI",),
    read_job=read_job,
    event_header="x-gitlab-event",
    may_be_signed=_may_be_signed,
    is_signed=_is_signed,
    parse_event=parse_event,
)
