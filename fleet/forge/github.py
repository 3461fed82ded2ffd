"""GitHub.

What GitHub says, read into our types. Gitea says it in almost the same form. Pure.

GitHub's REST API, as described at https://docs.github.com/rest. Gitea's is made after it and so is its client.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

from fleet.errors import FleetError, ResourceError
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
from fleet.forge.http import Connection
from fleet.forge.json import Document, UnreadableError

_ACTIONS = {
    "opened": Action.OPENED,
    "synchronize": Action.PUSHED,
    "synchronized": Action.PUSHED,  # Gitea's spelling
    "reopened": Action.REOPENED,
}


def parse_pull_request(said: Document) -> PullRequest:
    here = said.number("base.repo.id")
    head = said.part("head")
    return PullRequest(
        number=said.number("number"),
        title=said.text("title"),
        author=said.some_text("user.login"),
        url=said.text("html_url"),
        base_ref=said.text("base.ref"),
        base_sha=said.commit("base.sha"),
        head_ref=head.text("ref"),
        head_sha=head.commit("sha"),
        fork=not head.has("repo") or head.number("repo.id") != here,
        head_clone_url=head.some_text("repo.clone_url"),
        is_open=said.text("state") == "open",
        merged=said.has("merged_at"),
    )


def parse_comment(said: Document) -> Comment:
    return Comment(said.number("id"), said.some_text("body"), said.some_text("user.login"), said.text("html_url"))


def parse_repository(kind: Kind, said: Document) -> Repository:
    """The forge's own URL is what is left of the repository's without its path: so sub-paths are known."""
    path, url = said.text("full_name"), said.text("html_url").rstrip("/")
    if not url.endswith(f"/{path}") or path.count("/") != 1:
        raise UnreadableError("repository.html_url does not end with repository.full_name")
    return Repository(kind, url.removesuffix(f"/{path}"), path)


def parse_event(kind: Kind, name: str, said: Document) -> Event | None:
    """What an event of this name means to us; None where it means nothing."""
    if name == "push":
        return Pushed(_where(kind, said), said.text("ref"), said.commit("before"), said.commit("after"))
    if name == "pull_request":
        action = _action(said)
        if action is None:
            return None
        return PullRequestChanged(_where(kind, said), parse_pull_request(said.part("pull_request")), action)
    if name == "issue_comment" and said.text("action") == "created" and _is_of_pull_request(said):
        made = parse_comment(said.part("comment"))
        return Commented(_where(kind, said), said.number("issue.number"), made.author, made.body, made.id)
    return None


def _where(kind: Kind, said: Document) -> Repository:
    return parse_repository(kind, said.part("repository"))


def _action(said: Document) -> Action | None:
    name = said.text("action")
    if name == "closed":
        return Action.MERGED if said.has("pull_request.merged") else Action.CLOSED
    if name == "edited":  # another branch to merge into makes another change of it; a new title does not
        return Action.PUSHED if said.has("changes.base") or said.has("changes.ref") else None
    return _ACTIONS.get(name)


def _is_of_pull_request(said: Document) -> bool:
    return said.has("issue.pull_request") or said.has("is_pull")


WRITES = frozenset({"owner", "admin", "write"})  # GitHub says `write` for its role maintain too


class GitHub:
    longest_comment = 65_536
    longest_description = 140
    page_size: tuple[str, int] = ("per_page", 100)

    def __init__(self, repository: Repository, token: str) -> None:
        self.repository = repository
        owner, _, name = repository.path.partition("/")
        self._below = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._connection = self._connected(token)
        self._me = ""

    def _connected(self, token: str) -> Connection:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        return Connection(api(self.repository.url), {**headers, "Authorization": f"Bearer {token}"}, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def me(self) -> str:
        """By GraphQL: the token that GitHub gives to its Actions is nobody's to the REST API."""
        if not self._me:
            what = "ask whose token it is"
            query = {"query": "query { viewer { login } }"}
            said = await self._connection.document(what, "POST", graphql(self.repository.url), body=query)
            self._me = said.some_text("data.viewer.login")
            if not self._me:
                raise ResourceError(f"cannot {what}: {self.repository.url} does not say")
        return self._me

    async def pull_request(self, number: int) -> PullRequest:
        what = f"look at pull request {number} of {self.repository.path}"
        return self._read(what, await self._connection.document(what, "GET", f"{self._below}/pulls/{number}"))

    async def pull_requests(self) -> list[PullRequest]:
        what = f"list the pull requests of {self.repository.path}"
        query = {"state": "open", **dict([self.page_size])}
        found = self._connection.pages(what, f"{self._below}/pulls", query)
        return [self._read(what, one) async for one in found]

    async def comments(self, number: int) -> list[Comment]:
        what = f"read the comments on pull request {number} of {self.repository.path}"
        found = self._connection.pages(what, f"{self._below}/issues/{number}/comments", dict([self.page_size]))
        return sorted([self._comment(what, one) async for one in found], key=lambda one: one.id)

    async def create_comment(self, number: int, body: str) -> Comment:
        what = f"comment on pull request {number} of {self.repository.path}"
        path = f"{self._below}/issues/{number}/comments"
        return self._comment(what, await self._connection.document(what, "POST", path, body={"body": body}))

    async def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        what = f"edit comment {comment} on pull request {number} of {self.repository.path}"
        path = f"{self._below}/issues/comments/{comment}"
        return self._comment(what, await self._connection.document(what, "PATCH", path, body={"body": body}))

    async def delete_comment(self, number: int, comment: int) -> None:
        what = f"delete comment {comment} on pull request {number} of {self.repository.path}"
        await self._connection.ask(what, "DELETE", f"{self._below}/issues/comments/{comment}", absent=True)

    async def set_status(self, sha: str, context: str, state: State, description: str = "", url: str = "") -> None:
        what = f"set the status {context} of {sha[:8]} in {self.repository.path}"
        body = {
            "state": state.value,
            "context": context,
            "description": shortened(description, self.longest_description),
        }
        if url:
            body["target_url"] = url
        await self._connection.ask(what, "POST", f"{self._below}/statuses/{quote(sha, safe='')}", body=body)

    async def may_approve(self, user: str) -> bool:
        what = f"ask what {user} may do in {self.repository.path}"
        path = f"{self._below}/collaborators/{quote(user, safe='')}/permission"
        answer = await self._connection.ask(what, "GET", path, absent=True)
        if answer.status == 404:  # no such user
            return False
        return self._connection.read(what, answer).some_text("permission") in WRITES

    def _read(self, what: str, said: Document) -> PullRequest:
        try:
            return parse_pull_request(said)
        except UnreadableError as error:
            raise self._unreadable(what, error) from None

    def _comment(self, what: str, said: Document) -> Comment:
        try:
            return parse_comment(said)
        except UnreadableError as error:
            raise self._unreadable(what, error) from None

    def _unreadable(self, what: str, error: UnreadableError) -> FleetError:
        return self._connection.unreadable(what, error)


def api(url: str) -> str:
    """Where the API of a GitHub begins: github.com and its data residences have a host for it, servers a path."""
    place = urlsplit(url)
    if place.hostname == "github.com" or (place.hostname or "").endswith(".ghe.com"):
        return f"{place.scheme}://api.{place.netloc}"
    return f"{url}/api/v3"


def graphql(url: str) -> str:
    root = api(url)
    return f"{root.removesuffix('/v3')}/graphql" if root.endswith("/api/v3") else f"{root}/graphql"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
