"""GitLab.

What GitLab says, read into our types. Pure.

GitLab's REST API, version 4, as described at https://docs.gitlab.com/api.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self
from urllib.parse import quote

from fleet.errors import AccessError, NotFoundError, ResourceError
from fleet.forge.forge import (
    Action,
    Comment,
    Commented,
    Event,
    Kind,
    PullRequest,
    PullRequestChanged,
    Pushed,
    Repository,
    State,
)
from fleet.forge.github import shortened
from fleet.forge.http import Connection
from fleet.forge.json import Document, UnreadableError, documents, parsed

_ACTIONS = {"open": Action.OPENED, "reopen": Action.REOPENED, "close": Action.CLOSED, "merge": Action.MERGED}
_NOTES = ("Note Hook", "Confidential Note Hook")  # the latter where a note is internal


def parse_pull_request(said: Document, head_clone_url: str = "") -> PullRequest:
    """A merge request as the API has it."""
    return PullRequest(
        number=said.number("iid"),
        title=said.text("title"),
        author=said.some_text("author.username"),
        url=said.text("web_url"),
        base_ref=said.text("target_branch"),
        base_sha=said.some_text("diff_refs.start_sha"),
        head_ref=said.text("source_branch"),
        head_sha=said.commit("sha"),
        fork=_is_fork(said),
        head_clone_url=head_clone_url,
        is_open=said.text("state") == "opened",
        merged=said.text("state") == "merged",
    )


def _is_fork(said: Document) -> bool:
    there = said.has("source_project_id")  # null once that project is gone
    return not there or said.number("source_project_id") != said.number("target_project_id")


def parse_comment(said: Document, url: str) -> Comment:
    number = said.number("id")
    return Comment(number, said.some_text("body"), said.some_text("author.username"), f"{url}#note_{number}")


def parse_repository(said: Document) -> Repository:
    path, url = said.text("path_with_namespace"), said.text("web_url").rstrip("/")
    if not url.endswith(f"/{path}") or "/" not in path:
        raise UnreadableError("project.web_url does not end with project.path_with_namespace")
    return Repository(Kind.GITLAB, url.removesuffix(f"/{path}"), path)


def parse_event(name: str, said: Document) -> Event | None:
    """What an event of this name means to us; None where it means nothing."""
    if name in ("Push Hook", "Tag Push Hook"):
        where = parse_repository(said.part("project"))
        return Pushed(where, said.text("ref"), said.commit("before"), said.commit("after"))
    if name == "Merge Request Hook":
        action = _action(said)
        if action is None:
            return None
        return PullRequestChanged(parse_repository(said.part("project")), _changed(said, action), action)
    if name in _NOTES and _is_new_comment(said):
        made = said.part("object_attributes")
        return Commented(
            parse_repository(said.part("project")),
            said.number("merge_request.iid"),
            said.text("user.username"),
            made.text("note"),
            made.number("id"),
        )
    return None


def _action(said: Document) -> Action | None:
    name = said.some_text("object_attributes.action")
    if name == "update":  # titles and labels are updates too
        moved = said.has("object_attributes.oldrev") or said.has("changes.target_branch")
        return Action.PUSHED if moved else None
    return _ACTIONS.get(name)


def _changed(said: Document, action: Action) -> PullRequest:
    """The hook names who did it and not whose it is, which is the same when it was opened."""
    it = said.part("object_attributes")
    return PullRequest(
        number=it.number("iid"),
        title=it.text("title"),
        author=said.some_text("user.username") if action is Action.OPENED else "",
        url=it.text("url"),
        base_ref=it.text("target_branch"),
        base_sha="",
        head_ref=it.text("source_branch"),
        head_sha=it.commit("last_commit.id"),
        fork=_is_fork(it),
        head_clone_url=it.some_text("source.git_http_url"),
        is_open=it.text("state") in ("opened", "locked"),
        merged=it.text("state") == "merged",
    )


def _is_new_comment(said: Document) -> bool:
    about = said.part("object_attributes")
    is_first = about.some_text("action") in ("", "create")  # older releases do not say
    return about.text("noteable_type") == "MergeRequest" and is_first and not about.has("system")


DEVELOPER = 30  # the access level from which on one may push
_STATES = {State.PENDING: "pending", State.SUCCESS: "success", State.FAILURE: "failed", State.ERROR: "failed"}
_PAGE = 100


class GitLab:
    longest_comment = 1_000_000
    longest_description = 255

    def __init__(self, repository: Repository, token: str) -> None:
        self.repository = repository
        self._below = f"/projects/{quote(repository.path, safe='')}"
        headers = {"Accept": "application/json", "PRIVATE-TOKEN": token}
        self._connection = Connection(f"{repository.url}/api/v4", headers, token)
        self._me = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def me(self) -> str:
        if not self._me:
            said = await self._connection.document("ask whose token it is", "GET", "/user")
            self._me = said.some_text("username")
        return self._me

    async def pull_request(self, number: int) -> PullRequest:
        what = f"look at merge request {number} of {self.repository.path}"
        said = await self._connection.document(what, "GET", f"{self._below}/merge_requests/{number}")
        found = self._read(what, said)
        return self._read(what, said, await self._clone_url(said)) if found.fork else found

    async def _clone_url(self, said: Document) -> str:
        """Of a fork, as far as this token may see it."""
        if not said.has("source_project_id"):
            return ""
        path = f"/projects/{said.number('source_project_id')}"
        try:
            fork = await self._connection.document("look at the fork of a merge request", "GET", path)
        except (AccessError, NotFoundError):
            return ""
        return fork.some_text("http_url_to_repo")

    async def pull_requests(self) -> list[PullRequest]:
        what = f"list the merge requests of {self.repository.path}"
        query = {"state": "opened", "per_page": _PAGE}
        found = self._connection.pages(what, f"{self._below}/merge_requests", query)
        return [self._read(what, one) async for one in found]

    async def comments(self, number: int) -> list[Comment]:
        what = f"read the comments on merge request {number} of {self.repository.path}"
        query = {"sort": "asc", "order_by": "created_at", "per_page": _PAGE}
        found = self._connection.pages(what, f"{self._notes(number)}", query)
        made = [self._comment(what, number, one) async for one in found if not one.has("system")]
        return sorted(made, key=lambda one: one.id)

    async def create_comment(self, number: int, body: str) -> Comment:
        what = f"comment on merge request {number} of {self.repository.path}"
        said = await self._connection.document(what, "POST", self._notes(number), body={"body": body})
        return self._comment(what, number, said)

    async def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        what = f"edit comment {comment} on merge request {number} of {self.repository.path}"
        path = f"{self._notes(number)}/{comment}"
        return self._comment(what, number, await self._connection.document(what, "PUT", path, body={"body": body}))

    async def delete_comment(self, number: int, comment: int) -> None:
        what = f"delete comment {comment} on merge request {number} of {self.repository.path}"
        await self._connection.ask(what, "DELETE", f"{self._notes(number)}/{comment}", absent=True)

    async def set_status(self, sha: str, context: str, state: State, description: str = "", url: str = "") -> None:
        what = f"set the status {context} of {sha[:8]} in {self.repository.path}"
        body = {"state": _STATES[state], "name": context}
        body["description"] = shortened(description, self.longest_description)
        if url:
            body["target_url"] = url
        path = f"{self._below}/statuses/{quote(sha, safe='')}"
        try:
            await self._connection.ask(what, "POST", path, body=body)
        except ResourceError as error:
            # GitLab refuses to make pending what is pending.
            if state is not State.PENDING or "Cannot transition status" not in error.message:
                raise
        except NotFoundError as error:
            # A fork's commit is on no branch of this project: then a status must say what it is of.
            if "References for commit" not in error.message:
                raise
            await self._connection.ask(what, "POST", path, body={**body, "ref": sha})

    async def may_approve(self, user: str) -> bool:
        """Members are known by number, groups' members included."""
        what = f"ask what {user} may do in {self.repository.path}"
        answer = await self._connection.ask(what, "GET", f"/users?username={quote(user, safe='')}")
        number = self._number(what, user, answer.content)
        if number is None:
            return False
        member = await self._connection.ask(what, "GET", f"{self._below}/members/all/{number}", absent=True)
        if member.status == 404:
            return False
        said = self._connection.read(what, member)
        try:
            return said.number("access_level") >= DEVELOPER and said.some_text("state") == "active"
        except UnreadableError as error:
            raise self._connection.unreadable(what, error) from None

    def _number(self, what: str, user: str, content: bytes) -> int | None:
        try:
            named = [one for one in documents(parsed(content)) if one.text("username").lower() == user.lower()]
            return named[0].number("id") if named else None
        except UnreadableError as error:
            raise self._connection.unreadable(what, error) from None

    def _notes(self, number: int) -> str:
        return f"{self._below}/merge_requests/{number}/notes"

    def _read(self, what: str, said: Document, clone_url: str = "") -> PullRequest:
        try:
            return parse_pull_request(said, clone_url)
        except UnreadableError as error:
            raise self._connection.unreadable(what, error) from None

    def _comment(self, what: str, number: int, said: Document) -> Comment:
        url = f"{self.repository}/-/merge_requests/{number}"
        try:
            return parse_comment(said, url)
        except UnreadableError as error:
            raise self._connection.unreadable(what, error) from None
