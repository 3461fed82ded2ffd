"""What GitLab says, read into our types. Pure."""

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

_ACTIONS = {"open": Action.OPENED, "reopen": Action.REOPENED, "close": Action.CLOSED, "merge": Action.MERGED}
_NOTES = ("Note Hook", "Confidential Note Hook")  # the latter where a note is internal


def pull_request(said: Document, head_clone_url: str = "") -> PullRequest:
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


def comment(said: Document, url: str) -> Comment:
    number = said.number("id")
    return Comment(number, said.some_text("body"), said.some_text("author.username"), f"{url}#note_{number}")


def repository(said: Document) -> Repository:
    path, url = said.text("path_with_namespace"), said.text("web_url").rstrip("/")
    if not url.endswith(f"/{path}") or "/" not in path:
        raise UnreadableError("project.web_url does not end with project.path_with_namespace")
    return Repository(Kind.GITLAB, url.removesuffix(f"/{path}"), path)


def event(name: str, said: Document) -> Event | None:
    """What an event of this name means to us; None where it means nothing."""
    if name in ("Push Hook", "Tag Push Hook"):
        where = repository(said.part("project"))
        return Pushed(where, said.text("ref"), said.commit("before"), said.commit("after"))
    if name == "Merge Request Hook":
        action = _action(said)
        if action is None:
            return None
        return PullRequestChanged(repository(said.part("project")), _changed(said, action), action)
    if name in _NOTES and _is_new_comment(said):
        made = said.part("object_attributes")
        return Commented(
            repository(said.part("project")),
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
