"""GitHub: its CI, its webhooks and answers read into our types, and the client of its REST API
(https://docs.github.com/rest).

Gitea's API is made after it, says things in almost the same form, and its client is a variant of this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from fleet.errors import ConfigurationError, ResourceError
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
from fleet.forge.http import ForgeConnection, RepositoryClient
from fleet.forge.json import JsonObject, UnreadableError
from fleet.forge.webhook import MOST_BYTES, is_digest, is_equal, sign_body

_ACTIONS = {
    "opened": Action.OPENED,
    "synchronize": Action.PUSHED,
    "synchronized": Action.PUSHED,  # Gitea's spelling
    "reopened": Action.REOPENED,
}


def parse_pull_request(document: JsonObject) -> PullRequest:
    base_repository = document.number("base.repo.id")
    head = document.part("head")
    return PullRequest(
        number=document.number("number"),
        title=document.text("title"),
        author=document.some_text("user.login"),
        url=document.text("html_url"),
        base_ref=document.text("base.ref"),
        base_sha=document.commit("base.sha"),
        head_ref=head.text("ref"),
        head_sha=head.commit("sha"),
        fork=not head.has("repo") or head.number("repo.id") != base_repository,
        head_clone_url=head.some_text("repo.clone_url"),
        is_open=document.text("state") == "open",
        merged=document.has("merged_at"),
    )


def parse_comment(document: JsonObject) -> Comment:
    return Comment(
        document.number("id"), document.some_text("body"), document.some_text("user.login"), document.text("html_url")
    )


def parse_repository(kind: str, document: JsonObject) -> ForgeRepository:
    """Read a repository. The forge's own URL is what is left of its URL without its path: so sub-paths are known."""
    path, url = document.text("full_name"), document.text("html_url").rstrip("/")
    if not url.endswith(f"/{path}") or path.count("/") != 1:
        raise UnreadableError("repository.html_url does not end with repository.full_name")
    return ForgeRepository(kind, url.removesuffix(f"/{path}"), path)


def parse_event(kind: str, name: str, document: JsonObject) -> Event | None:
    """Return what an event of this name means to us; None where it means nothing."""
    if name == "push":
        return PushEvent(
            _own_repository(kind, document),
            document.text("ref"),
            document.commit("before"),
            document.commit("after"),
        )
    if name == "pull_request":
        action = _action(document)
        if action is None:
            return None
        return PullRequestEvent(
            _own_repository(kind, document), parse_pull_request(document.part("pull_request")), action
        )
    if name == "issue_comment" and document.text("action") == "created" and _is_of_pull_request(document):
        comment = parse_comment(document.part("comment"))
        return CommentEvent(
            _own_repository(kind, document),
            document.number("issue.number"),
            comment.author,
            comment.body,
            comment.id,
        )
    return None


def _own_repository(kind: str, document: JsonObject) -> ForgeRepository:
    return parse_repository(kind, document.part("repository"))


def _action(document: JsonObject) -> Action | None:
    name = document.text("action")
    if name == "closed":
        return Action.MERGED if document.has("pull_request.merged") else Action.CLOSED
    if name == "edited":  # another branch to merge into makes another change of it; a new title does not
        return Action.PUSHED if document.has("changes.base") or document.has("changes.ref") else None
    return _ACTIONS.get(name)


def _is_of_pull_request(document: JsonObject) -> bool:
    return document.has("issue.pull_request") or document.has("is_pull")


def read_actions_job(kind: str, environment: Mapping[str, str]) -> CiJob:
    """Read a job of GitHub Actions, or of Gitea's, which have the same variables."""
    url = read_variable(environment, "GITHUB_SERVER_URL")
    repository = ForgeRepository(kind, url.rstrip("/"), read_variable(environment, "GITHUB_REPOSITORY"))
    event = environment.get("GITHUB_EVENT_PATH", "")
    if not event:
        return CiJob(repository)
    try:
        event_data = JsonObject.of(_read_event_file(Path(event)))
        if event_data.has("pull_request.number"):
            pull_request = event_data.part("pull_request")
            return CiJob(
                repository,
                pull_request.number("number"),
                pull_request.commit("head.sha"),
                pull_request.some_text("head.ref"),
                pull_request.some_text("base.ref"),
                pull_request.some_text("base.sha"),
            )
        if _is_of_pull_request(event_data):
            return CiJob(repository, event_data.number("issue.number"))
    except UnreadableError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.message}") from None
    return CiJob(repository)


def _read_event_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.strerror}") from None


WRITES = frozenset({"owner", "admin", "write"})  # GitHub says `write` for its role maintain too


class GitHub(RepositoryClient):
    """Client of one repository on a GitHub."""

    longest_comment = 65_536
    longest_description = 140
    page_size: tuple[str, int] = ("per_page", 100)

    def __init__(self, repository: ForgeRepository, token: str) -> None:
        super().__init__(repository, token)
        owner, _, name = repository.path.partition("/")
        self._below = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"

    def _new_connection(self, token: str) -> ForgeConnection:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        return ForgeConnection(api_url(self.repository.url), {**headers, "Authorization": f"Bearer {token}"}, token)

    async def me(self) -> str:
        """Ask GraphQL for the token's owner: the REST API knows none for the token that GitHub gives to its Actions."""
        if not self._me:
            what = "ask whose token it is"
            query = {"query": "query { viewer { login } }"}
            viewer = await self._connection.document(what, "POST", graphql_url(self.repository.url), body=query)
            self._me = viewer.some_text("data.viewer.login")
            if not self._me:
                raise ResourceError(f"cannot {what}: {self.repository.url} does not say")
        return self._me

    async def pull_request(self, number: int) -> PullRequest:
        what = f"look at pull request {number} of {self.repository.path}"
        document = await self._connection.document(what, "GET", f"{self._below}/pulls/{number}")
        return self._parse(what, parse_pull_request, document)

    async def pull_requests(self) -> list[PullRequest]:
        what = f"list the pull requests of {self.repository.path}"
        query = {"state": "open", **dict([self.page_size])}
        documents = self._connection.pages(what, f"{self._below}/pulls", query)
        return [self._parse(what, parse_pull_request, document) async for document in documents]

    async def comments(self, number: int) -> list[Comment]:
        what = f"read the comments on pull request {number} of {self.repository.path}"
        documents = self._connection.pages(what, f"{self._below}/issues/{number}/comments", dict([self.page_size]))
        comments = [self._parse(what, parse_comment, document) async for document in documents]
        return sorted(comments, key=lambda comment: comment.id)

    async def create_comment(self, number: int, body: str) -> Comment:
        what = f"comment on pull request {number} of {self.repository.path}"
        path = f"{self._below}/issues/{number}/comments"
        document = await self._connection.document(what, "POST", path, body={"body": body})
        return self._parse(what, parse_comment, document)

    async def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        what = f"edit comment {comment} on pull request {number} of {self.repository.path}"
        path = f"{self._below}/issues/comments/{comment}"
        document = await self._connection.document(what, "PATCH", path, body={"body": body})
        return self._parse(what, parse_comment, document)

    async def delete_comment(self, number: int, comment: int) -> None:
        what = f"delete comment {comment} on pull request {number} of {self.repository.path}"
        await self._connection.request(what, "DELETE", f"{self._below}/issues/comments/{comment}", absent=True)

    async def set_status(
        self, sha: str, context: str, state: CommitState, description: str = "", url: str = ""
    ) -> None:
        what = f"set the status {context} of {sha[:8]} in {self.repository.path}"
        body = {
            "state": state.value,
            "context": context,
            "description": shorten(description, self.longest_description),
        }
        if url:
            body["target_url"] = url
        await self._connection.request(what, "POST", f"{self._below}/statuses/{quote(sha, safe='')}", body=body)

    async def may_approve(self, user: str) -> bool:
        what = f"ask what {user} may do in {self.repository.path}"
        path = f"{self._below}/collaborators/{quote(user, safe='')}/permission"
        response = await self._connection.request(what, "GET", path, absent=True)
        if response.status == 404:  # no such user
            return False
        return self._connection.read(what, response).some_text("permission") in WRITES


def api_url(url: str) -> str:
    """Return where the API begins: github.com and GitHub's data residences have a host for it, servers a path."""
    parts = urlsplit(url)
    if parts.hostname == "github.com" or (parts.hostname or "").endswith(".ghe.com"):
        return f"{parts.scheme}://api.{parts.netloc}"
    return f"{url}/api/v3"


def graphql_url(url: str) -> str:
    root = api_url(url)
    return f"{root.removesuffix('/v3')}/graphql" if root.endswith("/api/v3") else f"{root}/graphql"


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_SIGNATURE, _DIGEST_PREFIX = "x-hub-signature-256", "sha256="


def _may_be_signed(headers: Mapping[str, str], _: str) -> bool:
    signature = headers.get(_SIGNATURE, "")
    return signature.startswith(_DIGEST_PREFIX) and is_digest(signature.removeprefix(_DIGEST_PREFIX))


def _is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    return is_equal(f"{_DIGEST_PREFIX}{sign_body(body, secret)}", headers.get(_SIGNATURE, ""))


GITHUB = ForgeKind(
    name="github",
    connect=GitHub,
    hosts={"github.com": "github.com", "ssh.github.com": "github.com"},
    head_ref="refs/pull/{number}/head",
    token_variable="GITHUB_TOKEN",  # noqa: S106 - the name of the variable
    token_rights="one that may write pull requests and commit statuses",  # noqa: S106
    job_variables=("GITHUB_ACTIONS",),
    read_job=partial(read_actions_job, "github"),
    event_header="x-github-event",
    may_be_signed=_may_be_signed,
    is_signed=_is_signed,
    parse_event=partial(parse_event, "github"),
)
