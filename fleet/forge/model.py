"""What every forge has, in one vocabulary. GitLab's merge requests are pull requests here, its notes comments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on a forge."""

    kind: Kind
    url: str  # of the forge, with a sub-path if it has one, without a slash at its end: https://example.com/git
    path: str  # of the repository there: team/fleet; GitLab's groups may have groups

    def __str__(self) -> str:
        return f"{self.url}/{self.path}"


class State(StrEnum):
    """Of a commit status."""

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

    def fetch_ref(self, kind: Kind) -> str:
        """Where the forge keeps the head in the base's own repository, so that forks need not be asked."""
        return f"refs/merge-requests/{self.number}/head" if kind is Kind.GITLAB else f"refs/pull/{self.number}/head"


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
class PullRequestChanged:
    repository: Repository
    pull_request: PullRequest
    action: Action


@dataclass(frozen=True, slots=True)
class Commented:
    """Somebody wrote a comment on a pull request."""

    repository: Repository
    number: int
    author: str
    body: str
    comment_id: int


@dataclass(frozen=True, slots=True)
class Pushed:
    """A ref moved; `before` or `after` is all zeros when it was made or removed."""

    repository: Repository
    ref: str  # in full: refs/heads/main
    before: str
    after: str


Event = PullRequestChanged | Commented | Pushed
