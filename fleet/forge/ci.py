"""What a CI job knows of the pull request that it runs for: from GitHub's, Gitea's and GitLab's variables.

Whoever starts a job sets these; they are as good as an option. Which pull request is meant, and which branches and
commits it has, is all that is taken from them: what it is like (whether it is a fork's, above all) the forge is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigurationError
from fleet.forge.document import Document, UnreadableError
from fleet.forge.model import Kind, Repository

MOST_BYTES = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    repository: Repository
    number: int | None = None  # of the pull request; None: the job is not about one
    head: str = ""  # the commit that the job was started for; "": the job is about whatever the head is
    head_ref: str = ""  # the branch that it is on; "" where the job is not told
    base_ref: str = ""  # the branch that it is to be merged into
    base_sha: str = ""  # a commit of that branch


def job(environment: Mapping[str, str]) -> Job | None:
    """None where this is no CI of a forge."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github(environment)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab(environment)
    return None


def is_gitea(environment: Mapping[str, str]) -> bool:
    """Gitea's and Forgejo's runners set GitHub's variables too."""
    return environment.get("GITEA_ACTIONS") == "true" or environment.get("FORGEJO_ACTIONS") == "true"


def _github(environment: Mapping[str, str]) -> Job:
    kind = Kind.GITEA if is_gitea(environment) else Kind.GITHUB
    url = _given(environment, "GITHUB_SERVER_URL")
    repository = Repository(kind, url.rstrip("/"), _given(environment, "GITHUB_REPOSITORY"))
    event = environment.get("GITHUB_EVENT_PATH", "")
    if not event:
        return Job(repository)
    try:
        said = Document.of(_content(Path(event)))
        if said.has("pull_request.number"):
            pull_request = said.part("pull_request")
            return Job(
                repository,
                pull_request.number("number"),
                pull_request.commit("head.sha"),
                pull_request.some_text("head.ref"),
                pull_request.some_text("base.ref"),
                pull_request.some_text("base.sha"),
            )
        if said.has("issue.pull_request") or said.has("is_pull"):
            return Job(repository, said.number("issue.number"))
    except UnreadableError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.message}") from None
    return Job(repository)


def _gitlab(environment: Mapping[str, str]) -> Job:
    path = environment.get("CI_MERGE_REQUEST_PROJECT_PATH", "") or _given(environment, "CI_PROJECT_PATH")
    repository = Repository(Kind.GITLAB, _given(environment, "CI_SERVER_URL").rstrip("/"), path)
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    if not number.isdecimal():
        return Job(repository)
    # In pipelines of merged results the job's own commit is the merge; then this one is the head.
    head = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "") or environment.get("CI_COMMIT_SHA", "")
    return Job(
        repository,
        int(number),
        head,
        environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),
    )


def _given(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(f"{name} is not set, and every job of this CI has it")
    return value


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"GITHUB_EVENT_PATH cannot be read: {error.strerror}") from None
