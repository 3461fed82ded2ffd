"""What GitHub says, read into our types. Gitea says it in almost the same form. Pure."""

from __future__ import annotations

from fleet.forge.document import Document, UnreadableError
from fleet.forge.model import (
    Action,
    Comment,
    Commented,
    Event,
    Kind,
    PullRequest,
    PullRequestChanged,
    Pushed,
    Repository,
)

_ACTIONS = {
    "opened": Action.OPENED,
    "synchronize": Action.PUSHED,
    "synchronized": Action.PUSHED,  # Gitea's spelling
    "reopened": Action.REOPENED,
}


def pull_request(said: Document) -> PullRequest:
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


def comment(said: Document) -> Comment:
    return Comment(said.number("id"), said.some_text("body"), said.some_text("user.login"), said.text("html_url"))


def repository(kind: Kind, said: Document) -> Repository:
    """The forge's own URL is what is left of the repository's without its path: so sub-paths are known."""
    path, url = said.text("full_name"), said.text("html_url").rstrip("/")
    if not url.endswith(f"/{path}") or path.count("/") != 1:
        raise UnreadableError("repository.html_url does not end with repository.full_name")
    return Repository(kind, url.removesuffix(f"/{path}"), path)


def event(kind: Kind, name: str, said: Document) -> Event | None:
    """What an event of this name means to us; None where it means nothing."""
    if name == "push":
        return Pushed(_where(kind, said), said.text("ref"), said.commit("before"), said.commit("after"))
    if name == "pull_request":
        action = _action(said)
        if action is None:
            return None
        return PullRequestChanged(_where(kind, said), pull_request(said.part("pull_request")), action)
    if name == "issue_comment" and said.text("action") == "created" and _is_of_pull_request(said):
        made = comment(said.part("comment"))
        return Commented(_where(kind, said), said.number("issue.number"), made.author, made.body, made.id)
    return None


def _where(kind: Kind, said: Document) -> Repository:
    return repository(kind, said.part("repository"))


def _action(said: Document) -> Action | None:
    name = said.text("action")
    if name == "closed":
        return Action.MERGED if said.has("pull_request.merged") else Action.CLOSED
    if name == "edited":  # another branch to merge into makes another change of it; a new title does not
        return Action.PUSHED if said.has("changes.base") or said.has("changes.ref") else None
    return _ACTIONS.get(name)


def _is_of_pull_request(said: Document) -> bool:
    return said.has("issue.pull_request") or said.has("is_pull")
