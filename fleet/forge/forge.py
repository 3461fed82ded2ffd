"""Protocol of a forge, and its data in one vocabulary. GitLab's merge requests are pull requests here, its notes
comments.

`connect` gives the client of a repository, to be closed again:

    async with connect(repository, token) as forge:
        pull_request = await forge.pull_request(7)

Errors: AccessError for a token that is missing, wrong or may not do it; NotFoundError for what is not there, or hidden
from this token; ResourceError for a forge that refuses or cannot be reached; TimeoutError for one that takes too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self

from fleet.errors import ConfigurationError
from fleet.forge import FORGES
from fleet.forge.json import JsonObject


@dataclass(frozen=True, slots=True)
class ForgeRepository:
    """A repository on a forge."""

    kind: str  # a name in FORGES
    url: str  # of the forge, with a sub-path if it has one, without a slash at its end: https://example.com/git
    path: str  # of the repository there: team/fleet; GitLab's groups may have groups

    def __str__(self) -> str:
        return f"{self.url}/{self.path}"


class CommitState(StrEnum):
    """State of a commit status."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"  # it could not be told


@dataclass(frozen=True, slots=True)
class PullRequest:
    number: int
    title: str
    author: str  # "" where the forge does not say
    url: str  # for people
    base_ref: str  # the branch that it is to be merged into
    base_sha: str  # a commit of that branch, not always its newest; "" where the forge does not say
    head_ref: str
    head_sha: str
    fork: bool  # the head is in another repository, or in none any more
    head_clone_url: str = ""  # "" where the forge does not say, or that repository is gone
    is_open: bool = True
    merged: bool = False

    def fetch_ref(self, kind: str) -> str:
        """Return where the forge keeps the head in the base's own repository, so that forks need not be asked."""
        return load_kind(kind).head_ref.format(number=self.number)


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    body: str
    author: str
    url: str


class Action(StrEnum):
    OPENED = "opened"
    PUSHED = "pushed"  # the head has another commit, or it is to be merged into another branch
    REOPENED = "reopened"
    CLOSED = "closed"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class PullRequestEvent:
    repository: ForgeRepository
    pull_request: PullRequest
    action: Action


@dataclass(frozen=True, slots=True)
class CommentEvent:
    """A new comment on a pull request."""

    repository: ForgeRepository
    number: int
    author: str
    body: str
    comment_id: int


@dataclass(frozen=True, slots=True)
class PushEvent:
    """A move of a ref; `before` or `after` is all zeros when it was made or removed."""

    repository: ForgeRepository
    ref: str  # in full: refs/heads/main
    before: str
    after: str


Event = PullRequestEvent | CommentEvent | PushEvent


class Forge(Protocol):
    """A repository on a forge, as the owner of a token may use it."""

    @property
    def repository(self) -> ForgeRepository: ...

    @property
    def longest_comment(self) -> int:
        """Return the length in characters above which comments are refused."""
        ...

    async def me(self) -> str:
        """Return the name of the token's owner, as it stands at comments."""
        ...

    async def pull_request(self, number: int) -> PullRequest: ...

    async def pull_requests(self) -> list[PullRequest]:
        """Return the open pull requests."""
        ...

    async def comments(self, number: int) -> list[Comment]:
        """Return all comments of a pull request, the oldest first."""
        ...

    async def create_comment(self, number: int, body: str) -> Comment: ...

    async def edit_comment(self, number: int, comment: int, body: str) -> Comment: ...

    async def delete_comment(self, number: int, comment: int) -> None: ...

    async def set_status(
        self, sha: str, context: str, state: CommitState, description: str = "", url: str = ""
    ) -> None:
        """Set a commit status; descriptions that are too long for the forge are shortened."""
        ...

    async def may_approve(self, user: str) -> bool:
        """Return whether that user may write to the repository, or more."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class CiJob:
    """A CI job of a forge."""

    repository: ForgeRepository
    number: int | None = None  # of the pull request; None: the job is not about one
    head: str = ""  # the commit that the job was started for; "": the job is about whatever the head is
    head_ref: str = ""  # the branch that it is on; "" where the job is not told
    base_ref: str = ""  # the branch that it is to be merged into
    base_sha: str = ""  # a commit of that branch


def read_variable(environment: Mapping[str, str], name: str) -> str:
    """Return a variable of a CI job; raise ConfigurationError where it is not set."""
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(f"{name} is not set, and every job of this CI has it")
    return value


@dataclass(frozen=True, slots=True)
class ForgeKind:
    """A kind of forge: all that differs between GitHub, GitLab and Gitea. Its functions are pure, but for `connect`."""

    name: str  # in fleet.toml and in the paths of webhooks: the one in FORGES
    connect: Callable[[ForgeRepository, str], Forge]  # the client for a repository and a token; makes no request yet

    hosts: Mapping[str, str]  # well-known hosts in addresses of remotes → the host of the web, as ssh may have its own
    head_ref: str  # where the head of pull request {number} is in the base's own repository

    token_variable: str  # the environment variable of its token
    token_rights: str  # what the token must be, in a hint

    job_variables: tuple[str, ...]  # one of these is "true" in its CI jobs
    read_job: Callable[[Mapping[str, str]], CiJob | None]  # from the job's variables; raises ConfigurationError

    # Webhooks; names of headers are in lower case.
    event_header: str  # the header with the name of the event
    may_be_signed: Callable[[Mapping[str, str], str], bool]  # by headers and secret: False if no body can make it right
    is_signed: Callable[[Mapping[str, str], bytes, str], bool]  # by headers, body and secret
    parse_event: Callable[[str, JsonObject], Event | None]  # of a name, from a body; None for what means nothing

    job_token: str = ""  # the variable of another forge in which its CI jobs have their token; "": none


def load_kind(name: str) -> ForgeKind:
    """Return the kind of forge with a name in FORGES."""
    module, _, attribute = FORGES[name].partition(":")
    kind: ForgeKind = getattr(import_module(module), attribute)
    return kind


def load_kinds() -> tuple[ForgeKind, ...]:
    """Return all kinds of forges, in the order of FORGES."""
    return tuple(load_kind(name) for name in FORGES)


def connect(repository: ForgeRepository, token: str) -> Forge:
    """Return the client for a repository. No request is made yet."""
    return load_kind(repository.kind).connect(repository, token)
