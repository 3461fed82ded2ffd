"""What can be asked of a forge, whichever it is. `connect` gives the client of a repository, to be closed again.

    async with connect(repository, token) as forge:
        pull_request = await forge.pull_request(7)

Errors: AccessError for a token that is missing, wrong or may not do it; NotFoundError for what is not there, or hidden
from this token; ResourceError for a forge that refuses or cannot be reached; TimeoutError for one that takes too long.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from fleet.forge.model import Comment, Kind, PullRequest, Repository, State


class Forge(Protocol):
    """A repository on a forge, as the owner of a token may use it."""

    @property
    def repository(self) -> Repository: ...

    @property
    def longest_comment(self) -> int:
        """In characters; longer ones are refused."""
        ...

    async def me(self) -> str:
        """The name of the token's owner, as it stands at comments."""
        ...

    async def pull_request(self, number: int) -> PullRequest: ...

    async def pull_requests(self) -> list[PullRequest]:
        """Those that are open."""
        ...

    async def comments(self, number: int) -> list[Comment]:
        """All of a pull request, the oldest first."""
        ...

    async def create_comment(self, number: int, body: str) -> Comment: ...

    async def edit_comment(self, number: int, comment: int, body: str) -> Comment: ...

    async def delete_comment(self, number: int, comment: int) -> None: ...

    async def set_status(self, sha: str, context: str, state: State, description: str = "", url: str = "") -> None:
        """A commit status; descriptions that are too long for the forge are shortened."""
        ...

    async def may_approve(self, user: str) -> bool:
        """Whether that user may write to the repository, or more."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def connect(repository: Repository, token: str) -> Forge:
    """The client for a repository. Nothing is asked yet."""
    if repository.kind is Kind.GITHUB:
        from fleet.forge.github.client import GitHub  # noqa: PLC0415 - one of the three is needed

        return GitHub(repository, token)
    if repository.kind is Kind.GITLAB:
        from fleet.forge.gitlab.client import GitLab  # noqa: PLC0415

        return GitLab(repository, token)
    from fleet.forge.gitea.client import Gitea  # noqa: PLC0415

    return Gitea(repository, token)
