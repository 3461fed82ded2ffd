"""The lab's forge as a test sees it: users with tokens, repositories, pull requests, comments, statuses, webhooks.

What is missing here is one `api` call away: https://docs.gitea.com/api is the whole of it.
"""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from fleet.errors import ResourceError
from fleet.testing.git import git
from fleet.testing.http import exchange


class ForgeError(ResourceError):
    """A request that the forge refused: `status` is that of its HTTP response."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ForgeUser:
    """A user of the forge. With a token, that is what it identifies itself with, else its password."""

    url: str
    name: str
    password: str
    token: str = ""

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the forge's API below /api/v1, in JSON; what the forge refuses raises ForgeError."""
        login = b64encode(f"{self.name}:{self.password}".encode()).decode()
        headers = {"Authorization": f"token {self.token}" if self.token else f"Basic {login}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = b"" if body is None else orjson.dumps(body)
        response = exchange(method, f"{self.url}/api/v1{path}", headers=headers, body=content)
        if not response.good:
            text = response.body.decode(errors="replace")[:600]
            raise ForgeError(f"{method} {path} by {self.name}: {response.status} {text}", response.status)
        return orjson.loads(response.body) if response.body else None

    def new_token(self, *scopes: str) -> str:
        """Make another token, by default for everything; scopes such as "read:repository", "write:issue"."""
        fields = {"name": f"token-{secrets.token_hex(4)}", "scopes": list(scopes) or ["all"]}
        token: str = replace(self, token="").api("POST", f"/users/{self.name}/tokens", fields)["sha1"]
        return token

    def repository(self, name: str, *, private: bool = False) -> Repository:
        """Make a new and empty repository of this user."""
        self.api("POST", "/user/repos", {"name": name, "private": private, "default_branch": "main"})
        return Repository(self, self.name, name)


@dataclass(frozen=True, slots=True)
class Forge:
    """A running forge, its administrator, and a user of the test's own."""

    url: str
    administrator: ForgeUser
    user: ForgeUser
    certificate: Path  # of the authority that signed the forge's: for pods, which trust no file of this machine

    @classmethod
    def of(cls, url: str, administrator: str, password: str, certificate: Path) -> Forge:
        root = ForgeUser(url, administrator, password)
        return cls(url, root, _new_user(root), certificate)

    def new_user(self) -> ForgeUser:
        """Make one more user, with a token."""
        return _new_user(self.administrator)

    def repository(self, name: str, *, private: bool = False) -> Repository:
        """Make a new and empty repository of the test's user."""
        return self.user.repository(name, private=private)


def _new_user(administrator: ForgeUser) -> ForgeUser:
    name, password = f"user-{secrets.token_hex(4)}", secrets.token_hex(8)
    fields = {"username": name, "password": password, "email": f"{name}@example.com", "must_change_password": False}
    administrator.api("POST", "/admin/users", fields)
    user = ForgeUser(administrator.url, name, password)
    return replace(user, token=user.new_token())


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, and the user who acts on it; `as_user` is the same for another user."""

    user: ForgeUser
    owner: str
    name: str

    def as_user(self, user: ForgeUser) -> Repository:
        """Return the same repository as another user acts on it."""
        return replace(self, user=user)

    @property
    def url(self) -> str:
        """Return the address of the repository for git, without credentials; the same in pods."""
        return f"{self.user.url}/{self.owner}/{self.name}.git"

    @property
    def url_with_token(self) -> str:
        parts = urlsplit(self.url)
        return parts._replace(netloc=f"{self.user.name}:{self.user.token}@{parts.netloc}").geturl()

    def clone(self, target: Path) -> Path:
        """Make a working clone that may push, with a user configured."""
        git(target.parent, "clone", "--quiet", self.url_with_token, str(target))
        git(target, "config", "user.name", self.user.name)
        git(target, "config", "user.email", f"{self.user.name}@example.com")
        return target

    def push(self, clone: Path, branch: str = "main") -> str:
        """Push what a clone has checked out, wait until the forge has taken note, and return the commit.

        Git has it at once. The forge's database, and so its API and its pages, have it a moment later.
        """
        commit = git(clone, "rev-parse", "HEAD").strip()
        git(clone, "push", "--quiet", self.url_with_token, f"HEAD:refs/heads/{branch}")
        deadline = time.monotonic() + 60
        while not self._lists(branch, commit):
            if time.monotonic() > deadline:
                raise AssertionError(f"the forge does not list {commit} as {branch} of {self.name}")
            time.sleep(0.05)
        return commit

    def _lists(self, branch: str, commit: str) -> bool:
        branches = self.api("GET", "/branches?limit=1000") or []  # nothing at all before its first push
        return any((head["name"], head["commit"]["id"]) == (branch, commit) for head in branches)

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request below this repository, such as `api("GET", "/branches")`."""
        return self.user.api(method, f"/repos/{self.owner}/{self.name}{path}", body)

    def fork(self, user: ForgeUser) -> Repository:
        """Fork it for another user, who can ask for a pull from there."""
        self.as_user(user).api("POST", "/forks", {})
        return Repository(user, user.name, self.name)

    def give(self, user: ForgeUser, permission: str = "write") -> None:
        """Give another user rights: read, write or admin."""
        self.api("PUT", f"/collaborators/{user.name}", {"permission": permission})

    def pull_request(self, head: str, *, base: str = "main", title: str = "A change", body: str = "") -> PullRequest:
        """Ask for a pull of a branch; `head` is "branch", or "user:branch" of a fork."""
        pull = self.api("POST", "/pulls", {"head": head, "base": base, "title": title, "body": body})
        return PullRequest(self, pull["number"])

    def set_status(self, commit: str, state: str, context: str, description: str = "", url: str = "") -> None:
        """Set a commit status: pending, success, error, failure or warning."""
        fields = {"state": state, "context": context, "description": description, "target_url": url}
        self.api("POST", f"/statuses/{commit}", fields)

    def statuses(self, commit: str) -> dict[str, dict[str, Any]]:
        """Return the newest status of a commit for each context."""
        combined = self.api("GET", f"/commits/{quote(commit)}/status")
        return {status["context"]: status for status in combined["statuses"] or []}

    def webhook(self, url: str, secret: str, events: Sequence[str] = ("push", "pull_request", "issue_comment")) -> int:
        """Have the forge tell `url` of events; the body's HMAC is in the header X-Gitea-Signature."""
        config = {"url": url, "content_type": "json", "secret": secret}
        fields = {"type": "gitea", "active": True, "config": config, "events": list(events)}
        number: int = self.api("POST", "/hooks", fields)["id"]
        return number


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request of a repository."""

    repository: Repository
    number: int

    @property
    def state(self) -> dict[str, Any]:
        """Return what the forge has now: `state`, `merged`, `head`, `base`, `mergeable` and more."""
        pull: dict[str, Any] = self.repository.api("GET", f"/pulls/{self.number}")
        return pull

    def comment(self, text: str) -> Comment:
        """Write a comment."""
        comment = self.repository.api("POST", f"/issues/{self.number}/comments", {"body": text})
        return Comment(self.repository, comment["id"])

    def comments(self) -> list[dict[str, Any]]:
        """Return the comments in order, each with `id`, `body` and `user`."""
        comments: list[dict[str, Any]] = self.repository.api("GET", f"/issues/{self.number}/comments")
        return comments

    def merge(self, how: str = "merge") -> str:
        """Merge it ("merge", "squash" or "rebase") and return the commit that the base branch has now."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.repository.api("POST", f"/pulls/{self.number}/merge", {"Do": how})
                break
            except ForgeError as error:
                # The forge looks for conflicts after the last push, and until it has it says this.
                if "try again later" not in error.message or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        commit: str = self.state["merge_commit_sha"]
        return commit


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request."""

    repository: Repository
    id: int

    def edit(self, text: str) -> None:
        self.repository.api("PATCH", f"/issues/comments/{self.id}", {"body": text})

    def delete(self) -> None:
        self.repository.api("DELETE", f"/issues/comments/{self.id}")
